// Retries and their checks at work: how many at once, what is spared, how a stop ends, and storms of failures.
import { describe, expect, test } from 'vitest'
import { due } from '../../support/backlog.ts'
import { play } from '../../support/script.ts'
import { hold, noCircuits, reconcile } from '../../support/reconcile.ts'

const off = { circuit: noCircuits }

test('each retry says why it was sent', async () => {
  await play('failed 30 a; failed 1 b age=165h; deliver a 503; start; wait 1min; why -> due 9, expiring 1, probe 3')
})

describe('slots and fences', () => {
  test.each([1, 2, 8, 64])(
    'no more than %i at once, one of each record, all of them in the end',
    async (concurrency) => {
      const sweeps = 'wait 500ms; ticks 100ms 100ms; '.repeat(5)
      // Of one subscription the last slot stays free for another.
      const most = Math.max(1, concurrency - 1)
      await play(
        `failed 300 a; patch works 250ms; start; ${sweeps} wait 10min
       most -> ${most}; most twins -> 1; left -> none; retries -> 300; flying -> 0`,
        { concurrency, ...off },
      )
    },
  )

  const slots: Record<string, string> = {
    'the last free slot is for a subscription that has none in flight': `
      given concurrency=4; patch works 1h a; failed 50 a; start; wait 1min; flying -> 3
      failed 1 b; wait 1s; left -> a 50; most a -> 3`,
    'a fence waits for what is in flight inside of it, not for what is outside': `
      patch works 500ms a; patch works 60s b; failed 1 a age=1d; failed 1 b age=2d; start; flying -> 2
      fence 25h 23h -> free; flying -> 1`,
    'nothing goes out inside of a fence that waits; one that is given up is taken down again': `
      patch works 1s; failed 2 a; start; flying -> 2; failed 1 b
      fence 3d 0d given-up -> Error: the sweep was given up; wait 5s; left -> none`,
    'a record that is seen resolved while it waits for the rate is left alone':
      'given maxPerSecond=1; failed 40 a; start; wait 100ms; resolved 5; wait 10min; left -> a 35',
    'records that always answer 500 keep no others from being retried, and each backs off by itself': `
      patch 500 0ms poison; failed 10 poison; failed 200 a; start; wait 20s; left -> poison 10; breaker -> all, no trouble
      wait 1h; retries -> at most 280; timers -> at most 2500`,
  }

  test.each(Object.entries(slots))('%s', async (_, script) => {
    await play(script, off)
  })
})

const ends: Record<string, string> = {
  'after a stop no new PATCH goes out, those in flight finish, and the loop ends': `
    patch works 5s; failed 100 a; start; wait 100ms; stop; wait 1s; flying -> 7; ends 10s -> in order
    flying -> 0; retries -> 7; left -> a 93`,
  'a bug in the client ends the loop, and nothing hangs': `
    patch bug; failed 20 a; start; ends -> with TypeError: a bug; retries -> at most 8; wait 1min; flying -> 0
    fence 7d 0d -> free`,
  'a bug is reported at once, although others in flight take long and the rate is paused': `
    patch works 1h a; patch bug 100ms b; failed 3 a; failed 1 b; start; flying -> 4; throttle 5min
    ends 1s -> with TypeError: a bug`,
  'a limit of the rate does not lengthen the backoff of a record':
    'patch 429; failed 20 a attempts=5; start; wait 30min; patch works; wait 2min; left -> none',
  'an idle loop turns every half minute, and one that waits for a Retry-After is not silent': `
    start; wait 29s; silent -> 29s; wait 1s; silent -> 0s
    throttle 295s; failed 1 a; wait 250s; silent -> 0s; retries -> 0; wait 46s; retries -> 1`,
}

test.each(Object.entries(ends))('%s', async (_, script) => {
  await play(script, off)
})

test('a stop in the moment in which the rate lets a retry go: it does not go', async () => {
  const records = [due()]
  await using world = reconcile({ records })
  hold(world, records)
  const { rate } = world
  const acquire = rate.acquire.bind(rate)
  rate.tryAcquire = () => false
  rate.acquire = async (kind, signal) => {
    await acquire(kind, signal)
    world.stop.abort()
  }
  await world.start()
  expect(world.platform.retries).toEqual([])
})

