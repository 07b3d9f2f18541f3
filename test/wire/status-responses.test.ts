// `status`, `wait`, `pause`, `resume`, `probe` and `plan` over real HTTP, each response of the daemon as a row: what is said, and how it ends.
import { expect, test } from 'vitest'
import { toStatus } from '../../src/ops/status.ts'
import type { StatusState } from '../../src/ops/status-document.ts'
import { beside, type Reply } from '../support/beside.ts'
import { anIncident, aCause, incidentNow, noDecisions, uuid } from '../support/incident.ts'
import { runCommand } from '../support/command.ts'
import { aStatusState, noCauses, shut, throttled } from '../support/status.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const at = new Date(incidentNow).toISOString()
const status = (changes: Partial<StatusState> = {}): object => toStatus(aStatusState(changes))
const seen = { lastFullSweepAt: incidentNow, lastCompleteSweepAt: incidentNow }

/** The last sweep ended an hour ago: 429 to every list call since. */
const unlisted: Partial<StatusState> = {
  ...{ ...seen, ...throttled(1000) },
  sweeps: [{ kind: 'recent', result: 'complete', endedAt: new Date(incidentNow - 3_600_000), seconds: 1, listed: 0 }],
}

const standby: Partial<StatusState> = {
  ...shut('not-leader'),
  leadership: { isLeading: false, lease: 'a/b', identity: 'b_1', leader: 'a_1', since: 0, problem: undefined },
}

const open = { failed: { ...noDecisions, due: 1 } }
const lost = { failed: { ...noDecisions, exhausted: 2 } }

/** The receiver's ledger lacks two deliveries. */
const unprocessed: Partial<StatusState> = {
  books: {
    ...{ comparedUntil: incidentNow, dueAt: incidentNow, problem: undefined, isBehind: false, withoutKey: 0 },
    missed: {
      ...{ total: 2, delivered: 9, subscriptions: 1, eventTypes: 1, isConfirmed: true },
      ...{ firstAt: incidentNow, untilAt: incidentNow, ofSubscription: new Map(), causes: [] },
    },
  },
}

test.each<[what: string, states: (object | Reply)[], code: number, said: string]>([
  ['nothing is missing', [status(seen)], 0, 'test: Nothing is missing.'],
  ['it comes later', [status({ ...seen, ...open }), { status: 503, body: {} }, status(seen)], 0, 'Nothing is missing.'],
  [
    'of what is not all known, not never',
    [status({ ...lost, lastFullSweepAt: incidentNow }), status(seen)],
    0,
    'missing',
  ],
  ['never', [status({ ...seen, ...lost })], 1, '2 deliveries are exhausted, nothing else is missing.'],
  ['while retries are disabled', [status({ ...seen, ...open, ...shut('disabled') })], 1, 'Retries are switched off'],
  [
    'what is older than the window',
    [status({ ...seen, beyondWindow: 5 })],
    1,
    '5 failed deliveries are older than window.lookback, and not retried.',
  ],
  ['what the receiver lost', [status({ ...seen, ...unprocessed })], 1, 'No other missing delivery is known.'],
  [
    'no full sweep yet, and the time is over',
    [status(), status(), status(), status()],
    1,
    'Nothing is known yet. Timed out (--timeout).',
  ],
  [
    'the known ones have arrived, but nothing was listed for an hour',
    Array.from({ length: 4 }, () => status(unlisted)),
    1,
    'Nothing is missing; newer failures are not known yet. Timed out (--timeout).',
  ],
  [
    'until the platform has processed the rest',
    Array.from({ length: 4 }, () => status({ ...seen, stuckProcessing: 1 })),
    1,
    'No other missing delivery is known. Timed out (--timeout).',
  ],
  ['retries that were rejected before none was left', [status({ ...seen, ...shut('intercepted') })], 0, 'is missing'],
  ['on a standby', [status({ ...seen, ...standby })], 1, 'This instance stands by. a_1 leads: ask there.'],
  ['of another version', Array.from({ length: 5 }, () => ({ schemaVersion: 3, summary: {} })), 1, 'knows 2'],
])('wait: %s', async (_, states, code, said) => {
  const ran = await beside(() => states.shift() ?? {}, ['wait', '--until', 'recovered', '--timeout', '5s'])
  expect(ran.code, ran.err).toBe(code)
  expect(ran.out + ran.err).toContain(said)
})

