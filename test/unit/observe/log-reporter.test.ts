// What is logged of events: changes of state once, repetitions and single records at debug, few lines however bad it is; and the audit.
import { expect, test } from 'vitest'
import type { FactOf, TelemetryEvent } from '../../../src/observe/events.ts'
import { createLog, type LogOptions } from '../../../src/observe/log/log.ts'
import { createLogReporter } from '../../../src/observe/log/log-reporter.ts'
import type { CircuitState } from '../../../src/reconcile/retry/circuit-breaker.ts'
import {
  everyFact,
  failedSweep,
  outcomeFact,
  retryFact,
  sweepFact,
  tokenHad,
  tokenRefused,
} from '../../support/facts.ts'

type Line = Readonly<Record<string, unknown>> & { level: string; event: string }

/** The lines; of events that come one after the other, each so long after the one before. */
function written(facts: readonly TelemetryEvent[], options: Partial<LogOptions> = {}, everyMs = 0): Line[] {
  const lines: Line[] = []
  let now = 0
  const clock = { now: () => Date.UTC(2026, 0, 15, 12), monotonic: () => now }
  const write = (text: string): unknown => lines.push(JSON.parse(text) as Line)
  const log = createLog({ level: 'silent', instance: 'i', clock, write, ...options })
  const reporter = createLogReporter(log, clock)
  for (const fact of facts) {
    reporter.observe(fact)
    now += everyMs
  }
  return lines
}

/** Those at info and above, as `level: event` and their fields. */
function told(facts: readonly TelemetryEvent[], everyMs = 0) {
  const lines = written(facts, { level: 'info' }, everyMs)
  return lines.map(({ event, level, ...fields }) => ({ line: `${level}: ${event}`, fields }))
}

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index))
}

const line = (text: string, fields: object = {}): object => ({ line: text, fields })

const jobStarted: TelemetryEvent = {
  ...{ type: 'operator', command: 'retry', job: 'a', by: 'proof' },
  ...{ selection: { since: '6h' }, exhausted: true, rate: undefined },
}
const jobEnded: TelemetryEvent = {
  ...{ type: 'operator', command: 'retry-ended', job: 'a' },
  ...{ stoppedBy: undefined, sums: { found: 2, recovered: 2 } },
}

test('what a retry job was asked for, and its sums, are in its lines', () => {
  expect(told([jobStarted, jobEnded]).map(({ fields }) => fields)).toMatchObject([
    { by: 'proof', selection: { since: '6h' } },
    { sums: { found: 2, recovered: 2 } },
  ])
})

test('changes of state are logged each time, what changed nothing and calls not at all', () => {
  const changes: [TelemetryEvent, string][] = [
    [everyFact['credential-reload-failed'], 'error: credential_reload_failed'],
    [everyFact['credential-reloaded'], 'info: credential_reloaded'],
    [everyFact['token-scope-missing'], 'warn: token_scope_missing'],
    [everyFact.operator, 'info: operator_paused'],
    [{ type: 'operator', command: 'resume', changed: true }, 'info: operator_resumed'],
    [{ type: 'operator', command: 'probe', circuits: 2, platform: false }, 'info: operator_probed'],
    [jobStarted, 'info: retry_job_started'],
    [jobEnded, 'info: retry_job_ended'],
    [everyFact.receiver, 'warn: receiver_down'],
    [{ type: 'receiver', up: true, detail: 'HTTP 204' }, 'info: receiver_up'],
    [everyFact.trouble, 'warn: platform_unavailable'],
    [{ type: 'trouble', trouble: undefined }, 'info: platform_available'],
    [everyFact.leading, 'info: leading'],
    [everyFact['standing-by'], 'warn: standing_by'],
    [{ ...everyFact['standing-by'], cause: 'released' }, 'info: standing_by'],
    [{ ...everyFact['standing-by'], cause: 'seen' }, 'info: standing_by'],
  ]
  const twice = changes.flatMap((change) => [change, change])
  expect(told(twice.map(([fact]) => fact)).map((one) => one.line)).toEqual(twice.map(([, text]) => text))
  const silent: TelemetryEvent[] = [everyFact['token-request'], everyFact['platform-request'], everyFact.unexpected]
  expect(told([...silent, { type: 'operator', command: 'resume', changed: false }])).toEqual([])
})

