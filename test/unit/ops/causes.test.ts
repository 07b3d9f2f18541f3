// Causes: thousands of records become a few rows, what is exhausted is counted, and it is quick however many there are.
import { expect, test } from 'vitest'
import { createCauses, type Causes } from '../../../src/ops/causes.ts'
import {
  dayMs,
  defaultPolicy,
  due,
  learn,
  listingOf,
  minuteMs,
  noted,
  testNow,
  type TestBacklog,
} from '../../support/backlog.ts'
import { testBacklog } from '../../support/reconcile.ts'
import type { Ours } from '../../../src/reconcile/failed-record.ts'
import { backoffDelayMs } from '../../../src/reconcile/backoff.ts'
import type { Situation, SituationOf } from '../../../src/reconcile/decide.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { refusing } from '../../support/incident.ts'
import { finish, type Steps } from '../../../src/runtime/steps.ts'

const second = '22222222-2222-4222-8222-222222222222'
const third = '33333333-3333-4333-8333-333333333333'

const idOf = (n: number): string => `${n.toString(16).padStart(8, '0')}-0000-4000-8000-000000000000`

function backlogOf(records: WebhookRecord[]): TestBacklog {
  const backlog = testBacklog(200_000)
  learn(backlog, listingOf(records), testNow)
  return backlog
}

/** The platform's clock is a second ahead of this host's. */
const skewMs = 1000

function group(backlog: TestBacklog, situationOf: SituationOf = () => ({ now: testNow })): Causes {
  const causes = createCauses(defaultPolicy)
  finish(backlog.summary(situationOf, causes.look))
  return finish(causes.listed(backlog.bySubscription(), skewMs))
}

/** Subscription, answer, number of records, and its event types. */
function shown({ list }: Causes): unknown[] {
  return list.map(({ eventTypes, records, responseStatusCode, subscriptionId }) => [
    ...[subscriptionId, responseStatusCode, records],
    eventTypes.list.map(({ eventType, records: count }) => `${eventType} ${count}`).join(', '),
  ])
}

test('an outage of two receivers, with records of several types, is four rows: the largest first, with its types', () => {
  const kinds: [count: number, eventType: string, subscriptionId: string, responseStatusCode: number | null][] = [
    [10, 'b', second, 503],
    [40, 'a', second, 503],
    [1, '__proto__', second, 503],
    [15, 'a', second, null],
    [5, 'a', third, 503],
    [1, '', '', 503],
  ]
  let n = 0
  const records = kinds.flatMap(([count, eventType, subscriptionId, responseStatusCode]) =>
    Array.from({ length: count }, (_, at) =>
      due({ eventType, subscriptionId, responseStatusCode, id: idOf(n++), eventLocal: testNow - dayMs - at }),
    ),
  )
  const causes = group(backlogOf(records))
  expect([causes.total, causes.records]).toEqual([4, 72])
  expect(shown(causes)).toEqual([
    [second, 503, 51, 'a 40, b 10, __proto__ 1'],
    [second, null, 15, 'a 15'],
    [third, 503, 5, 'a 5'],
    ['', 503, 1, ' 1'],
  ])
  expect(causes.list.map(({ oldestEvent }) => testNow - dayMs - Number(oldestEvent))).toEqual([39, 14, 4, 0])
})

test('a cause says what is decided of its records, and when the first goes out; the summary, when the last backoff ends', () => {
  const fields = { eventType: 'a', subscriptionId: second, responseStatusCode: 500 }
  const backlog = backlogOf([
    due({ ...fields, id: idOf(1) }),
    due({ ...fields, id: idOf(2), attempts: 30 }),
    due({ ...fields, id: idOf(3), attempts: 1, lastAttemptLocal: testNow - 1000 }),
    due({ ...fields, id: idOf(4), attempts: 5, lastAttemptLocal: testNow - 1000 }),
    due({ ...fields, id: idOf(5) }),
    due({ ...fields, id: idOf(6), subscriptionId: third }),
  ])
  noted(backlog, { ...due({ id: idOf(5) }) }, { result: 'accepted', reason: 'ok' })
  noted(backlog, { ...due({ id: idOf(2) }) }, { result: 'unauthorized', reason: 'forbidden' })
  const open = { gate: 'circuit', pausesForMs: minuteMs } as const
  const { list } = group(backlog, (id) => ({ now: testNow, ...(id === third && open) }))
  expect(list).toHaveLength(2)
  // A retry that the platform refused has no response of the receiver.
  expect(list[0]?.lastAttempt).toEqual(new Date(testNow - 1000 - skewMs))
  expect(list[0]?.byDecision).toEqual({ due: 1, 'backing-off': 2, exhausted: 1, excluded: 0, blocked: 0, awaiting: 1 })
  expect(list[1]?.byDecision).toMatchObject({ blocked: 1, due: 0 })
  expect(list.map(({ nextRetry, nextRetryBy }) => [nextRetryBy, nextRetry])).toEqual([
    ['time', new Date(testNow - skewMs)],
    ['probe', new Date(testNow + minuteMs - skewMs)],
  ])
  const { lastDueAt } = finish(backlog.summary(() => ({ now: testNow })))
  const seed = backlog.get(idOf(4))?.jitterSeed ?? 0
  expect(lastDueAt).toBe(testNow - 1000 + backoffDelayMs(seed, 3, defaultPolicy.backoff))
})