test('wait asks until the end of the time, also a daemon that is away: 69', async () => {
  const clock = createVirtualClock()
  const args = ['wait', '--until', 'recovered', '--timeout', '30m', '--port', '1']
  const { code, err } = await clock.run(runCommand(args, { env: {}, clock, isTTY: true }), 31 * 60_000)
  expect([code, err]).toEqual([
    69,
    expect.stringMatching(
      /^\S.* Waiting for it\.\n\r\u001b\[K\w[^\n]*\r\u001b\[KTimed out \(--timeout\)\.\n$/,
    ) as string,
  ])
  expect(clock.monotonic()).toBeGreaterThanOrEqual(30 * 60_000)
})

const notices = [{ level: 'trouble', text: 'A notice.\u202e', advice: 'Mend\u001b[2J it.' }]
const eventTypes = { total: 1, list: [{ eventType: 'a\u001b[2Jb', records: 3 }] }

/** Sentences that are no daemon's, and an event type that would clear the screen. */
const shownNow: object = {
  ...toStatus(
    anIncident({
      ...{ onlyCounted: 500, subscriptions: { [uuid(2)]: 'eu\u001b[2J' } },
      causes: { ...noCauses, total: 12, records: 5, list: [aCause({ records: 3, eventTypes })] },
    }),
  ),
  summary: { level: 'waiting', headline: 'A \u001b[2Jheadline.', detail: 'Details.', advice: 'Advice.', notices },
}

test('status shows the sentences of the daemon, its numbers and causes, and as JSON its document', async () => {
  const { code, text } = await beside(() => shownNow, ['status'])
  expect(code).toBe(0)
  expect(text.replaceAll(/:\d{4,5},/g, ':PORT,'))
    .toBe(`payments-eu at http://127.0.0.1:PORT, version 1.2.3, 2026-01-15T12:00:00Z
waiting  A ?[2Jheadline.
         -> Details. Advice.

missing          at least 7,500 (4,300 due, 1,791 blocked, 876 backing-off, 24 awaiting, 9 exhausted, 500 only counted)
recovered        95 a minute, 1,240 in the last 24 h; the last 2 s ago
first expiry     in 6 d 21 h
done             Unknown: 1,791 deliveries wait for subscription eu?[2J.
retries          8 in flight, 16 awaiting outcome, at most 20 calls/s
last full sweep  12 s ago, newest events up to 11:58:48
next sweep       in 18 s

trouble  A notice.?
         -> Mend?[2J it.

SUBSCRIPTION  LAST FAILURE         MISSING  DECISION  NEXT RETRY  OLDEST  EVENT TYPES
9e3779b1      HTTP 503, 5 min ago        3  due       now         3 h     a?[2Jb
... and 11 more with 2 deliveries: --json lists them
... and 500 deliveries that are only counted: the backlog is full (backlog.maxRecords).
`)
  const quiet = await beside(() => status({ ...seen, ...lost }), ['status'])
  expect(quiet.out).toContain('recovered 0 in the 1 h since the start first expiry none that is retried')
  const asJson = await beside(() => shownNow, ['status', '--json'])
  expect(JSON.parse(asJson.text)).toEqual(JSON.parse(JSON.stringify(shownNow)))
})

test('status is coloured on a terminal, but not with NO_COLOR', async () => {
  const onScreen = (env = {}): Promise<string> =>
    beside(() => shownNow, ['status'], { isTTY: true, columns: 70, env }).then(({ text }) => text)
  expect(await onScreen({ NO_COLOR: '' })).toContain('\u001b[33mwaiting\u001b[39m  ')
  const plain = await onScreen({ NO_COLOR: '1' })
  expect(plain).not.toContain('\u001b')
  for (const line of plain.split('\n').slice(1)) expect(line.length).toBeLessThanOrEqual(70)
})

test('status shows the last incident alone, as text and as JSON', async () => {
  const incident = {
    since: '2026-01-15T02:46:00.000Z',
    begunBefore: true,
    oldestEvent: '2026-01-15T02:40:00.000Z',
    unlistedUntil: '2026-01-15T02:59:00.000Z',
    endedAt: '2026-01-15T03:26:10.000Z',
    peak: 1470,
    causes: [{ subscriptionId: uuid(3), responseStatusCode: 401, eventType: 'payment', failedAgain: 40 }],
    recovered: 1461,
    leftWithoutRetry: 7,
    failedAgain: 44,
    exhausted: 3,
    expired: 0,
    backingOff: 6,
    longestSeconds: 3125.5,
    gates: [
      { gate: 'paused', seconds: 60 },
      { gate: 'throttled', seconds: 0.4 },
      { gate: 'circuit', seconds: 1805 },
    ],
  }
  const asText = await beside(
    () => ({ ...status({ failed: { ...noDecisions, due: 6 } }), incident }),
    ['status', '--incident'],
  )
  expect(asText.text).toBe(`test: Last incident, with deliveries still missing
time           02:46:00 UTC or earlier to 03:26:10 UTC, 40 min
oldest event   02:40:00 UTC, the oldest one missing at its start
not listed     all or a part, until 02:59:00 UTC: sweeps failed
still missing  6 at its end: they are retried with backoff
peak           1,470 missing at once
recovered      1,461, the slowest 52 min after its event
left the list  7 without a delivery by this daemon
expired        none
failed again   44 retries. daa66d13, HTTP 401 to payment: 40; others: 4
gave up        3
blocked        30 min: "Nearly all retries of a subscription failed again: its circuit is open."
blocked        1 min: "Retries are paused by an operator."
`)
  const asJson = await beside(() => ({ ...status(), incident }), ['status', '--incident', '--json'])
  expect(JSON.parse(asJson.text)).toEqual({ schemaVersion: 2, instance: 'test', incident })
})

test.each<[string, Partial<StatusState>, string]>([
  ['listed', seen, 'no incident since the start'],
  ['not listed yet', {}, 'no incident is known. The first sweep is under way. Nothing is known yet.'],
  [
    'on a standby',
    standby,
    'no incident is known. This instance stands by: it does not hold the lease. Nothing is known yet. a_1 leads.',
  ],
])('status --incident without one, %s', async (_, state, said) => {
  const { text } = await beside(() => status(state), ['status', '--incident'])
  expect(text).toBe(`test: ${said}\n`)
})

test.each<[level: string, changes: Partial<StatusState>, code: number]>([
  ['trouble', seen, 0],
  ['working', seen, 0],
  ['waiting', { ...seen, ...shut('paused') }, 1],
  ['trouble', { ...seen, ...shut('paused') }, 0],
])('status --fail-on %s', async (level, changes, code) => {
  expect((await beside(() => status(changes), ['status', '--fail-on', level])).code).toBe(code)
})

const aPause = { since: at, until: null, reason: null, subscriptionId: null }

test.each<[args: string[], answer: object, code: number, said: string, state?: Partial<StatusState>]>([
  [['pause'], { ...aPause, paused: true, changed: true, pauses: [] }, 0, 'blue: retries paused since'],
  [
    ['pause'],
    { ...aPause, paused: true, changed: true, outlivesRestart: true, pauses: [] },
    0,
    'a restart does not end the pause',
  ],
  [
    ['pause', '--subscription', 'eu', '--for', '2h', '--reason', 'INC-7'],
    { ...aPause, until: at, reason: 'INC-7', paused: true, changed: true, pauses: [] },
    0,
    'retries of subscription eu paused since',
  ],
  [['pause'], { ...aPause, paused: true, changed: false, pauses: [] }, 0, 'retries are already paused, since'],
  [
    ['pause', '--subscription', 'payments eu'],
    { ...aPause, subscriptionId: uuid(5), paused: true, changed: true, pauses: [] },
    0,
    `webhook-reconciler resume --subscription ${uuid(5)} or a restart`,
  ],
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
  [['probe'], { circuits: 2, underWay: 0 }, 0, 'a probe is sent now: 2 circuits', {}],
  [['probe'], { circuits: 2, underWay: 1 }, 0, '2 probes wait: the receiver fails its health check'],
  [['probe'], { circuits: 0, underWay: 0 }, 0, 'no circuit waits for a probe'],
  [['probe'], { circuits: 0, underWay: 1 }, 1, '1 probe is under way', {}],
  [['probe'], { circuits: 0, underWay: 0, platform: true }, 0, 'within 30 s: check the status', {}],
  [
    ['probe'],
    { circuits: 2, underWay: 1, platform: true },
    0,
    'within 30 s; 2 probes wait: the receiver fails its health check',
  ],
  [['probe', '--json'], { circuits: 1, underWay: 0 }, 0, '"schemaVersion":2'],
])('%j, answered %j', async (args, answer, code, said, state = shut('receiver-down')) => {
  const blocked = status({ ...seen, ...state })
  const ran = await beside((_, url) => (url === '/status' ? blocked : { instance: 'blue', ...answer }), args)
  expect([ran.code, ran.err]).toEqual([code, ''])
  expect(ran.out).toContain(said)
})

test.each<[what: string, changes: Partial<StatusState>, code: number, said: string]>([
  ['nothing', seen, 0, '0 failed records. Nothing was changed.'],
  [
    'not seen whole',
    {},
    1,
    'No failed record is known. Nothing was changed. The first sweep is under way. Nothing is known yet.',
  ],
  ['not listed for an hour', unlisted, 1, 'No failed record is known.'],
  ['due', { ...seen, failed: { ...noDecisions, due: 40 } }, 0, 'Would retry now: 40, in about 2 s at 20 calls/s'],
  [
    'slowed down',
    { ...seen, maxRetriesPerSecond: 0.5, failed: { ...noDecisions, due: 40 } },
    0,
    'Would retry now: 40, in about 1 min at 0.5 retries/s (retry.maxPerSecond)',
  ],
  [
    'switched off',
    { ...seen, ...shut('disabled'), failed: { ...noDecisions, blocked: 40 } },
    0,
    'This is the plan for when they are on. Would retry now: 40, in about',
  ],
  [
    'switched off, and blocked',
    {
      ...seen,
      gates: [...(shut('disabled').gates ?? []), ...(shut('paused').gates ?? [])],
      failed: { ...noDecisions, blocked: 40 },
    },
    0,
    'This is the plan for when they are on. Blocked: 40, because retries are paused',
  ],
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
  const conclusions = /(?:Would retry now|Blocked|Under way|Later|Manual only|Not at all): \d+/g
  expect(ran.out.match(conclusions)).toEqual(said.match(conclusions))
})

test('plan of an instance that is named like a command', async () => {
  const { out } = await beside(() => status({ ...seen, instance: 'webhook-reconciler run 2' }), ['plan'])
  expect(out).toMatch(/^webhook-reconciler run 2 at http/)
})

test('plan on a standby names the leader', async () => {
  const { code, err, out } = await beside(() => status({ ...seen, ...standby }), ['plan'])
  expect([code, err, out]).toEqual([1, 'This instance stands by. a_1 leads: ask there. ', ''])
})

test('status --watch --json: a line each time, a daemon that is away may come back, and a signal ends it', async () => {
  const stop = new AbortController()
  const states: object[] = [status(seen), { status: 503, body: { error: '\u001b[2JIt stops.' } }, status(seen)]
  const script = (): object => states.shift() ?? {}
  let lines = 0
  const onOut = (): void => {
    lines += 1
    if (lines === 2) stop.abort(new Error('SIGINT'))
  }
  const ran = await beside(script, ['status', '--watch', '--json'], { signal: stop.signal, onOut })
  expect([ran.code, ran.out.match(/"schemaVersion"/g)?.length]).toEqual([130, 2])
  expect(ran.err).toContain(': ?[2JIt stops.')
})

test('status --watch clears a screen', async () => {
  const stop = new AbortController()
  const onOut = (): void => {
    stop.abort(new Error('SIGINT'))
  }
  const { code, text } = await beside(() => status(), ['status', '--watch'], {
    signal: stop.signal,
    isTTY: true,
    onOut,
  })
  expect([code, text]).toEqual([130, expect.stringMatching(/^\u001b\[H\u001b\[Jtest at /)])
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

test.each(['pause', 'resume', 'probe', 'retry 123e4567-e89b-12d3-a456-426614174000'])(
  'a daemon that hangs up after %s may have done it',
  async (command) => {
    const ran = await beside(() => ({ status: 0, body: {} }), command.split(' '))
    expect([ran.code, ran.out, ran.asked.length]).toEqual([1, '', 1])
    expect(ran.err).toContain('sent no full response (ECONNRESET): the command was sent but not confirmed.')
  },
)

test.each<[string, object, string]>([
  ['resume', { ...aPause, paused: false, changed: true, pauses: [] }, 'retries resumed'],
  ['probe', { circuits: 2, underWay: 0 }, 'a probe is sent now: 2 circuits'],
])('%s was done, though the status cannot be had after it', async (name, answer, said) => {
  const script = (_: string, url: string): object =>
    url === '/status' ? { status: 0, body: {} } : { instance: 'blue', ...answer }
  const ran = await beside(script, [name])
  expect([ran.code, ran.err]).toEqual([0, ''])
  expect(ran.out).toBe(
    `blue: ${said}; what still blocks retries is unknown: see podman exec app webhook-reconciler status `,
  )
})

test('what still blocks after resume: gates that block everything, and a pause of all', async () => {
  const held = { ...aPause, paused: true, changed: true, pauses: [aPause] }
  const gates = { ...seen, ...shut('circuit') }
  const script = (_: string, url: string): object => (url === '/status' ? status(gates) : { instance: 'blue', ...held })
  expect((await beside(script, ['resume'])).out).toMatch(/still blocked: all retries paused since \S+ $/)
})
