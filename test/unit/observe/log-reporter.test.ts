// What is logged of events: changes of state once, repetitions and single records at debug, and few lines however bad it is.
import { describe, expect, test } from 'vitest'
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import { countedLevels, type CountedLevel } from '../../../src/observe/log/log.ts'
import { createLogReporter } from '../../../src/observe/log/log-reporter.ts'
import type { UnreadableRow } from '../../../src/platform/record.ts'
import type { CircuitState } from '../../../src/reconcile/retry/circuits.ts'
import {
  everyFact,
  failedSweep,
  outcomeFact,
  retryFact,
  sweepFact,
  tokenHad,
  tokenRefused,
  type FactOf,
} from '../../support/facts.ts'
import { keepingLog, type Line } from '../../support/log.ts'

const standing = { monotonic: () => 0 }

/** The lines that the events give, from the level on; `clock` may move while they come. */
function told(facts: Iterable<TelemetryEvent>, from: CountedLevel = 'debug', clock = standing): Line[] {
  const levels: readonly string[] = countedLevels
  const lines: Line[] = []
  const reporter = createLogReporter(
    keepingLog((line) => lines.push(line)),
    clock,
  )
  for (const fact of facts) reporter.observe(fact)
  return lines.filter(({ level }) => levels.indexOf(level) >= levels.indexOf(from))
}

/** Each line at info and above as `level: event`; of events that come one after the other, each so long after the one before. */
function messages(facts: readonly TelemetryEvent[], everyMs = 0): string[] {
  let now = 0
  function* coming(): Generator<TelemetryEvent> {
    for (const fact of facts) {
      yield fact
      now += everyMs
    }
  }
  return told(coming(), 'info', { monotonic: () => now }).map(({ level, event }) => `${level}: ${event}`)
}

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index))
}

const accepted = retryFact({ result: 'accepted', reason: 'ok', sent: true })

test('changes of state are logged each time, what changed nothing at debug, and calls not at all', () => {
  const changes: [TelemetryEvent, string][] = [
    [everyFact['credential-reload-failed'], 'error: credential_reload_failed'],
    [everyFact['credential-reloaded'], 'info: credential_reloaded'],
    [everyFact['token-scope-missing'], 'warn: token_scope_missing'],
    [everyFact.operator, 'info: operator_paused'],
    [{ type: 'operator', command: 'resume', changed: true }, 'info: operator_resumed'],
    [{ type: 'operator', command: 'probe', circuits: 2 }, 'info: operator_probed'],
    [everyFact.receiver, 'warn: receiver_down'],
    [{ type: 'receiver', up: true, detail: 'HTTP 204' }, 'info: receiver_up'],
    [everyFact.trouble, 'warn: platform_unavailable'],
    [{ type: 'trouble', trouble: undefined }, 'info: platform_available'],
    [everyFact.leading, 'info: leading'],
    [everyFact['standing-by'], 'warn: standing_by'],
  ]
  const twice = changes.flatMap((change) => [change, change])
  expect(messages(twice.map(([fact]) => fact))).toEqual(twice.map(([, line]) => line))
  expect(messages([{ type: 'operator', command: 'resume', changed: false }])).toEqual([])
  expect(told([everyFact['token-request'], everyFact['platform-request']])).toEqual([])
})

test('retries and outcomes are counted in the line of the next full sweep, not of another, and anew after it', () => {
  const failed = { due: 3, 'backing-off': 2, exhausted: 1, excluded: 0, blocked: 0, awaiting: 0 }
  const facts = [
    accepted,
    ...times(4, () => outcomeFact()),
    ...times(3, () => outcomeFact({ outcome: 'failed-again' })),
    ...times(2, () => outcomeFact({ outcome: 'unknown' })),
    sweepFact({ kind: 'recent' }),
    sweepFact({ listed: 6, failed }),
    sweepFact({ listed: 6 }),
  ]
  expect(told(facts, 'info')).toMatchObject([
    {
      level: 'info',
      event: 'full_sweep_completed',
      fields: {
        ...{ sweepId: 'abcd1234', listed: 6, due: 3, 'backing-off': 2, exhausted: 1 },
        ...{ retries: 1, accepted: 1, recovered: 4, failedAgain: 3, unknown: 2 },
      },
    },
  ])
  expect(told(facts).at(-1)).toMatchObject({
    level: 'debug',
    fields: { retries: 0, recovered: 0, failedAgain: 0, unknown: 0 },
  })
})

test('attempt times that do not fit are a warning when two in a row do not', () => {
  const seen = (hours: number): TelemetryEvent => outcomeFact({ timeOffsetMs: hours * 3_600_000 })
  expect(messages([0, 0.1, 2, 0, -2, 0.1].map(seen))).toEqual([])
  expect(told([-2, -1].map(seen), 'warn')).toMatchObject([
    { event: 'platform_time_offset', fields: { offsetSeconds: 3_600 } },
  ])
})

