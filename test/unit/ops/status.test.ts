// The status document: what it says of a state, and that nothing but ids, types, codes, counts and times gets into it.
import { describe, expect, test } from 'vitest'
import type { SweepEnd } from '../../../src/observe/progress.ts'
import { toStatus } from '../../../src/ops/status.ts'
import type { StatusState } from '../../../src/ops/status-document.ts'
import { noRetry } from '../../../src/reconcile/decide.ts'
import { groupByCause, type Cause, type CauseStatus } from '../../../src/ops/causes.ts'
import { ibanOf } from '../../support/canaries.ts'
import { aCause, anIncident, uuid } from '../../support/incident.ts'
import { defaultPolicy, due, learn, listingOf, testBacklog, testNow } from '../../support/backlog.ts'
import type { CircuitView } from '../../../src/reconcile/retry/circuits.ts'
import { aCircuit, aStatusState, noCauses } from '../../support/status.ts'

const at = Date.UTC(2026, 0, 15, 12)
const subscriptionId = '11111111-1111-4111-8111-111111111111'

function aSweep(index: number): SweepEnd {
  return { kind: 'recent', result: 'complete', endedAt: new Date(at + index * 1000), seconds: 1.23456, listed: index }
}

/** As a client reads it. */
function documentOf(state: StatusState): Record<string, unknown> {
  return JSON.parse(JSON.stringify(toStatus(state))) as Record<string, unknown>
}

test('a quiet daemon: every field is there, and what there is none of is null', () => {
  expect(documentOf(aStatusState())).toEqual({
    schemaVersion: 2,
    summary: {
      level: 'working',
      headline: 'The first sweep is under way. Nothing is known yet.',
      detail: '',
      advice: 'Nothing to do.',
      runbook: null,
      notices: [],
    },
    instance: 'test',
    version: '1.2.3',
    subscriptions: {},
    startedAt: '2026-01-15T11:00:00.000Z',
    now: '2026-01-15T12:00:00.000Z',
    missing: 0,
    expired: 0,
    refusedAgain: 0,
    resolvedByOthers: 0,
    keyProblem: null,
    drain: { recoveredPerMinute: 0, seconds: 0, doneAt: '2026-01-15T12:00:00.000Z', limitedBy: 'pace' },
    failed: { due: 0, 'backing-off': 0, exhausted: 0, excluded: 0, blocked: 0, awaiting: 0 },
    oldestOpenEvent: null,
    expiring: { total: 0, byDecision: { due: 0, 'backing-off': 0, exhausted: 0, blocked: 0 } },
    awaiting: 0,
    inFlight: 0,
    stuckProcessing: 0,
    beyondWindow: 0,
    leadership: null,
    paused: null,
    holding: [],
    firstExpiry: null,
    gates: [],
    receiver: null,
    circuits: { notClosed: 0, deliveries: 0, list: [] },
    rate: { callsPerSecond: 20, throttledForSeconds: 0 },
    sweeps: [],
    lastFullSweep: null,
    lastCompleteSweep: null,
    nextTick: null,
    notAccepted: null,
    tokenExpires: null,
    certificateExpires: null,
    clock: { skewSeconds: { auth: 0, api: 0 } },
    timeZone: { platform: 'UTC', offsetSeconds: null, actualOffset: null },
    causes: { total: 0, list: [], more: { causes: 0, records: 0 }, onlyCounted: 0 },
    exhausted: { total: 0, list: [] },
    recovered: { lastDay: 0, lastAt: null },
    incident: null,
    history: [],
  })
})

