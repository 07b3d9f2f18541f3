// The sentences of /status. That an incident is said as it is: test/simulation/promises/said.ts. Here: the headline says why and how many, the level is that of what is retried, every notice has advice.
import { describe, expect, test } from 'vitest'
import { gateNames, gateTable, type Gate } from '../../../src/reconcile/retry/gates.ts'
import { doneOf, seenText } from '../../../src/ops/figures.ts'
import type { StatusState, StatusSummary } from '../../../src/ops/status-document.ts'
import { toStatus } from '../../../src/ops/status.ts'
import { aCause, begunIncident, ofOneType, incidentNow, noDecisions, refusing } from '../../support/incident.ts'
import { aCircuit, aStatusState, noCauses, shut, throttled } from '../../support/status.ts'

const minuteMs = 60_000
const swept = { lastFullSweepAt: incidentNow - 12_000, lastCompleteSweepAt: incidentNow - 12_000 }
const incomplete = { lastCompleteSweepAt: incidentNow - 60_000 }
const blocked = { ...noDecisions, blocked: 10 }
const bothOf = (counts: StatusState['failed']) => ({ failed: counts, expiring: counts })
const nineRefused = { failed: { ...noDecisions, 'backing-off': 9 }, endless: refusing(9) }
const threeDue = bothOf({ ...noDecisions, due: 3 })
const threeBlocked = bothOf({ ...noDecisions, blocked: 3 })
const sweepFailed = {
  sweeps: [aSweep('failed')],
  listsFailing: { since: incidentNow - 12_000, until: incidentNow, reason: 'timeout' as const },
}

function summaryOf(changes: Partial<StatusState>): StatusSummary {
  return toStatus(aStatusState({ ...swept, ...changes })).summary
}

const two = [aCircuit(), aCircuit({ subscriptionId: 'two', responseStatusCode: null })]

/** A cause for each subscription: `one` and `two` have circuits that are open. */
function causesOf(...states: readonly ('open' | 'closed')[]): StatusState['causes'] {
  const names = { open: ['one', 'two'], closed: ['three'] }
  const list = states.map((state) => aCause({ subscriptionId: names[state].shift() ?? '' }))
  return { ...noCauses, total: list.length, records: list.length, list }
}

const probeSoon = { nextRetryBy: 'probe', nextRetry: new Date(incidentNow + minuteMs / 2) } as const

/** Two states of gates in one. */
function both(first: Partial<StatusState>, second: Partial<StatusState>): Partial<StatusState> {
  return { ...first, ...second, gates: [...(first.gates ?? []), ...(second.gates ?? [])] }
}