describe('sweeps', () => {
  test.each([
    ['another number of records', sweepFact({ listed: 1 })],
    ['a part not seen whole', sweepFact({ result: 'incomplete' })],
  ])('that saw %s are logged', (_, fact) => {
    expect(messages([sweepFact(), fact])).toHaveLength(2)
  })

  test('that fail in the same way are logged once, with advice, and their number when it is over', () => {
    expect(told([...times(50, () => failedSweep()), sweepFact()], 'info')).toMatchObject([
      {
        level: 'error',
        event: 'sweep_failed',
        fields: {
          reason: 'timeout',
          stage: 'list',
          problem: 'list: timeout',
          advice: 'wait',
        },
      },
      { level: 'info', event: 'full_sweep_completed', fields: { failures: 50 } },
    ])
  })

  const tls = (code: string): FactOf<'sweep'> =>
    failedSweep({}, { reason: 'tls', code, message: `list: tls (${code})`, advice: `mend ${code}` })

  test.each([
    ['two ways by turns', [failedSweep({}, { reason: 'connection', message: 'list: connection' }), failedSweep()], 2],
    // Each needs another remedy.
    ['two codes of TLS', [tls('CERT_HAS_EXPIRED'), tls('HOSTNAME_MISMATCH')], 2],
    [
      'one way without a token, whatever the other side says of it',
      [1, 2].map((trace) => failedSweep({}, { stage: 'token', message: `no access token: trace ${trace}` })),
      1,
    ],
  ])('that fail in %s', (_, facts, lines) => {
    expect(messages(times(10, () => facts).flat())).toEqual(times(lines, () => 'error: sweep_failed'))
  })

  test('have failed until a full one succeeds', () => {
    const [recent, full] = [sweepFact({ kind: 'recent' }), sweepFact()]
    const lines = told([full, failedSweep(), recent, failedSweep({ kind: 'recent' }), recent, full, full], 'info')
    expect(lines.map(({ event, fields }) => [event, fields['failures']])).toEqual([
      ['full_sweep_completed', undefined],
      ['sweep_failed', undefined],
      ['full_sweep_completed', 2],
    ])
  })
})

describe('a condition', () => {
  test.each(['unexpected', 'early-at-limit', 'unreadable'] as const)(
    '%s is a warning once, and again after a quiet hour',
    (type) => {
      const facts = times(12, () => everyFact[type])
      expect(messages(facts, 3_599_000)).toHaveLength(1)
      expect(messages(facts, 3_600_000)).toHaveLength(12)
    },
  )

  test('expired is a warning at once, then counted by each full sweep, and a warning again after one without', () => {
    const { expired } = everyFact
    const lines = told([expired, expired, sweepFact(), expired, sweepFact(), sweepFact(), expired], 'info')
    expect(lines.map(({ level, fields }) => [level, fields['records'] ?? fields['expired']])).toEqual([
      ['warn', 5],
      ['info', 10],
      ['info', 5],
      ['warn', 5],
    ])
  })
})

describe('access tokens', () => {
  test('the first one is logged, their renewal is not', () => {
    expect(messages(times(50, () => tokenHad))).toEqual(['info: token_obtained'])
  })

  test('a refusal is logged once, with its reason, and the number when it is over', () => {
    const lines = told([...times(20, (i) => tokenRefused({ description: `trace ${i}` })), tokenHad, tokenHad], 'info')
    expect(lines).toMatchObject([
      {
        level: 'error',
        event: 'token_rejected',
        fields: { oauthError: 'invalid_client', description: 'trace 0', retryInMs: 1234.5, tokenHeld: false },
      },
      { level: 'info', event: 'token_obtained', fields: { failures: 20 } },
    ])
  })

  test('trouble that passes is a warning; each cause has its line, and so has each code of TLS', () => {
    const passing = tokenRefused({ result: 'transient', reason: 'timeout' })
    const tls = ['CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID'].map((code) =>
      tokenRefused({ result: 'transient', reason: 'tls', code }),
    )
    expect(told([passing, passing, tokenRefused(), passing, ...tls, ...tls], 'info')).toMatchObject([
      { level: 'warn', event: 'token_unavailable' },
      { level: 'error', event: 'token_rejected' },
      { level: 'warn', event: 'token_unavailable', fields: { code: 'CERT_HAS_EXPIRED' } },
      { level: 'warn', event: 'token_unavailable', fields: { code: 'ERR_TLS_CERT_ALTNAME_INVALID' } },
    ])
  })
})