const passing = tokenRefused({ result: 'transient', reason: 'timeout' })
const tlsCodes = ['CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID']
const judged = { failedAgain: 10, judged: 11, responseStatusCode: 503 }
const changed = { open: { pauseMs: 30_000, ...judged }, 'half-open': {}, closed: {} }
const circuit = (to: CircuitState, subscriptionId = 'one'): FactOf<'circuit'> => ({
  type: 'circuit',
  subscriptionId,
  to,
  ...changed[to],
})
const many = (to: CircuitState, count: number): TelemetryEvent[] =>
  times(count, (i) => circuit(to, `subscription-${i}`))
const dead = times(200, () => [circuit('open'), circuit('half-open')]).flat()
const skipped = (from: number): TelemetryEvent => ({ ...everyFact['slice-skipped'], span: { from, to: from + 1 } })
const unreadable = (...ids: (string | undefined)[]): TelemetryEvent => ({
  ...everyFact.unreadable,
  rows: ids.map((id) => ({ unreadable: true, id, field: id === undefined ? 'id' : 'status' })),
})
const withoutKey = { ...everyFact['hour-compared'], unprocessed: 0, withoutKey: 3 }
const booksAgain = times(2, (): TelemetryEvent => ({ type: 'ledger', result: 'ok' }))
const termFacts = ['expired', 'slice-skipped', 'ledger', 'circuit'] as const
const termEvents = ['records_expired', 'slice_skipped', 'ledger_unusable', 'circuit_opened']
const ofATerm = termEvents.map((event) => line(`warn: ${event}`))
const swept = 'info: full_sweep_completed'
const opened = 'warn: circuit_opened'
const work = {
  ...{ sweepId: 'abcd1234', listed: 6, due: 3, 'backing-off': 2, exhausted: 1 },
  ...{ retries: 1, accepted: 1, recovered: 4, failedAgain: 3, unknown: 2 },
}