describe('the headline', () => {
  const endless = { ...refusing(0), circuit: 10 }
  const limited = { ...refusing(0), throttled: 10 }
  const open = { ...shut('circuit'), circuits: [aCircuit()], endless }
  const halfOpen = {
    ...shut('circuit'),
    circuits: [aCircuit({ state: 'half-open', isKnownUp: true, pausesForMs: 0 })],
    endless,
  }
  const gates: Record<
    Exclude<Gate, 'no-token' | 'unauthorized'>,
    [Partial<StatusState>, StatusSummary['level'], text?: string, advice?: string]
  > = {
    disabled: [shut('disabled'), 'waiting'],
    'not-leader': [shut('not-leader', incidentNow), 'waiting'],
    paused: [shut('paused', incidentNow), 'waiting'],
    'subscription-paused': [
      { ...shut('subscription-paused'), pauses: [{ subscriptionId: 'one', since: incidentNow }] },
      'waiting',
      'Retries of one are paused by an operator.',
      'To resume: webhook-reconciler resume --subscription one',
    ],
    'receiver-down': [shut('receiver-down'), 'trouble'],
    intercepted: [shut('intercepted'), 'trouble'],
    platform: [shut('platform'), 'trouble'],
    throttled: [throttled(900_000), 'waiting'],
    circuit: [open, 'trouble', 'Subscription one returns HTTP 503: 10 deliveries wait.'],
    'subscription-throttled': [{ ...shut('subscription-throttled'), endless: limited }, 'working'],
    limit: [shut('limit'), 'working', 'Retries are under way.'],
  }

  test('a pause of seconds is work, and trouble of retries is past where none can be sent', () => {
    expect(summaryOf({ failed: blocked, ...throttled(9000) }).level).toBe('working')
    expect(summaryOf(shut('intercepted'))).toMatchObject({ level: 'well', notices: [] })
  })

  test.each(gateNames.filter((gate) => gate !== 'no-token' && gate !== 'unauthorized'))(
    '%s: why, how many, and what to do',
    (gate) => {
      const { advice: general, reason } = gateTable[gate]
      const [changes, level, text = reason, advice = general] = gates[gate]
      // An open circuit says already for how many.
      const headline = gate === 'circuit' ? text : `${text} 10 deliveries are missing.`
      expect(summaryOf({ failed: blocked, ...changes })).toMatchObject({ level, headline, advice, notices: [] })
    },
  )

  test('of a standby names the leader, and what is wrong with the lease', () => {
    const leadership = { isLeading: false, lease: 'a/b', identity: 'b_1', since: 0 } as const
    const behind = { ...leadership, leader: 'a_1', problem: 'HTTP 403' }
    expect(summaryOf({ ...shut('not-leader', incidentNow), leadership: behind })).toMatchObject({
      level: 'waiting',
      headline: 'This instance stands by: it does not hold the lease. Nothing is missing.',
      detail: 'a_1 leads. Problem: HTTP 403.',
    })
    const lasting = { ...behind, lastingProblem: 'HTTP 403' }
    const advice = 'Fix that problem, so that it can lead.'
    expect(summaryOf({ ...shut('not-leader'), leadership: lasting })).toMatchObject({ level: 'trouble', advice })
    const alone = { ...leadership, leader: undefined, problem: 'HTTP 403' }
    const detail = 'No instance is known to lead. Problem: HTTP 403.'
    expect(summaryOf({ ...shut('not-leader'), leadership: alone })).toMatchObject({ level: 'trouble', advice, detail })
  })

  test('of what a full sweep still lists, or none has listed for minutes, only a part is known', () => {
    const underWay = { failed: blocked, fullSweepUnderWay: true }
    expect(summaryOf({ ...shut('paused'), ...underWay }).headline).toContain('At least 10 deliveries are missing.')
    expect(summaryOf({ fullSweepUnderWay: true }).headline).toBe('Nothing is missing.')
    expect(summaryOf({ failed: blocked, sweeps: sweptAgo(120_000) }).headline).not.toContain('At least')
    expect(summaryOf({ failed: blocked, sweeps: sweptAgo(120_001) }).headline).toContain('At least 10 deliveries')
    const due = {
      failed: { ...noDecisions, due: 10 },
      pace: { recoveredPerMinute: 1, failedShare: 0, isSteady: true },
      fullSweepUnderWay: true,
    }
    expect(doneOf(toStatus(aStatusState({ ...swept, ...due })))).toEqual([
      'in 10 min',
      'about 12:10, at this pace, for those known by now',
    ])
  })

  test.each<[string, Partial<StatusState>]>([
    ['12 s ago', {}],
    ['12 s ago, newest events up to 11:58:30', { seenUntil: incidentNow - 60_000, skewMs: { auth: 0, api: 30_000 } }],
    ['12 s ago', { seenUntil: incidentNow - 60_000, timeOffsetMs: 3_600_000 }],
    ['12 s ago, the next one is under way', { failed: blocked, fullSweepUnderWay: true }],
  ])('the last full sweep was %s', (seen, changes) => {
    expect(seenText(toStatus(aStatusState({ ...swept, ...changes })))).toBe(seen)
  })

  const unswept = { lastFullSweepAt: undefined, lastCompleteSweepAt: undefined }
  const gaveUp = { ...noDecisions, exhausted: 12 }
  /** Level and headline, and the states that have it. */
  const headlines: Record<string, Partial<StatusState>[]> = {
    'well: Nothing is missing.': [
      {},
      { ...open },
      { listsFailing: { since: incidentNow - 14_999, until: incidentNow, reason: 'timeout' } },
      { retriesThrottled: { since: incidentNow - 3_600_000, until: incidentNow } },
    ],
    'working: Retries are under way. 1 delivery is missing.': [
      { failed: { ...noDecisions, due: 1 } },
      { failed: { ...noDecisions, due: 1 }, notAccepted: { inARow: 9, reason: 'server-error' } },
      { failed: { ...noDecisions, due: 1 }, beyondWindow: 3, unknownInARow: 9 },
    ],
    'working: Retries wait for their backoff. 2 deliveries are missing.': [
      { failed: { ...noDecisions, 'backing-off': 2 } },
      // Nothing waits for that circuit any more.
      {
        ...{ failed: { ...noDecisions, 'backing-off': 2 }, ...open, endless: refusing(0) },
        causes: { ...noCauses, list: [aCause({ subscriptionId: 'two' })] },
      },
    ],
    'trouble: Subscription one returns HTTP 503: 10 deliveries wait. 15 deliveries are missing.': [
      { failed: { ...blocked, due: 5 }, ...open },
    ],
    'trouble: 2 subscriptions are failing (HTTP 503, no response): 10 deliveries wait. 15 deliveries are missing.': [
      { failed: { ...blocked, due: 5 }, ...open, circuits: two, causes: causesOf('open', 'open', 'closed') },
    ],
    'trouble: 8 deliveries have left the window undelivered: no more retries. 11 deliveries are missing, 10 of them not retried any more.':
      [{ failed: { ...noDecisions, due: 1, exhausted: 2 }, expired: 8 }],
    'working: The receiver keeps failing 9 deliveries. 10 deliveries are missing.': [
      { failed: { ...noDecisions, 'backing-off': 10 }, endless: refusing(9), incident: begunIncident },
    ],
    // Another one has just arrived: the level stays until the incident is over.
    'working: The receiver keeps failing 9 deliveries.': [{ ...nineRefused, incident: begunIncident }],
    'waiting: The receiver keeps failing 9 deliveries.': [nineRefused],
    'trouble: The receiver keeps failing 10 deliveries.': [
      { failed: { ...noDecisions, 'backing-off': 10 }, endless: refusing(10) },
    ],
    'working: The receiver is recovering: retries speed up as deliveries arrive. 10 deliveries are missing.': [
      { failed: blocked, ...halfOpen },
    ],
    'trouble: Subscription one returns HTTP 503: 10 deliveries wait.': [
      { failed: blocked, ...both(shut('paused', incidentNow), open) },
    ],
    'trouble: The receiver fails its health check: receiver.healthUrl does not return 2xx. 10 deliveries are missing.':
      [{ failed: blocked, ...both(shut('receiver-down'), open) }],
    'trouble: The platform cannot be listed: timed out. At least 2 deliveries are missing.': [
      { failed: { ...noDecisions, exhausted: 2 }, ...sweepFailed },
    ],
    "waiting: 2 failed deliveries are of events ahead of the platform's clock, and not retried before then. At least 2 deliveries are missing.":
      [{ aheadOfClock: 2 }],
    'waiting: 1 delivery has been processing for longer than 15 min. No other missing delivery is known.': [
      { stuckProcessing: 1 },
      { stuckProcessing: 1, sweeps: sweptAgo(300_001) },
    ],
    'trouble: None of the last 10 retries was accepted: HTTP 5xx. 10 deliveries are missing.': [
      { failed: blocked, notAccepted: { inARow: 10, reason: 'server-error' }, ...shut('limit') },
    ],
    'trouble: The platform shows no attempt after the last 10 retries. 10 deliveries are missing.': [
      { failed: blocked, unknownInARow: 10, ...shut('limit') },
    ],
    'trouble: Retries do not reach the platform. 10 deliveries are missing.': [
      { failed: blocked, notAccepted: { inARow: 10, reason: 'intercepted' }, ...shut('intercepted', incidentNow) },
    ],
    'waiting: 1 delivery is exhausted, nothing else is missing.': [
      { failed: { ...noDecisions, exhausted: 1 }, notAccepted: { inARow: 10, reason: 'server-error' } },
    ],
    'trouble: The platform cannot be listed: timed out. No missing delivery is known of events up to 11:58:00 UTC.': [
      { ...sweepFailed, seenUntil: incidentNow - 120_000 },
    ],
    'waiting: No missing delivery is known, but not all was listed and read.': [
      { ...incomplete, sweeps: [aSweep('incomplete')] },
      // So many recent sweeps have followed that the last full one is not among those that are kept.
      incomplete,
    ],
    'working: Retries are under way. At least 2 deliveries are missing.': [
      { ...incomplete, failed: { ...noDecisions, due: 1, exhausted: 1 } },
    ],
    'trouble: 300 rows could not be read: id is not a UUID. No missing delivery is known, but not all was listed and read.':
      [{ unreadable: { rows: 300, field: 'id' } }],
    'working: The first sweep is under way. Nothing is known yet.': [unswept],
    'working: The first sweep is under way. At least 100 deliveries are missing.': [
      { ...unswept, failed: { ...noDecisions, due: 100 } },
    ],
    'trouble: The last sweep failed, but the platform responds again. No missing delivery is known.': [
      { sweeps: [aSweep('failed')] },
    ],
    'waiting: No list call has succeeded since 11:59:45 UTC: timed out. Nothing is missing.': [
      { listsFailing: { since: incidentNow - 15_000, until: incidentNow, reason: 'timeout' } },
    ],
    'trouble: The platform cannot be listed: timed out. Nothing is known yet.': [{ ...unswept, ...sweepFailed }],
    // Exhausted records alone do not make it red.
    'waiting: 12 deliveries are exhausted, nothing else is missing.': [{ failed: gaveUp }],
    // Newer failures are not known yet.
    'waiting: 12 deliveries are exhausted.': [{ failed: gaveUp, recovered: { lastDay: 1, lastAt: incidentNow } }],
    'working: Retries are under way. 62 deliveries are missing.': [{ failed: { ...gaveUp, due: 50 } }],
    'trouble: 3 deliveries expire soon and will then no longer be retried. 3 deliveries are missing.': [
      { endless: refusing(3), ...threeDue },
      { expiringEndless: { ...refusing(0), paused: 3 }, ...threeBlocked },
      { expiringEndless: { ...refusing(0), throttled: 3 }, ...threeBlocked },
    ],
    'trouble: At least 3 deliveries expire soon and will then no longer be retried. At least 10 deliveries are missing.':
      [{ endless: refusing(3), ...threeDue, onlyCounted: 7 }],
    'trouble: The platform demands a pause (rate limit or maintenance): all calls wait. Nothing is missing of events up to 11:58:00 UTC; newer failures are not known yet.':
      [
        {
          ...throttled(901_000),
          sweeps: sweptAgo(300_001),
          seenUntil: incidentNow - 120_000,
        },
      ],
    // One pause follows another.
    'waiting: The platform demands a pause (rate limit or maintenance): all calls wait. At least 1 delivery is missing.':
      [{ ...throttled(9000), sweeps: sweptAgo(300_001), failed: { ...noDecisions, due: 1 } }],
    'trouble: The platform lets no retry of a subscription through (rate limit). 3 deliveries are missing.': [
      { endless: { ...refusing(0), throttled: 3 }, unservedForMs: 900_001, failed: threeDue.failed },
    ],
    'waiting: Retries of one are paused by an operator. 10 deliveries are missing.': [
      {
        ...both(shut('subscription-paused'), open),
        ...{ failed: blocked, causes: causesOf('open'), pauses: [{ subscriptionId: 'one', since: incidentNow }] },
      },
    ],
    'working: Retries are under way. 3 deliveries are missing.': [
      { ...threeDue },
      { ...threeDue, endless: { ...refusing(0), paused: 9, throttled: 2 }, unservedForMs: 900_000 },
    ],
  }

  test.each(Object.entries(headlines))('%s', (headline, states) => {
    for (const state of states) {
      const summary = summaryOf(state)
      expect(`${summary.level}: ${summary.headline}`).toBe(headline)
    }
  })
})

