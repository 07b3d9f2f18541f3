// The platform's circuit breaker: what stops the retries, how gently it asks whether they may go on, and what lets them.
import { test } from 'vitest'
import { play } from '../../support/script.ts'

/** After what happens: the retries that may go out (all, one at a time, none), the trouble, and the pings since the last time. */
const scripts: Record<string, string> = {
  'answers about the record are no trouble':
    'note accepted 99; note resolved 99; note 400 99; note gone 99; breaker -> all, no trouble; lists -> 0',
  'nor is throttling': 'note 429 99; breaker -> all, no trouble; lists -> 0',
  'nor are two failures in a row, of any kind':
    'note unreachable 2; note 429; note 500 2; note accepted; note 404 2; note 400; breaker -> all, no trouble; lists -> 0',
  'three: one list call, and all goes on where it is answered': 'note 500 3; breaker -> all, no trouble; lists -> 1',
  'the row begins anew after it':
    'note 500 3; lists -> 1; note unreachable 2; lists -> 0; note 500; lists -> 1; breaker -> all, no trouble',
  'three of several kinds': 'list 500; note 404; note 500; note unreachable; breaker -> none, platform; lists -> 1',
  'three answers of a gateway that answers lists as well':
    'list 404; note 404 3; breaker -> none, platform; lists -> 1',
  'three answers of a gateway that lets lists pass: one PATCH may try':
    'note 404 3; breaker -> one, intercepted; lists -> 1; wait 1h; lists -> 0; note 404; breaker -> none, intercepted',
  'while it answers: one PATCH a pause, and the list is asked before each': `
    note 404 3; note 404; wait 999ms; breaker -> none, intercepted; wait 1ms; breaker -> one, intercepted; lists -> 2
    note 404; wait 1999ms; breaker -> none, intercepted; wait 1ms; breaker -> one, intercepted; lists -> 1`,
  'a record that it answers for alone, among others, is no trouble':
    'note 404 2; note accepted; note 404 2; breaker -> all, no trouble',
  'nothing goes out while the platform is asked':
    'list works 500ms; note 500 3; breaker -> none, no trouble; wait 500ms; breaker -> all, no trouble; lists -> 1',
  'no token is no failure of the platform':
    'list no-token; note 500 3; breaker -> none, no-token; list 500; wait 10s; breaker -> none, platform',
  '401 of the list is no answer': 'list 401; note 500 3; breaker -> none, platform',
  'late answers change nothing':
    'list 500; note 500 3; note accepted; note 500 3; note 429; breaker -> none, platform; lists -> 1',
  'it goes on when the platform answers again':
    'list 500; note 500 3; wait 900ms; list works; breaker -> none, platform; wait 100ms; breaker -> all, no trouble',
  'and when two sweeps succeed, though a list of all records fails': `list 500 0ms all; note 500 3; breaker -> none, platform
    sweep -> complete 0; breaker -> none, platform; sweep -> complete 0; breaker -> all, no trouble`,
  'a refusal stops all at once': 'note 401; breaker -> none, unauthorized; lists -> 0',
  'so does no token to be had, until a list goes out':
    'list no-token; lacks-token; wait 1s; breaker -> none, no-token; list works; wait 10s; breaker -> all, no trouble',
  'or a sweep succeeds: it is asked at once': `list no-token; lacks-token; wait 1s; breaker -> none, no-token; list works
    sweep -> complete 0; wait 1ms; breaker -> all, no trouble`,
  'while the list is refused, no PATCH goes out':
    'list 403; note 401; wait 1h; breaker -> none, unauthorized; lists -> 19',
  'when the list is allowed, one PATCH may try':
    'note 401; wait 1s; breaker -> one, unauthorized; lists -> 1; wait 1min; lists -> 0',
  'while others pass, two in a row are of single records, and the third is of all':
    'note accepted; note 401 2; note accepted; note 401 2; breaker -> all, no trouble; note 401; breaker -> none, unauthorized',
  'so is one, when none has passed for 15 min': `
    note accepted; wait 899999ms; note 401; breaker -> all, no trouble
    note accepted; wait 15min; note 401; breaker -> none, unauthorized`,
  'refusals of others in flight make no pause longer': 'note 401 7; wait 1s; breaker -> one, unauthorized; lists -> 1',
  'a refusal while it is asked is not forgotten':
    'list works 500ms; note 500 3; wait 1ms; note 401; wait 499ms; breaker -> none, unauthorized; lists -> 1',
  'a refusal while it is down is heard': `
    list 500; note 500 3; wait 1ms; note 401; list works; wait 2s; breaker -> one, unauthorized
    note accepted; breaker -> all, no trouble; lists -> 2`,
  'so is one while it is asked whether it is up again, and makes no pause longer':
    'list 500; note 500 3; list works 500ms; wait 1.2s; note 401 2; wait 300ms; breaker -> one, unauthorized; lists -> 2',
  ...Object.fromEntries(
    ['accepted', 'resolved', '400', 'gone'].map((result) => [
      `a trial that gives ${result} shows that we are let in, and that retries pass again`,
      `note 401; wait 1s; note ${result}; breaker -> all, no trouble; lists -> 1
       note 404 3; note ${result}; breaker -> all, no trouble; lists -> 1`,
    ]),
  ),
  ...Object.fromEntries(
    ['unreachable', '500', '404'].map((result) => [
      `a trial that gives ${result} shows nothing: the next one comes after a longer pause`,
      `note 401; wait 1s; note ${result}; wait 1999ms; breaker -> none, unauthorized; wait 1ms; breaker -> one, unauthorized`,
    ]),
  ),
  'a trial that is throttled is none: the next one may go':
    'note 401; wait 1s; note 429; breaker -> one, unauthorized; note accepted; breaker -> all, no trouble',
  'a retry that was on its way before the refusal is not the trial': `
    wait 10ms; note 401; wait 1s; late accepted 1010ms; breaker -> one, unauthorized
    note accepted; breaker -> all, no trouble`,
  'the gate is shut once a ping has waited for over a second, since it was sent': `
    list works 20s; note 500 3; wait 1s; gates -> none; wait 1ms; gates -> platform since 1.001s by retry
    breaker -> none, no trouble; wait 18999ms; gates -> none`,
  'and stays shut, since then, when it was not answered':
    'list 500 20s; note 500 3; wait 20s; gates -> platform since 20s by list; breaker -> none, platform',
  'a sweep that lists ends it while one PATCH may try in place of the ping':
    'list works 20s; note 500 3; skip; breaker -> one, platform; listed; breaker -> all, no trouble',
  'the call that failed last is named, until lists pass': `
    note 401; gates -> unauthorized since 0s by retry; list 403; wait 1s; gates -> unauthorized since 1s by list
    list works; wait 2s; gates -> unauthorized since 3s`,
  'a platform that is down is asked after 1 s, doubling to a minute; after an answer the pauses begin anew': `
    list 500; note 500 3; lists -> 1; pauses 8 -> 1 2 4 8 16 32 60 60
    list works; wait 5min; breaker -> all, no trouble; list 500; note 500 3; lists -> 2; pauses 2 -> 1 2`,
  'while PATCHes are refused, to 5 min': 'list 403; note 401; pauses 10 -> 1 2 4 8 16 32 64 128 256 300',
  'while PATCHes are refused and the list is not: one PATCH a pause': `
    note 401; wait 1s; note 401; wait 1999ms; breaker -> none, unauthorized; wait 1ms; breaker -> one, unauthorized
    note 401; wait 3999ms; breaker -> none, unauthorized; wait 1ms; breaker -> one, unauthorized; lists -> 3`,
  'a bug in the ping is a bug, not a platform that is down': 'list bug; note 500 3; ends -> with TypeError: a bug',
}

test.each(Object.entries(scripts))('%s', async (_, script) => {
  await play(`start; ${script}`, { random: 0 })
})

test.each([
  ['processing', 'note 401; sent lost; check processing 1s; breaker -> all, no trouble'],
  ['a new attempt', 'note 401; sent lost; check failed 1s; breaker -> all, no trouble'],
  ['it unchanged: it may not have got through', 'note 401; sent lost; check as-was 1s; breaker -> none, unauthorized'],
  ['one from before the refusal', 'sent lost; wait 1ms; note 401; check processing 1s; breaker -> none, unauthorized'],
])('a check of a trial without a response shows %s', async (_, script) => {
  await play(script)
})

test('jitter makes the pauses only ever shorter', async () => {
  await play('start; list 500; note 500 3; lists -> 1; wait 550ms; lists -> 1; wait 1050ms; lists -> 1', {
    random: 0.999,
  })
})
