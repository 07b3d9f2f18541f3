// `status`, `wait`, `pause`, `resume`, `probe` and `plan` over real HTTP, each response of the daemon as a row: what is said, and how it ends.
import { expect, test } from 'vitest'
import { toStatus } from '../../src/ops/status.ts'
import type { StatusState } from '../../src/ops/status-document.ts'
import { beside, type Reply } from '../support/beside.ts'
import { incidentNow, noDecisions, uuid } from '../support/incident.ts'
import { aStatusState, shut } from '../support/status.ts'

const at = new Date(incidentNow).toISOString()
const status = (changes: Partial<StatusState> = {}): object => toStatus(aStatusState(changes))
const seen = { lastFullSweepAt: incidentNow, lastCompleteSweepAt: incidentNow }

const lost = { failed: { ...noDecisions, exhausted: 2 } }

test.each<[what: string, states: (object | Reply)[], code: number, said: string]>([
  ['nothing is missing', [status(seen)], 0, 'test: nothing is missing'],
  [
    'it comes later',
    [status({ ...seen, failed: { ...noDecisions, due: 1 } }), { status: 503, body: {} }, status(seen)],
    0,
    'nothing is missing',
  ],
  ['never', [status({ ...seen, ...lost })], 1, '2 deliveries are exhausted, nothing else is missing.'],
  [
    'no full sweep yet, and the time is over',
    [status(), status(), status(), status()],
    1,
    'Nothing is known yet. Timed out (--timeout).',
  ],
  ['of another version', Array.from({ length: 5 }, () => ({ schemaVersion: 3, summary: {} })), 1, 'knows 2'],
])('wait: %s', async (_, states, code, said) => {
  const ran = await beside(() => states.shift() ?? {}, ['wait', '--until', 'recovered', '--timeout', '5s'])
  expect(ran.code, ran.err).toBe(code)
  expect(ran.out + ran.err).toContain(said)
})

test.each<[level: string, changes: Partial<StatusState>, code: number]>([
  ['trouble', seen, 0],
  ['working', seen, 0],
  ['waiting', { ...seen, ...shut('paused') }, 1],
  ['trouble', { ...seen, ...shut('paused') }, 0],
])('status --fail-on %s', async (level, changes, code) => {
  expect((await beside(() => status(changes), ['status', '--fail-on', level])).code).toBe(code)
})

const since = at
const aPause = { since, until: null, reason: null, subscriptionId: null }

test.each<[args: string[], answer: object, code: number, said: string]>([
  [['pause'], { ...aPause, paused: true, changed: true, pauses: [] }, 0, 'blue: retries paused since'],
  [
    ['pause'],
    { ...aPause, paused: true, changed: true, outlivesRestart: true, pauses: [] },
    0,
    'a restart does not end the pause',
  ],
  [
    ['pause', '--subscription', 'eu', '--for', '2h', '--reason', 'INC-7'],
    { ...aPause, until: since, reason: 'INC-7', paused: true, changed: true, pauses: [] },
    0,
    'retries of subscription eu paused since',
  ],
  [['pause'], { ...aPause, paused: true, changed: false, pauses: [] }, 0, 'retries are already paused, since'],
  [
    ['resume', '--subscription', 'eu'],
    { ...aPause, paused: false, changed: false, pauses: [] },
    0,
    'retries of subscription eu were not paused',
  ],
  [
    ['resume'],
    { ...aPause, paused: false, changed: true, pauses: [{ ...aPause, subscriptionId: uuid(5) }] },
    0,
    `retries resumed; still blocked: `,
  ],
  [['probe'], { circuits: 2, underWay: 0 }, 0, 'cooldowns ended: 2 circuits'],
  [['probe'], { circuits: 0, underWay: 0 }, 0, 'no circuit was open'],
  [['probe'], { circuits: 0, underWay: 1 }, 1, '1 probe is under way'],
  [['probe', '--json'], { circuits: 1, underWay: 0 }, 0, '"schemaVersion":2'],
])('%j, answered %j', async (args, answer, code, said) => {
  const blocked = status({ ...seen, ...shut('receiver-down') })
  const ran = await beside((_, url) => (url === '/status' ? blocked : { instance: 'blue', ...answer }), args)
  expect([ran.code, ran.err]).toEqual([code, ''])
  expect(ran.out).toContain(said)
})

test.each<[what: string, changes: Partial<StatusState>, code: number, said: string]>([
  ['nothing', seen, 0, '0 failed records. Nothing was changed.'],
  ['not seen whole', {}, 1, 'At least 0 failed records.'],
  ['due', { ...seen, failed: { ...noDecisions, due: 40 } }, 0, 'Would retry now: 40, in about'],
  ['blocked', { ...seen, ...shut('paused'), failed: { ...noDecisions, blocked: 40 } }, 0, 'Blocked: 40, because'],
  [
    'awaited and later',
    { ...seen, failed: { ...noDecisions, awaiting: 3, 'backing-off': 4 } },
    0,
    'Under way: 3 await their outcome. Later: 4 backing off.',
  ],
  ['exhausted', { ...seen, failed: { ...noDecisions, exhausted: 3 } }, 0, 'Manual only: 3 exhausted'],
  ['excluded', { ...seen, failed: { ...noDecisions, excluded: 3 } }, 0, 'Not at all: 3 excluded'],
])('plan: %s', async (_, changes, code, said) => {
  const ran = await beside(() => status(changes), ['plan'])
  expect([ran.code, ran.err]).toEqual([code, ''])
  expect(ran.out).toContain(said)
})

test('status --watch --json: a line each time, a daemon that is away may come back, and a signal ends it', async () => {
  const stop = new AbortController()
  const states: object[] = [status(seen), { status: 503, body: {} }, status(seen)]
  const script = (): object => states.shift() ?? {}
  let lines = 0
  const onOut = (): void => {
    lines += 1
    if (lines === 2) stop.abort(new Error('SIGINT'))
  }
  const ran = await beside(script, ['status', '--watch', '--json'], { signal: stop.signal, onOut })
  expect([ran.code, ran.out.match(/"schemaVersion"/g)?.length]).toEqual([130, 2])
  expect(ran.err).toContain('returns HTTP 503')
})

test('a signal while a command is under way: it may have been done', async () => {
  const stop = new AbortController()
  const script = (): object => {
    stop.abort(new Error('SIGINT'))
    return {}
  }
  const ran = await beside(script, ['pause'], { signal: stop.signal })
  expect([ran.code, ran.err]).toEqual([130, expect.stringContaining('the command may have taken effect') as string])
})

test('what still blocks after resume: gates that block everything, and a pause of all', async () => {
  const held = { ...aPause, paused: true, changed: true, pauses: [aPause] }
  const gates = { ...seen, ...shut('circuit') }
  const script = (_: string, url: string): object => (url === '/status' ? status(gates) : { instance: 'blue', ...held })
  expect((await beside(script, ['resume'])).out).toMatch(/still blocked: all retries paused since \S+ $/)
})
