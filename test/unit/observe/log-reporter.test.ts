// What is logged of events: changes of state once, repetitions and single records at debug, and few lines however bad it is.
import { describe, expect, test } from 'vitest'
import type { TelemetryEvent } from '../../../src/observe/events.ts'
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
import { messages, times, told } from '../../support/told.ts'

/** The lines of events that come one after the other, each so long after the one before. */
function over(facts: readonly TelemetryEvent[], everyMs: number): string[] {
  let now = 0
  function* coming(): Generator<TelemetryEvent> {
    for (const fact of facts) {
      yield fact
      now += everyMs
    }
  }
  return messages(coming(), 'info', { monotonic: () => now })
}

const accepted = retryFact({ result: 'accepted', reason: 'ok', sent: true })

test.each(['token-request', 'platform-request'] as const)('%s is for the metrics alone', (type) => {
  expect(told([everyFact[type]])).toEqual([])
})

test.each([
  ['credential-reload-failed', 'error: credential_reload_failed'],
  ['credential-reloaded', 'info: credential_reloaded'],
  ['token-scope-missing', 'warn: token_scope_missing'],
  ['operator', 'info: operator_paused'],
  ['receiver', 'warn: receiver_down'],
  ['trouble', 'warn: platform_unavailable'],
  ['leading', 'info: leading'],
  ['standing-by', 'warn: standing_by'],
] as const)('%s is logged as %s, each time', (type, line) => {
  expect(messages([everyFact[type], everyFact[type]])).toEqual([line, line])
})

test('the end of a pause has its line too', () => {
  const facts: TelemetryEvent[] = [
    { type: 'trouble', trouble: 'unauthorized' },
    { type: 'trouble', trouble: undefined },
    { type: 'operator', command: 'resume', changed: true },
    // Changed nothing: at debug.
    { type: 'operator', command: 'resume', changed: false },
    { type: 'operator', command: 'probe', circuits: 2 },
    { type: 'receiver', up: true, detail: 'HTTP 204' },
  ]
  expect(messages(facts)).toEqual([
    'warn: platform_unavailable',
    'info: platform_available',
    'info: operator_resumed',
    'info: operator_probed',
    'info: receiver_up',
  ])
})

describe('retries and outcomes', () => {
  test('are counted in the line of the next full sweep, not of another, and anew after it', () => {
    const facts = [
      accepted,
      ...times(4, () => outcomeFact()),
      ...times(3, () => outcomeFact({ outcome: 'failed-again' })),
      ...times(2, () => outcomeFact({ outcome: 'unknown' })),
      sweepFact({ kind: 'recent' }),
      failedSweep(),
      sweepFact(),
      sweepFact(),
    ]
    const [first, second] = told(facts).filter(({ event }) => event === 'full_sweep_completed')
    expect(first).toMatchObject({
      level: 'info',
      fields: { retries: 1, accepted: 1, recovered: 4, failedAgain: 3, unknown: 2 },
    })
    expect(second).toMatchObject({ level: 'debug', fields: { retries: 0, recovered: 0, failedAgain: 0, unknown: 0 } })
  })

  test('20,000 recovered records are fewer than 100 lines', () => {
    // 20 retries a second, and a full sweep every half minute: as often as it can be.
    const round = (index: number): TelemetryEvent[] => [
      ...times(600, () => accepted),
      ...times(600, () => outcomeFact()),
      sweepFact({ listed: 20_000 - index }),
      sweepFact({ kind: 'recent' }),
    ]
    const lines = told(times(34, round).flat(), 'info')
    expect(lines.length).toBeLessThan(100)
    expect(lines.reduce((sum, { fields }) => sum + Number(fields['recovered'] ?? 0), 0)).toBe(34 * 600)
  })

  test('attempt times that do not fit are a warning when two in a row do not', () => {
    const seen = (hours: number): TelemetryEvent => outcomeFact({ timeOffsetMs: hours * 3_600_000 })
    expect(messages([0, 0.1, 2, 0, -2, 0.1].map(seen))).toEqual([])
    expect(told([-2, -1].map(seen), 'warn')).toMatchObject([
      { event: 'platform_time_offset', fields: { offsetSeconds: 3_600 } },
    ])
  })
})