function aSweep(result: 'failed' | 'incomplete', stage: 'list' | 'token' = 'list'): StatusState['sweeps'][number] {
  const failure = { failure: { stage, reason: 'timeout', rejected: false, advice: 'raise the timeout' } } as const
  return { kind: 'full', result, endedAt: new Date(incidentNow), seconds: 1, listed: 0, ...failure }
}

function sweptAgo(ms: number): StatusState['sweeps'] {
  return [{ ...aSweep('incomplete'), result: 'complete', kind: 'recent', endedAt: new Date(incidentNow - ms) }]
}

describe('notices', () => {
  test.each<[string, Partial<StatusState>, RegExp]>([
    ['an incomplete one', { ...incomplete, sweeps: [aSweep('incomplete')] }, /did not see the whole window/],
    [
      'expiring ones',
      { expiring: { due: 2, blocked: 1, exhausted: 0, 'backing-off': 0, awaiting: 0 } },
      /^3 deliveries leave the window soon, but are retried first/,
    ],
    ['those beyond the window', { beyondWindow: 1 }, /^1 failed delivery is older than window\.lookback/],
    [
      'excluded ones',
      { failed: { ...noDecisions, excluded: 8 }, excluded: { 'event-type': 1, 'not-before': 7 } },
      /^1 failed delivery is excluded by select\.eventTypes, 7 by window\.notBefore: not retried/,
    ],
    [
      'the last check of the receiver',
      { ...shut('receiver-down', incidentNow), receiver: { up: false, detail: 'connection (ECONNREFUSED)' } },
      / The last check: connection \(ECONNREFUSED\)\. Since 12:00:00 UTC\.$/,
    ],
    ['since when it is paused', shut('paused', incidentNow - 90_061_000), /Since 2026-01-14 10:58:59 UTC\./],
    ['how long it is throttled', throttled(90_000), /It ends in 2 min\./],
    [
      'when a probe goes out: the first of all',
      {
        failed: blocked,
        gates: [{ gate: 'circuit', since: undefined, subscriptions: 2 }],
        circuits: [aCircuit(), aCircuit({ subscriptionId: 'two', pausesForMs: 2 * minuteMs })],
        causes: { ...noCauses, total: 1, records: 1, list: [aCause({ subscriptionId: 'two', ...probeSoon })] },
      },
      / 10 of 10 retries failed again, since 11:59:00 UTC\. Next probe in 30 s\.$/,
    ],
    [
      'a probe under way, and what a 401 means',
      {
        failed: blocked,
        ...shut('circuit'),
        circuits: [aCircuit({ state: 'half-open', outstanding: 1, pausesForMs: 0, responseStatusCode: 401 })],
      },
      / It rejects the platform's credentials: .* 10 of 10 retries .* A probe is under way\.$/,
    ],
    [
      'what the platform answers, and not that sweeps fail by it',
      {
        ...shut('platform', incidentNow, { call: { operation: 'list', reason: 'server-error' } }),
        ...sweepFailed,
      },
      / The last list call: HTTP 5xx\. .*Since 11:59:48 UTC\.$/,
    ],
    [
      'whose answer it was, and not that others were throttled before',
      {
        failed: blocked,
        retriesThrottled: { since: incidentNow - 20 * minuteMs, until: incidentNow - 2 * minuteMs },
        ...shut('intercepted', incidentNow - 2 * minuteMs, {
          call: { operation: 'retry', reason: 'intercepted', status: 405 },
        }),
        sweeps: [aSweep('failed', 'token')],
      },
      /^Retries do not reach the platform\. .* The last retry: HTTP 405 from something in front of the platform\. Since 11:58:00 UTC\.$/,
    ],
    [
      'a key file that cannot be used',
      { keyReload: { problem: 'k (f): holds no key' } },
      /^The new key cannot be used.* k \(f\): holds no key\.$/,
    ],
    [
      'deliveries that are refused again and again, the largest cause first',
      {
        failed: { ...noDecisions, 'backing-off': 6 },
        endless: refusing(6),
        causes: {
          ...{ ...noCauses, total: 3, records: 6 },
          list: [
            aCause({ refusedAgain: 1, eventTypes: ofOneType('') }),
            ...[5, 0].map((refusedAgain) => aCause({ refusedAgain })),
          ],
        },
      },
      /^The receiver keeps rejecting 6 deliveries\. [^:]+: 5\. Subscription [^:]+ HTTP \d+: 1\.$/,
    ],
  ])('%s', (_, changes, text) => {
    const { advice, detail, headline, notices } = summaryOf(changes)
    const [only = { text: `${headline} ${detail}`.trim(), advice }] = notices
    expect(notices.length + (advice === '' ? 0 : 1)).toBe(1)
    expect(only.text).toMatch(text)
    expect(only.advice).toMatch(/^[A-Z].*[^ ]$/)
  })

  test('the rate that the platform takes is named beside the configured one, while something is open', () => {
    const failed = { ...noDecisions, due: 1 }
    expect(summaryOf({ failed, rateLimit: 1.86 }).notices).toMatchObject([
      {
        text: 'The daemon sends at most 1.9 of the 20 calls/s of platform.maxRequestsPerSecond, after calls that were rejected or failed.',
      },
    ])
    expect(summaryOf({ failed, rateLimit: 19 }).notices).toEqual([])
    expect(summaryOf({ rateLimit: 1.86 }).notices).toEqual([])
  })

  test('advice is that of the failure, and of the offset as it is now', () => {
    const { advice, detail } = summaryOf({ ...sweepFailed, nextSweepInMs: 65_000 })
    expect(advice).toBe('Raise the timeout.')
    expect(detail).toMatch(/: newer failures are not known. The next sweep begins in 65 s\.$|^No full sweep/)
    expect(summaryOf({ timeOffsetMs: 3_600_000 }).advice).toContain('now at UTC+01:00')
  })

  test('none without a reason', () => {
    expect(summaryOf({ timeOffsetMs: 599_000, skewMs: { auth: 60_000, api: -60_000 } }).notices).toEqual([])
  })

  test('the worst is the headline, the worst of the rest come first; exhausted ones that leave the window count as exhausted', () => {
    const { headline, notices } = summaryOf({
      ...shut('paused', incidentNow),
      failed: { ...noDecisions, exhausted: 12, due: 1 },
      beyondWindow: 1,
      expiring: { ...noDecisions, due: 1, exhausted: 12 },
      certificateExpiresAt: incidentNow - 1,
    })
    expect(headline).toMatch(/^1 delivery expires soon/)
    expect(notices.map(({ level, text }) => [level, text.split(' ').slice(0, 3).join(' ')])).toEqual([
      ['trouble', 'The certificate has'],
      ['waiting', 'Retries are paused'],
      ['waiting', '1 failed delivery'],
      ['waiting', '12 deliveries reached'],
    ])
    expect(notices[3]?.text).toContain('12 expire soon.')
  })

  test('advice fits what stops retries: a receiver that is up is not to be brought up', () => {
    const expiring = { ...noDecisions, due: 1 }
    const failed = { ...noDecisions, blocked: 1 }
    const adviceOf = (changes: Partial<StatusState>): string => summaryOf({ expiring, failed, ...changes }).advice
    const advice = `${gateTable.disabled.advice} Or raise window.lookback and restart.`
    expect(summaryOf({ expiring, failed, ...shut('disabled') })).toMatchObject({ level: 'trouble', advice })
    expect(adviceOf({ endless: refusing(1) })).toMatch(/^See the causes/)
    // The daemon would reject the command.
    expect(summaryOf({ ...shut('disabled'), failed: { ...noDecisions, exhausted: 1 } }).notices[0]?.advice).toBe(
      'Find out why they fail.',
    )
    // In a larger window, exhausted ones are still exhausted.
    const outside = [summaryOf({ expired: 1 }), summaryOf({ beyondWindow: 1 })]
    expect(outside.map((one) => one.advice.includes('exhausted ones'))).toEqual([true, true])
    expect(adviceOf({})).toBe('Nothing to do.')
    const failing = { circuits: [aCircuit()], causes: causesOf('open') }
    for (const throttledToo of [{}, { expiringEndless: { ...refusing(0), throttled: 1 } }])
      expect(summaryOf({ expiring, failed, ...failing, gates: [], ...throttledToo }).notices[0]?.advice).toMatch(
        /^Bring the receiver up now/,
      )
  })

  test('each links to its section of the runbook', () => {
    const facts = { ...shut('paused'), failed: blocked, certificateExpiresAt: incidentNow - 1 }
    expect(summaryOf(facts).runbook).toBe('docs/runbook.md#webhookreconcilerclientcertificateexpiring')
    const runbookUrl = 'https://wiki.example.com/r'
    expect(summaryOf({ ...facts, runbookUrl }).notices[0]?.runbook).toBe(`${runbookUrl}#webhookreconcilerpaused`)
  })
})