const cases: Record<string, [TelemetryEvent[], lines: object[], everyMs?: number]> = {
  'retries and outcomes are counted in the line of the next full sweep, not of another, and anew after it': [
    [
      everyFact.retry,
      ...times(4, () => outcomeFact()),
      ...times(3, () => outcomeFact({ outcome: 'failed-again' })),
      ...times(2, () => outcomeFact({ outcome: 'unknown' })),
      sweepFact({ kind: 'recent' }),
      sweepFact({
        listed: 6,
        failed: { due: 3, 'backing-off': 2, exhausted: 1, excluded: 0, blocked: 0, awaiting: 0 },
      }),
      sweepFact({ listed: 6 }),
      sweepFact({ listed: 7 }),
    ],
    [line(swept, work), line(swept, { listed: 7 })],
  ],
  'sweeps that saw as much are silent, those that saw more or not the whole are not': [
    [sweepFact(), sweepFact(), sweepFact({ listed: 1 }), sweepFact({ listed: 1, result: 'incomplete' })],
    [line(swept), line(swept), line(swept)],
  ],
  'sweeps that fail in the same way are logged once, with advice, and their number once a full one succeeds': [
    [
      sweepFact(),
      ...times(50, () => failedSweep()),
      sweepFact({ kind: 'recent' }),
      failedSweep({ kind: 'recent' }),
      sweepFact(),
      sweepFact(),
    ],
    [
      line(swept),
      line('error: sweep_failed', { reason: 'timeout', stage: 'list', problem: 'list: timeout', advice: 'wait' }),
      line(swept, { failures: 51 }),
    ],
  ],
  'a failure that goes on is said again within 15 min, with its number and its time': [
    times(8, () => failedSweep()),
    [
      line('error: sweep_failed'),
      line('error: sweep_failed', { failures: 4, failingSeconds: 600 }),
      line('error: sweep_failed', { failures: 7, failingSeconds: 1200 }),
    ],
    200_000,
  ],
  'gates that open and shut are 20 lines of each kind in ten minutes; what the audit keeps is never left out': [
    [
      ...times(100, () => [everyFact.trouble, { type: 'trouble', trouble: undefined } as const]).flat(),
      ...times(21, () => everyFact.operator),
    ],
    [
      ...times(20, () => [line('warn: platform_unavailable'), line('info: platform_available')]).flat(),
      ...times(21, () => line('info: operator_paused')),
    ],
  ],
  'sweeps that fail in two ways by turns: each needs another remedy, two codes of TLS too': [
    times(10, () => [
      failedSweep(),
      failedSweep({}, { reason: 'connection' }),
      ...tlsCodes.map((code) => failedSweep({}, { reason: 'tls', code })),
    ]).flat(),
    times(4, () => line('error: sweep_failed')),
  ],
  'sweeps without a token, or a connection, whatever is said of it': [
    times(20, (trace) =>
      failedSweep({}, { ...(trace < 10 ? { stage: 'token' } : { code: 'ECONNRESET' }), message: `trace ${trace}` }),
    ),
    times(2, () => line('error: sweep_failed')),
  ],
  'expired ones are a warning at once, then counted by each full sweep, and a warning again after one without': [
    [
      ...[everyFact.expired, everyFact.expired, sweepFact(), everyFact.expired, sweepFact()],
      ...[sweepFact(), everyFact.expired],
    ],
    [
      line('warn: records_expired', { records: 5 }),
      line(swept, { expired: 10 }),
      line(swept, { expired: 5 }),
      line('warn: records_expired', { records: 5 }),
    ],
  ],
  'the first access token is logged, its renewals are not': [times(50, () => tokenHad), [line('info: token_obtained')]],
  'a refused token is logged once, with its reason, and the number when it is over': [
    [...times(20, (i) => tokenRefused({ description: `trace ${i}` })), tokenHad, tokenHad],
    [
      line('error: token_rejected', {
        ...{ oauthError: 'invalid_client', description: 'trace 0', retryInMs: 1234.5, tokenHeld: false },
      }),
      line('info: token_obtained', { failures: 20 }),
    ],
  ],
  'trouble with tokens that passes is a warning; each cause has its line, and so has each code of TLS': [
    [
      ...[passing, passing, tokenRefused(), passing],
      ...[...tlsCodes, ...tlsCodes].map((code) => tokenRefused({ result: 'transient', reason: 'tls', code })),
    ],
    [
      line('warn: token_unavailable'),
      line('error: token_rejected'),
      ...tlsCodes.map((code) => line('warn: token_unavailable', { code })),
    ],
  ],
  'an hour with unprocessed deliveries is a warning, one with deliveries that have no key only the first time': [
    [{ ...withoutKey, withoutKey: 0 }, ...times(2, () => everyFact['hour-compared']), ...times(3, () => withoutKey)],
    [
      ...times(2, () => line('warn: hour_compared', { unprocessed: 2 })),
      line('warn: hour_compared', { withoutKey: 3 }),
    ],
  ],
  'a lease that cannot be had is a warning for each reason, and its end has the number': [
    [...times(3, () => everyFact['lease-unavailable']), everyFact['lease-available']],
    [line('warn: lease_unavailable'), line('info: lease_available', { failures: 3 })],
  ],
  'so is a ledger without books': [
    [...times(3, () => everyFact.ledger), { type: 'ledger', result: 'no-answer', problem: 'late' }, ...booksAgain],
    [
      line('warn: ledger_unusable', { result: 'refused', problem: everyFact.ledger.problem }),
      line('warn: ledger_unusable', { result: 'no-answer' }),
      line('info: ledger_usable', { failures: 4 }),
    ],
  ],
  'what one leader has logged is logged again by the next': [
    [...termFacts, 'leading' as const, ...termFacts].map((name) => everyFact[name]),
    [...ofATerm, line('info: leading'), ...ofATerm],
  ],
  'circuits are logged as they open and close; those that open again and again only once they have been closed': [
    [...dead, circuit('closed'), circuit('open')],
    [
      line(opened, { subscriptionId: 'one', ...changed.open }),
      line('info: circuit_closed', { subscriptionId: 'one' }),
      line(opened),
    ],
  ],
  'circuits by the thousand are 20 lines each way, of the same subscriptions, and their number': [
    [...many('open', 5000), ...many('half-open', 5000), ...many('open', 5000), ...many('closed', 5000), sweepFact()],
    [
      ...times(20, (i) => line(opened, { subscriptionId: `subscription-${i}` })),
      ...times(20, (i) => line('info: circuit_closed', { subscriptionId: `subscription-${i}` })),
      line(swept, { circuitsOpened: 5000, circuitsClosed: 5000 }),
    ],
  ],
  'ten minutes later they are lines again, and the first says how many were not': [
    many('open', 26),
    [...times(20, () => line(opened)), line(opened, { subscriptionId: 'subscription-25', suppressed: 5 })],
    24_000,
  ],
  'parts of the window that cannot be listed are logged once each, by their local time, until they are listed': [
    [...[skipped(60), skipped(61), skipped(60), skipped(61)], sweepFact(), skipped(60)],
    [
      line('warn: slice_skipped', { from: '1970-01-01T00:01:00' }),
      line('warn: slice_skipped', { from: '1970-01-01T00:01:01' }),
      line(swept),
      line('warn: slice_skipped', { from: '1970-01-01T00:01:00' }),
    ],
  ],
  'and are 20 lines in ten minutes, however many there are': [
    times(3, () => times(5000, skipped)).flat(),
    times(20, () => line('warn: slice_skipped')),
  ],
  'unreadable records are logged once each by id, those without one once': [
    times(30, () => unreadable('a', 'b', undefined, undefined)),
    ['a', 'b']
      .map((webhookId) => line('warn: record_unreadable', { webhookId }))
      .concat(line('warn: record_unreadable')),
  ],
  'and are 20 lines in ten minutes too': [
    times(200, (i) => unreadable(...times(100, (j) => `id-${i}-${j}`))),
    times(20, () => line('warn: record_unreadable')),
  ],
}