describe('sweeps', () => {
  test('that do nothing are quiet after the first', () => {
    const sweeps = times(100, (i) => sweepFact({ kind: i % 2 === 0 ? 'full' : 'recent' }))
    expect(messages(sweeps)).toEqual(['info: full_sweep_completed'])
  })

  test.each([
    ['another number of records', sweepFact({ listed: 1 })],
    ['a part not seen whole', sweepFact({ result: 'incomplete', incompleteSlices: 1 })],
    ['a part left out', sweepFact({ result: 'incomplete', skippedSlices: 1 })],
  ])('that saw %s are logged', (_, fact) => {
    expect(messages([sweepFact(), fact])).toHaveLength(2)
  })

  test('of the whole window say what is decided of the records', () => {
    const failed = { due: 3, 'backing-off': 2, exhausted: 1, excluded: 0, blocked: 0, awaiting: 0 }
    const [full] = told([sweepFact({ listed: 6, failed })], 'info')
    expect(full?.fields).toMatchObject({ sweepId: 'abcd1234', listed: 6, due: 3, 'backing-off': 2, exhausted: 1 })
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

  test('that fail for two codes of TLS are two lines: each needs another remedy', () => {
    const tls = (code: string): FactOf<'sweep'> =>
      failedSweep({}, { reason: 'tls', code, message: `list: tls (${code})`, advice: `mend ${code}` })
    expect(told(['CERT_HAS_EXPIRED', 'CERT_HAS_EXPIRED', 'HOSTNAME_MISMATCH'].map(tls), 'info')).toMatchObject([
      { fields: { problem: 'list: tls (CERT_HAS_EXPIRED)', advice: 'mend CERT_HAS_EXPIRED' } },
      { fields: { problem: 'list: tls (HOSTNAME_MISMATCH)', advice: 'mend HOSTNAME_MISMATCH' } },
    ])
  })

  test('that fail in two ways by turns are two lines', () => {
    const other = failedSweep({}, { reason: 'connection', message: 'list: connection' })
    expect(messages(times(20, (i) => (i % 2 === 0 ? other : failedSweep())))).toHaveLength(2)
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

  test('without a token are one failure, no matter what the other side says of it', () => {
    const facts = times(20, (i) =>
      failedSweep({}, { stage: 'token', reason: 'server-error', message: `no access token: trace ${i}` }),
    )
    expect(messages(facts)).toEqual(['error: sweep_failed'])
    expect(told(facts)[0]?.fields).toMatchObject({ problem: 'no access token: trace 0', advice: 'wait' })
  })
})

describe('a condition', () => {
  test.each(['unexpected', 'early-at-limit', 'unreadable'] as const)(
    '%s is a warning once, and again after a quiet hour',
    (type) => {
      const facts = times(12, () => everyFact[type])
      expect(over(facts, 3_599_000)).toHaveLength(1)
      expect(over(facts, 3_600_000)).toHaveLength(12)
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

  test('trouble that passes is a warning; each cause has its line', () => {
    const passing = tokenRefused({ result: 'transient', reason: 'timeout' })
    expect(messages([passing, passing, tokenRefused(), passing])).toEqual([
      'warn: token_unavailable',
      'error: token_rejected',
    ])
  })

  test('a code of TLS is in the line, and another one has its own: each needs another remedy', () => {
    const tls = (code: string): TelemetryEvent => tokenRefused({ result: 'transient', reason: 'tls', code })
    const [expired, otherHost] = ['CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID']
    expect(told([expired, expired, otherHost].map(tls), 'info')).toMatchObject([
      { event: 'token_unavailable', fields: { reason: 'tls', code: expired } },
      { event: 'token_unavailable', fields: { reason: 'tls', code: otherHost } },
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

  test('are logged as they open and close', () => {
    expect(told([circuit('open'), circuit('closed')])).toMatchObject([
      { level: 'warn', event: 'circuit_opened', fields: { subscriptionId: 'one', ...changes.open } },
      { level: 'info', event: 'circuit_closed', fields: { subscriptionId: 'one' } },
    ])
  })

  test('that open again and again are so at debug, until they have been closed', () => {
    const dead = times(200, () => [circuit('open'), circuit('half-open')]).flat()
    expect(messages(dead)).toEqual(['warn: circuit_opened'])
    expect(told(dead)).toHaveLength(200)
    expect(messages([...dead, circuit('closed'), circuit('open')])).toHaveLength(3)
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
    expect(messages([skipped(60), sweepFact(), skipped(60)], 'warn')).toHaveLength(2)
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
  expect(over(thousands, 600_000).length).toBeLessThanOrEqual(1_000)
})