describe('checks', () => {
  const outage = 'wait 10min; outcomes -> none; checks -> at most'
  const back = 'list works; wait 10min; outcomes -> recovered'

  const checks: Record<string, string> = {
    'that fail back off, and lose nothing; after a success the backoff is short again': `
      failed 500 a apart=5s; deliver a 200 100ms; list 500; start; ${outage} 100; ${back} 500
      failed 1 a; list 500; wait 5s; list works; wait 10s; outcomes -> recovered 1`,
    'that fail go on as soon as a sweep has listed the window': `
      failed 5 a apart=5s; deliver a 200 100ms; list 500; start; wait 10min; list works; sweep -> complete 0; wait 3s; outcomes -> recovered 5`,
    'without a token back off within 10 s, as nothing is sent': `
      failed 2 a apart=1h; deliver a 200 100ms; list no-token; start; ${outage} 180; ${back} 2`,
    'of a span that cannot be listed search record by record': `
      failed 200 a apart=5s; deliver a 200 100ms; list 500 0ms spans; start; wait 5min
      outcomes -> recovered 200; checks -> at most 250`,
    'of an event that cannot be listed hold up no other, and go by its second': `
      failed 9 a apart=2h; failed 1 b age=1d; deliver a 200 100ms; deliver b 200 100ms; list 500 0ms b; start; wait 15s
      outcomes -> recovered 10; wait 2h; checks -> at most 20`,
    'of records that cannot be listed hold up no other, while sweeps list the rest': `
      failed 8 a age=1448min apart=1min; failed 200 b age=1435min apart=5s; deliver a 200 100ms; deliver b 200 100ms
      list 500 0ms older; sweep -> incomplete 200; start; wait 3min; outcomes -> recovered 200`,
    'of one alone that always fail end with giveUpAfter, too':
      'failed 1 a; deliver a 200 9h; start; wait 1s; list 500; wait 59min; outcomes -> none; wait 7min; outcomes -> unknown 1',
    'of records that are not shown any more become rare, and end with giveUpAfter': `
      failed 3 a apart=2h; deliver a 200 9h; start; wait 1s; hide; wait 59min; outcomes -> none
      wait 7min; outcomes -> unknown 3; checks -> at most 73`,
    'open the circuit of a receiver that dies within a minute, after 400 deliveries at most': `
      given circuits=1 maxPerSecond=20
      failed 2000 a apart=1s; deliver a 200 300ms; start; wait 1min; deliver a 503 300ms; wait 1min
      retries -> at most 1600; blocks a -> circuit`,
    'close the circuit of a receiver that is back, and end the backoffs of its failures at once': `
      given circuits=1
      failed 30 a attempts=5; deliver a 503; start; wait 3min; outcomes -> failed-again 15; deliver a 200; wait 45s
      outcomes -> recovered 30`,
  }

  test.each(Object.entries(checks))('%s', async (_, script) => {
    await play(script, { ...off, latencyMs: 20 })
  })
})

// Seven in flight (the eighth slot is for another subscription), two more until three have failed, and what a pause allows.
// 1 s doubling to a minute makes 16 to 20 pings, to 5 min while retries are refused ten or eleven; the outcome of a retry that was lost is looked for as well.
test.each([
  ['401 of everything', '401', '401', 7, 14, 0],
  ['no token: the backoff stays within 10 s', 'no-token', 'no-token', 7, 90, 0],
  ['403 of the PATCH, while the list is allowed', '403', 'works', 19, 14, 0],
  ['5xx of everything', '500', '500', 9, 20, 0],
  ['5xx of everything, which may have been taken', '500-lost', '500', 9, 20, 100],
  ['timed out to anything', 'lost', 'timeout', 9, 20, 100],
  ['404 of everything: a misrouted gateway', '404', '404', 9, 20, 0],
  ['404 of the PATCH: a gateway that lets lists pass', '404', 'works', 22, 14, 0],
])('a storm, %s: few calls go out, and all goes on afterwards', async (_, patch, list, retries, lists, checks) => {
  const of404 = list === 'works' ? 'intercepted' : 'platform'
  const trouble = { 401: 'unauthorized', 403: 'unauthorized', 404: of404, 'no-token': 'no-token' }[patch] ?? 'platform'
  await play(
    `failed 300 a age=3d apart=10min; patch ${patch}; list ${list}; start; wait 10min
     retries -> at most ${retries}; lists -> at most ${lists}; checks -> at most ${checks}
     breaker -> none, ${trouble}
     patch works; list works; wait 5min; breaker -> all, no trouble; wait 1h; left -> none`,
    { ...off, latencyMs: 50, maxPerSecond: 100 },
  )
})