test('an incident', () => {
  const state = aStatusState({
    gates: (['paused', 'receiver-down', 'platform', 'throttled', 'circuit'] as const).map((gate) => ({
      gate,
      since: at - 1000,
      subscriptions: gate === 'circuit' ? 2 : undefined,
      opensInMs: gate === 'throttled' ? 1 : undefined,
    })),
    receiver: { up: false },
    throttledForMs: 1,
    rateLimit: 12.345,
    failed: { due: 0, 'backing-off': 2, exhausted: 3, excluded: 4, blocked: 5, awaiting: 6 },
    oldestOpenAt: at - 3_600_000,
    expiring: { due: 1, 'backing-off': 2, exhausted: 3, blocked: 4 },
    awaiting: 7,
    inFlight: 8,
    stuckProcessing: 9,
    beyondWindow: 10,
    circuits: [
      aCircuit({ subscriptionId: uuid(7), state: 'half-open', outstanding: 1, pausesForMs: 0 }),
      aCircuit({ subscriptionId }),
    ],
    sweeps: [aSweep(0), aSweep(1)],
    nextTickAt: at + 30_000,
    tokenExpiresAt: at + 60_000,
  })
  expect(documentOf(state)).toMatchObject({
    failed: { 'backing-off': 2, exhausted: 3, excluded: 4, blocked: 5, awaiting: 6 },
    oldestOpenEvent: '2026-01-15T11:00:00.000Z',
    firstExpiry: '2026-01-22T11:00:00.000Z',
    expiring: { total: 10, byDecision: { exhausted: 3 } },
    awaiting: 7,
    inFlight: 8,
    stuckProcessing: 9,
    beyondWindow: 10,
    paused: { since: '2026-01-15T11:59:59.000Z' },
    holding: ['paused', 'receiver-down', 'platform', 'throttled', 'circuit'],
    gates: [null, null, null, 0.1, null].map((opensInSeconds) => ({ opensInSeconds })),
    receiver: { up: false },
    circuits: {
      notClosed: 2,
      list: [
        { subscriptionId: uuid(7), state: 'half-open', limit: 1, outstanding: 1, pausesForSeconds: 0 },
        { subscriptionId, state: 'open', limit: 1, outstanding: 0, pausesForSeconds: 30 },
      ],
    },
    // What is left of a pause is never shown as nothing.
    rate: { callsPerSecond: 12.3, throttledForSeconds: 0.1 },
    sweeps: [
      { kind: 'recent', result: 'complete', endedAt: '2026-01-15T12:00:01.000Z', seconds: 1.235, listed: 1 },
      { kind: 'recent', result: 'complete', endedAt: '2026-01-15T12:00:00.000Z', seconds: 1.235, listed: 0 },
    ],
    nextTick: '2026-01-15T12:00:30.000Z',
    tokenExpires: '2026-01-15T12:01:00.000Z',
  })
})

test('a receiver that has not been asked is there, with null, and no gate', () => {
  const { holding, receiver } = toStatus(aStatusState({ receiver: { up: undefined } }))
  expect({ holding, receiver }).toEqual({ holding: [], receiver: { up: null, detail: null } })
})

test('excluded and awaited records do not expire', () => {
  const expiring = { due: 1, 'backing-off': 2, blocked: 3, exhausted: 4, excluded: 100, awaiting: 1000 }
  expect(toStatus(aStatusState({ expiring })).expiring).toEqual({
    total: 10,
    byDecision: { due: 1, 'backing-off': 2, blocked: 3, exhausted: 4 },
  })
})