describe('circuits', () => {
  const judged = { failedAgain: 10, judged: 11, responseStatusCode: 503 }
  const changes = { open: { pauseMs: 30_000, ...judged }, 'half-open': {}, closed: {} }
  const circuit = (to: CircuitState, subscriptionId = 'one'): FactOf<'circuit'> => ({
    type: 'circuit',
    subscriptionId,
    to,
    ...changes[to],
  })
  const many = (to: CircuitState, count = 5_000): TelemetryEvent[] =>
    times(count, (i) => circuit(to, `subscription-${i}`))

  test('are logged as they open and close; those that open again and again at debug, until they have been closed', () => {
    const dead = times(200, () => [circuit('open'), circuit('half-open')]).flat()
    expect(told([...dead, circuit('closed'), circuit('open')], 'info')).toMatchObject([
      { level: 'warn', event: 'circuit_opened', fields: { subscriptionId: 'one', ...changes.open } },
      { level: 'info', event: 'circuit_closed', fields: { subscriptionId: 'one' } },
      { level: 'warn', event: 'circuit_opened' },
    ])
    expect(told(dead)).toHaveLength(200)
  })

  test('are counted by the next full sweep, once for a stretch of trouble', () => {
    const facts = [sweepFact(), circuit('open'), circuit('half-open'), circuit('open'), sweepFact(), circuit('closed')]
    const lines = told([...facts, sweepFact(), sweepFact()]).filter(({ event }) => event === 'full_sweep_completed')
    expect(lines.map(({ level, fields }) => [level, fields['circuitsOpened'], fields['circuitsClosed']])).toEqual([
      ['info', 0, 0],
      ['info', 1, 0],
      ['info', 0, 1],
      ['debug', 0, 0],
    ])
  })

  test('by the thousand are 20 lines each way, of the same subscriptions, and their number', () => {
    const facts = [...many('open'), ...many('half-open'), ...many('open'), ...many('closed')]
    const lines = told([...facts, sweepFact()], 'info')
    const idsOf = (id: string): unknown[] =>
      lines.flatMap(({ event, fields }) => (event === id ? [fields['subscriptionId']] : []))
    expect(idsOf('circuit_opened')).toHaveLength(20)
    expect(idsOf('circuit_closed')).toEqual(idsOf('circuit_opened'))
    expect(lines.at(-1)?.fields).toMatchObject({ circuitsOpened: 5_000, circuitsClosed: 5_000 })
  })

  test('ten minutes later are lines again, and the first says how many were not', () => {
    let now = 0
    function* facts(): Generator<TelemetryEvent> {
      yield* many('open', 25)
      now = 600_000
      yield circuit('open', 'late')
    }
    const lines = told(facts(), 'info', { monotonic: () => now })
    expect(lines).toHaveLength(21)
    expect(lines.at(-1)?.fields).toMatchObject({ subscriptionId: 'late', suppressed: 5 })
  })
})

describe('parts of the window that can not be listed', () => {
  const skipped = (from: number): TelemetryEvent => ({
    type: 'slice-skipped',
    sweepId: 'abcd1234',
    span: { from, to: from + 1 },
    reason: 'timeout',
  })

  test('are logged once each, by their local time', () => {
    const lines = told([skipped(60), skipped(61), skipped(60), skipped(61)], 'warn')
    expect(lines.map(({ fields }) => fields['from'])).toEqual(['1970-01-01T00:01:00', '1970-01-01T00:01:01'])
  })

  test('are 20 lines in ten minutes, however many there are', () => {
    expect(messages(times(3, () => times(5_000, skipped)).flat())).toHaveLength(20)
  })

  test('are logged again when they had been listed in between', () => {
    expect(told([skipped(60), sweepFact(), skipped(60)], 'warn')).toHaveLength(2)
  })
})

test('unreadable records are logged once each by id, those without one once, and not by the thousand', () => {
  const unreadable = (...ids: (string | undefined)[]): TelemetryEvent => ({
    type: 'unreadable',
    sweepId: 'abcd1234',
    rows: ids.map((id): UnreadableRow => ({ unreadable: true, id, field: id === undefined ? 'id' : 'status' })),
  })
  const few = times(30, () => unreadable('a', 'b', undefined, undefined))
  expect(told(few, 'warn').map(({ fields }) => fields['webhookId'])).toEqual(['a', 'b', undefined])
  const thousands = times(3, () => times(200, (i) => unreadable(...times(100, (j) => `id-${i}-${j}`)))).flat()
  expect(messages(thousands)).toHaveLength(20)
  // An id is remembered for an hour after the last of them; thousands more are taken as known.
  expect(messages(thousands, 600_000).length).toBeLessThanOrEqual(1_000)
})