test.each(Object.entries(cases))('%s', (_, [facts, lines, everyMs]) => {
  const found = told(facts, everyMs)
  expect(found).toMatchObject(lines)
})

test('an id is remembered for an hour after the last of them; a thousand are, more are taken as known', () => {
  const thousands = times(3, () => times(200, (i) => unreadable(...times(100, (j) => `id-${i}-${j}`)))).flat()
  expect(told(thousands, 600_000).length).toBeLessThanOrEqual(1000)
  const facts = times(12, () => everyFact.unreadable)
  expect(told(facts, 3_599_000)).toHaveLength(1)
  expect(told(facts, 3_600_000)).toHaveLength(12)
})

test('the audit is a line at any level of each retry, outcome and command, also of one that changed nothing', () => {
  const facts: TelemetryEvent[] = [
    everyFact.retry,
    retryFact({ result: 'already-resolved', reason: 'conflict', found: 'successful' }),
    retryFact({ result: 'unreachable', reason: 'timeout', lost: true }),
    outcomeFact({ responseStatusCode: null }),
    { type: 'operator', command: 'pause', changed: true },
    { type: 'operator', command: 'resume', changed: false },
    { type: 'operator', command: 'probe', circuits: 2, platform: false },
    ...[jobStarted, jobEnded, sweepFact(), tokenHad],
  ]
  const { webhookId, eventId, subscriptionId, eventType, attempt } = everyFact.retry
  const subject = { audit: true, level: 'debug', webhookId, eventId, subscriptionId, eventType, attempt }
  const why = { why: 'due', explanation: 'Its backoff has ended.' }
  expect(written(facts, { audit: true })).toMatchObject([
    { time: '2026-01-15T12:00:00.000Z', event: 'retry_answered', ...subject, ...why, result: 'accepted', reason: 'ok' },
    { event: 'retry_answered', result: 'already-resolved', found: 'successful' },
    { event: 'retry_answered', result: 'unreachable', reason: 'timeout', lost: true },
    { event: 'retry_outcome', ...subject, outcome: 'recovered', responseStatusCode: null },
    { audit: true, event: 'operator_paused', changed: true },
    { audit: true, event: 'operator_resumed', changed: false },
    { audit: true, event: 'operator_probed', circuits: 2 },
    { audit: true, event: 'retry_job_started', job: 'a' },
    { audit: true, event: 'retry_job_ended', job: 'a' },
  ])
  expect(written(facts)).toEqual([])
})