describe('causes', () => {
  const circuit = (changes: Partial<CircuitView>): CircuitView => aCircuit({ subscriptionId: uuid(1), ...changes })

  function causeOf(changes: Partial<Cause>, state: Partial<StatusState> = {}): CauseStatus | undefined {
    const causes = { ...noCauses, total: 1, records: 1, list: [aCause(changes)] }
    return toStatus(aStatusState({ causes, ...state })).causes.list[0]
  }

  test("the next attempt, by this host's clock: the platform's is ahead", () => {
    const next = { by: 'probe', at: at + 50_000 } as const
    const shown = causeOf({ next }, { skewMs: { auth: 0, api: 20_000 } })
    expect(shown).toMatchObject({ nextRetry: new Date(at + 30_000), nextRetryBy: 'probe' })
    expect(causeOf({ next: noRetry })).toMatchObject({ nextRetry: null, nextRetryBy: 'never' })
  })

  test.each<[string, CircuitView[], string]>([
    ['none', [], 'closed'],
    ['its own', [circuit({})], 'open'],
    ["another one's", [circuit({ subscriptionId: uuid(2) })], 'closed'],
  ])('the circuit: %s', (_, circuits, state) => {
    expect(causeOf({}, { circuits })?.circuit).toBe(state)
  })

  test('excluded records are not missing, exhausted ones are', () => {
    const failed = { due: 1, 'backing-off': 2, exhausted: 4, excluded: 1000, blocked: 8, awaiting: 16 }
    expect(toStatus(aStatusState({ failed })).missing).toBe(31)
  })

  test('an incident: the pace, and when it will be done by it', () => {
    const { causes, drain, exhausted } = toStatus(anIncident({ endless: { circuit: 0, refused: 0 } }))
    expect(drain).toEqual({
      recoveredPerMinute: 95,
      seconds: 4416,
      doneAt: new Date('2026-01-15T13:13:35.368Z'),
      limitedBy: 'pace',
    })
    expect(causes).toMatchObject({ total: 3, more: { causes: 0, records: 0 }, onlyCounted: 0 })
    expect(exhausted).toMatchObject({ total: 9, list: { length: 9 } })
    expect(exhausted.list[0]).toEqual({
      eventId: uuid(1000),
      webhookId: uuid(2000),
      eventType: 'account-activated',
      subscriptionId: uuid(3),
      responseStatusCode: 422,
      attempts: 30,
      event: new Date('2026-01-11T18:00:00.000Z'),
      lastAttempt: new Date('2026-01-14T10:00:00.000Z'),
    })
  })
})

test('of what the platform sends only ids, types and codes get in; an account number or a secret in them is hidden', () => {
  const iban = ibanOf('0532013000')
  const secret = `Bearer ${'x1'.repeat(30)}`
  const backlog = testBacklog()
  const records = [
    due({ id: uuid(1), eventType: `paid ${iban}` }),
    due({ id: uuid(2), eventType: secret, attempts: 30 }),
  ].map((record) => ({ ...record, payload: 'CANARY', responsePayload: 'CANARY' }))
  learn(backlog, listingOf(records), testNow)
  const causes = groupByCause(
    [...backlog.entries()].map((entry) => ({ ...entry, subscriberUrl: 'CANARY' })),
    { policy: defaultPolicy, situationOf: () => ({ now: testNow }), maxCauses: 50, maxExhausted: 100 },
  )
  const text = JSON.stringify(toStatus(aStatusState({ causes })))
  expect(text).toContain('paid ')
  expect(text).toContain(uuid(2))
  for (const hidden of [iban, 'x1x1x1', 'CANARY']) expect(text).not.toContain(hidden)
})

describe('bounds', () => {
  test('of 5,000 circuits a thousand are shown, and all are counted', () => {
    const circuits = Array.from({ length: 5000 }, (_, index) => aCircuit({ subscriptionId: `s-${index}` }))
    const shown = toStatus(aStatusState({ circuits })).circuits
    expect(shown.notClosed).toBe(5000)
    expect(shown.list.length).toBe(1000)
    expect(shown.list[0]?.subscriptionId).toBe('s-0')
    expect(shown.list.at(-1)?.subscriptionId).toBe('s-999')
  })

  test('the last ten sweeps are shown, the newest first', () => {
    const sweeps = Array.from({ length: 25 }, (_, index) => aSweep(index))
    expect(toStatus(aStatusState({ sweeps })).sweeps.map(({ listed }) => listed)).toEqual([
      24, 23, 22, 21, 20, 19, 18, 17, 16, 15,
    ])
  })

  test.each([NaN, Infinity, 9e15])('a time of %d keeps nothing from being shown', (time) => {
    const status = toStatus(aStatusState({ nextTickAt: time, tokenExpiresAt: time, oldestOpenAt: time }))
    expect(status).toMatchObject({ nextTick: null, tokenExpires: null, oldestOpenEvent: null, version: '1.2.3' })
  })
})
