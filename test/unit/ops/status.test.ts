// The status document: what it says of a state, and that nothing but ids, types, codes, counts and times gets into it.
import { describe, expect, test } from 'vitest'
import type { SweepEnd } from '../../../src/observe/progress.ts'
import { toStatus } from '../../../src/ops/status.ts'
import type { StatusState } from '../../../src/ops/status-document.ts'
import { createCauses } from '../../../src/ops/causes.ts'
import { ibanOf } from '../../support/canaries.ts'
import { anIncident, refusing, uuid } from '../../support/incident.ts'
import { defaultPolicy, due, learn, listingOf, testNow } from '../../support/backlog.ts'
import { testBacklog } from '../../support/reconcile.ts'
import { finish } from '../../../src/runtime/steps.ts'
import { aCircuit, aStatusState } from '../../support/status.ts'

const at = Date.UTC(2026, 0, 15, 12)

function aSweep(index: number): SweepEnd {
  return { kind: 'recent', result: 'complete', endedAt: new Date(at + index * 1000), seconds: 1.23456, listed: index }
}

/** As a client reads it. */
function documentOf(state: StatusState): Record<string, unknown> {
  return JSON.parse(JSON.stringify(toStatus(state))) as Record<string, unknown>
}

test('a quiet daemon: what there is none of is null', () => {
  const entries = Object.entries(documentOf(aStatusState()))
  const none = entries.flatMap(([name, value]) => (value === null ? [name] : []))
  expect(none.toSorted().join(' ')).toBe(
    'books certificateExpires firstExpiry incident keyProblem lastBackoff lastCompleteSweep lastFullSweep leadership listsFailing mended nextSweep nextTick notAccepted ' +
      'oldestOpenEvent receiver seenUntil throttled tokenExpires tokenTrouble unlisted unreadable',
  )
})

test('an incident', () => {
  const gates = ['paused', 'receiver-down', 'platform', 'throttled', 'circuit'] as const
  const state = aStatusState({
    gates: gates.map((gate) => ({
      gate,
      since: at - 1000,
      subscriptions: gate === 'circuit' ? 2 : undefined,
      opensInMs: gate === 'throttled' ? 1 : undefined,
    })),
    pauses: [{ subscriptionId: 'one', since: at - 1000, reason: 'INC-7' }],
    throttledForMs: 1,
    rateLimit: 12.345,
    rateMaximum: 20,
    failed: { due: 1, 'backing-off': 2, exhausted: 4, excluded: 1000, blocked: 8, awaiting: 16 },
    oldestOpenAt: at - 3_600_000,
    // Excluded and awaited ones do not expire.
    expiring: { due: 1, 'backing-off': 2, blocked: 3, exhausted: 4, awaiting: 5, ...{ excluded: 100 } },
    circuits: [aCircuit({ subscriptionId: uuid(7), state: 'half-open', outstanding: 1, pausesForMs: 0 }), aCircuit()],
    sweeps: Array.from({ length: 2 }, (_, index) => aSweep(index)),
    tokenExpiresAt: at + 60_000,
  })
  expect(documentOf(state)).toMatchObject({
    missing: 31,
    oldestOpenEvent: '2026-01-15T11:00:00.000Z',
    firstExpiry: '2026-01-22T11:00:00.000Z',
    expiring: { total: 15, byDecision: { due: 1, 'backing-off': 2, blocked: 3, exhausted: 4, awaiting: 5 } },
    pauses: [{ subscriptionId: 'one', since: '2026-01-15T11:59:59.000Z', until: null, reason: 'INC-7' }],
    holding: gates,
    gates: [null, null, null, 0.1, null].map((opensInSeconds) => ({ opensInSeconds })),
    circuits: {
      notClosed: 2,
      list: [
        { subscriptionId: uuid(7), state: 'half-open', limit: 1, outstanding: 1, pausesForSeconds: 0 },
        { subscriptionId: 'one', state: 'open', limit: 1, outstanding: 0, pausesForSeconds: 30 },
      ],
    },
    // What is left of a pause is never shown as nothing.
    rate: { callsPerSecond: 12.3, maxCallsPerSecond: 20, maxRetriesPerSecond: null, throttledForSeconds: 0.1 },
    // The newest first.
    sweeps: [1, 0].map((listed) => ({ listed, seconds: 1.235 })),
    tokenExpires: '2026-01-15T12:01:00.000Z',
  })
})

test('a receiver that has not been asked is there, with null, and no gate', () => {
  const { holding, receiver } = toStatus(aStatusState({ receiver: { up: undefined } }))
  expect({ holding, receiver }).toEqual({ holding: [], receiver: { up: null, detail: null } })
})

test('an incident: the pace, and when it will be done by it', () => {
  const { causes, drain, exhausted } = toStatus(anIncident({ endless: refusing(0) }))
  expect(drain).toEqual({
    recoveredPerMinute: 95,
    seconds: 4416,
    doneAt: new Date('2026-01-15T13:13:35.368Z'),
    limitedBy: 'pace',
    failedShare: 0,
  })
  expect(causes).toMatchObject({ total: 3, more: { causes: 0, records: 0 }, onlyCounted: 0 })
  expect(exhausted).toEqual({ total: 9, oldest: new Date('2026-01-11T18:00:00.000Z') })
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
  for (const entry of backlog.entries()) Object.assign(entry, { subscriberUrl: 'CANARY' })
  const groups = createCauses(defaultPolicy)
  finish(backlog.summary(() => ({ now: testNow }), groups.look))
  const causes = finish(groups.listed(backlog.bySubscription(), 0))
  const text = JSON.stringify(toStatus(aStatusState({ causes })))
  expect(text).toContain('paid ')
  for (const hidden of [iban, 'x1x1x1', 'CANARY']) expect(text).not.toContain(hidden)
})

test('the next sweep waits for a token, and none begins on a standby', () => {
  const nextSweep = (changes: Partial<StatusState>): number | undefined => {
    const state = aStatusState({ nextSweepInMs: 3000, ...changes })
    return (toStatus(state).nextSweep?.getTime() ?? NaN) - state.now
  }
  const { leadership, now } = aStatusState({})
  const tokenTrouble = { since: now, advice: 'wait', nextTryAt: now + 60_000 } as NonNullable<
    StatusState['tokenTrouble']
  >
  expect(nextSweep({})).toBe(3000)
  expect(nextSweep({ tokenTrouble, tokenExpiresAt: now + 1 })).toBe(3000)
  expect(nextSweep({ tokenTrouble, tokenExpiresAt: now })).toBe(60_000)
  expect(nextSweep({ leadership: { ...leadership, isLeading: false } })).toBeNaN()
})

describe('bounds', () => {
  test('of 5,000 circuits a thousand are shown, and all are counted; of missed causes 50', () => {
    const circuits = Array.from({ length: 5000 }, (_, index) => aCircuit({ subscriptionId: `s-${index}` }))
    const { list, notClosed } = toStatus(aStatusState({ circuits })).circuits
    expect([notClosed, list.length, list.at(-1)?.subscriptionId]).toEqual([5000, 1000, 's-999'])
    const missed = { firstAt: 0, causes: Array.from({ length: 60 }, () => ({})) }
    const { books } = toStatus(aStatusState({ books: { comparedUntil: 0, dueAt: 0, missed } as never }))
    expect(books?.unprocessed.causes.list).toHaveLength(50)
  })
})