test('while a circuit is open, records that were not tried since have its newest answer; others keep their own', () => {
  const stale = { subscriptionId: second, responseStatusCode: 503 }
  const backlog = backlogOf([
    due({ ...stale, id: idOf(1) }),
    due({ ...stale, id: idOf(2), lastAttemptLocal: testNow }),
    due({ ...stale, id: idOf(3), attempts: 30 }),
    due({ ...stale, id: idOf(4), subscriptionId: third }),
  ])
  const failing = { since: testNow - 1, responseStatusCode: 401 }
  const causes = group(backlog, (id) => ({ now: testNow, ...(id === second && { failing }) }))
  const type = due().eventType
  expect(shown(causes)).toEqual([
    [second, 503, 2, `${type} 2`],
    [second, 401, 1, `${type} 1`],
    [third, 503, 1, `${type} 1`],
  ])
})

test('refused again and again is what failed twice while its circuit was closed, and only that has no end', () => {
  const backlog = backlogOf([due({ id: idOf(1), attempts: 1, subscriptionId: second })])
  const [entry] = backlog.entries()
  if (entry === undefined) throw new Error('no record')
  const seen = ({ tries = 2, ...changes }: Partial<Ours>, situation: object = {}): unknown => {
    entry.note({ triedAt: testNow - 1000, tries, provenTries: tries, failedAgainAt: testNow - 900, ...changes })
    const situationOf = (): Situation => ({ now: testNow, monotonic: testNow, ...situation })
    const [cause] = group(backlog, situationOf).list
    const { endless, mended } = finish(backlog.summary(situationOf))
    return [cause?.refusedAgain, endless, mended?.records]
  }
  const others = (takenAt: number, overSince = -Infinity): Partial<Situation> => ({
    overSince,
    takenAtOf: () => takenAt,
  })
  expect(seen({})).toEqual([1, refusing(1), undefined])
  expect(seen({ tries: 1 })).toEqual([0, refusing(0), undefined])
  for (const tries of [1, 2]) {
    expect(seen({ tries }, others(testNow - 500))).toEqual([0, refusing(0), undefined])
    expect(seen({ tries }, others(testNow - 400, testNow - 500))).toEqual([0, refusing(0), 1])
  }
  // Its backoff has ended; it failed since.
  expect(seen({ triedAt: testNow - dayMs }, others(testNow - 500))).toEqual([0, refusing(0), undefined])
  expect(seen({}, others(testNow - 600_001))).toEqual([1, refusing(1), undefined])
  const failing = { since: testNow - 5000, responseStatusCode: null }
  expect(seen({}, { failing })).toEqual([0, { ...refusing(0), circuit: 1 }, undefined])
  const { backoff, maxAttempts } = defaultPolicy
  const delays = [2, 1].map((left) => backoffDelayMs(entry.jitterSeed, maxAttempts - left, backoff))
  seen({ tries: maxAttempts - 2 })
  const [cause] = group(backlog).list
  expect(cause?.firstExhausted).toEqual(new Date(testNow - 1000 - skewMs + (delays[0] ?? 0) + (delays[1] ?? 0)))
  expect(seen({ tries: maxAttempts })).toEqual([0, refusing(0), undefined])
})

test('nothing, or what is excluded, is no cause', () => {
  const causes = createCauses(defaultPolicy)
  const backlog = backlogOf([due()])
  for (const entry of backlog.entries())
    causes.look(entry, { decision: 'excluded', dueAt: testNow, because: 'event-type' }, { now: testNow })
  const none = { total: 0, records: 0, list: [], oldestExhaustedAt: Infinity }
  expect(finish(causes.listed(backlog.bySubscription(), skewMs))).toEqual(none)
})

test('of many causes and types the largest are listed, and all are counted', () => {
  const records = Array.from({ length: 3000 }, (_, n) =>
    due({
      id: idOf(n),
      // Subscription s-k has as many records as its number says: 1, 2, 3 ...
      subscriptionId: `s-${Math.floor((Math.sqrt(8 * n + 1) - 1) / 2)}`,
      eventType: `t-${n}`,
      attempts: 30,
      // In no order of time.
      eventLocal: testNow - dayMs - ((n * 7919) % 3000) * 1000,
    }),
  )
  const { list, oldestExhaustedAt, total } = group(backlogOf(records))
  expect(total).toBe(77)
  const counts = list.map(({ records: count }) => count)
  expect([counts.length, counts]).toEqual([50, counts.toSorted((a, b) => b - a)])
  const never = { nextRetry: null, nextRetryBy: 'never' }
  expect(list[0]).toMatchObject({ records: 76, eventTypes: { total: 76, list: { length: 20 } }, ...never })
  expect(oldestExhaustedAt).toBe(testNow - dayMs - 2_999_000)
})

test('very many are looked at in steps', () => {
  const backlog = backlogOf(Array.from({ length: 12_500 }, (_, n) => due({ id: idOf(n) })))
  const causes = createCauses(defaultPolicy)
  const stepsOf = (steps: Steps<unknown>): number => [...steps].length
  expect(stepsOf(backlog.summary(() => ({ now: testNow }), causes.look))).toBe(2)
  expect(stepsOf(causes.listed(backlog.bySubscription(), skewMs))).toBe(2)
})
