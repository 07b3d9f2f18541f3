// The retry plan: lanes, round robin, probes, the order of one entity. Everything is judged by which record goes next.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { createFailedRecord, type FailedRecord } from '../../../src/reconcile/failed-record.ts'
import type { Policy } from '../../../src/reconcile/policy.ts'
import { pickNext, planRetries, take, type PickRules, type RetryPlan } from '../../../src/reconcile/retry/retry-plan.ts'
import { dayMs, defaultPolicy, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/fake-platform.ts'

const zone = createTimeZone('UTC')

/** A record whose event is `ageMs` old and that was last tried two days after never: it is due. */
function record(ageMs: number, fields: Partial<WebhookRecord> = {}): FailedRecord {
  const eventLocal = testNow - ageMs
  const row = failedRecord({ eventLocal, lastAttemptLocal: eventLocal, ...fields })
  return createFailedRecord(row, { zone, now: testNow })
}

const calm: PickRules = {
  admits: () => true,
  isReady: ({ awaiting }) => awaiting === undefined,
  isHalfOpen: () => false,
  lastProbeType: () => undefined,
  isTrial: false,
}

function plan(records: FailedRecord[], previous?: RetryPlan, policy: Partial<Policy> = {}): RetryPlan {
  return planRetries(records, { policy: { ...defaultPolicy, ...policy }, now: testNow, previous })
}

/** Sends records until none may go, or `most` have gone. */
function send(made: RetryPlan, rules: Partial<PickRules> = {}, most = Infinity): FailedRecord[] {
  const sent: FailedRecord[] = []
  while (sent.length < most) {
    const picked = pickNext(made, { ...calm, ...rules })
    if (picked === undefined) break
    take(made, picked)
    picked.record.awaiting = {} as FailedRecord['awaiting']
    sent.push(picked.record)
  }
  return sent
}

describe('within a lane', () => {
  test('expiring first, then fewest attempts, then the oldest event', () => {
    const old = record(3 * dayMs)
    const older = record(4 * dayMs)
    const tried = record(5 * dayMs, { attempts: 3 })
    const expiring = record(7 * dayMs - hourMs, { attempts: 5 })
    expect(send(plan([old, tried, expiring, older]))).toEqual([expiring, older, old, tried])
  })

  test('of expiring records the one that leaves next, no matter what was tried before', () => {
    const [next, later] = [record(7 * dayMs - hourMs, { attempts: 9 }), record(7 * dayMs - 2 * hourMs)]
    expect(send(plan([later, next]))).toEqual([next, later])
  })

  test('our own tries count: what is tried does not go before what is not', () => {
    const tried = { ...record(5 * dayMs), tries: 2 }
    const untried = record(3 * dayMs)
    expect(send(plan([tried, untried]))).toEqual([untried, tried])
  })
})

describe('between lanes', () => {
  test('subscriptions take turns, and recent records have a lane of their own', () => {
    const crowd = Array.from({ length: 50 }, (_, index) => record(2 * dayMs - index, { subscriptionId: 'a' }))
    const recent = record(10 * minuteMs, { subscriptionId: 'a' })
    const other = record(2 * dayMs, { subscriptionId: 'b' })
    expect(send(plan([...crowd, recent, other]), {}, 3)).toEqual([crowd[0], recent, other])
  })

  test('a recent record that has become old goes among the old ones', () => {
    const crowd = Array.from({ length: 5 }, (_, index) => record(2 * dayMs - index))
    const aged = record(59 * minuteMs)
    const before = plan([...crowd, aged])
    const later = { policy: defaultPolicy, now: testNow + hourMs, previous: before }
    expect(send(planRetries([...crowd, aged], later))).toEqual([...crowd, aged])
  })

  test('the next plan goes on after the lane that was served last', () => {
    const records = ['a', 'b', 'c'].flatMap((subscriptionId) =>
      Array.from({ length: 5 }, (_, index) => record(2 * dayMs - index, { subscriptionId })),
    )
    let made: RetryPlan | undefined
    const served: string[] = []
    for (let round = 0; round < 6; round += 1) {
      made = plan(records, made)
      served.push(...send(made, {}, 1).map(({ subscriptionId }) => subscriptionId))
    }
    expect(served).toEqual(['a', 'b', 'c', 'a', 'b', 'c'])
  })

  test('what is not admitted keeps its lane, and its records', () => {
    const [one, two] = [record(2 * dayMs, { subscriptionId: 'a' }), record(dayMs, { subscriptionId: 'b' })]
    const made = plan([one, two])
    expect(send(made, { admits: (id) => id === 'b' })).toEqual([two])
    expect(send(made)).toEqual([one])
  })

  test('no matter what is blocked, each due record goes exactly once, and no lane waits for more than one round', () => {
    const one = fc.record({ of: fc.constantFrom('a', 'b', 'c'), age: fc.integer({ min: 1, max: 100 }) })
    fc.assert(
      fc.property(fc.array(one, { maxLength: 40 }), (drawn) => {
        const records = drawn.map(({ of, age }) => record(age * hourMs, { subscriptionId: of }))
        const sent = send(plan(records))
        expect(new Set(sent)).toEqual(new Set(records))
        expect(sent).toHaveLength(records.length)
        const [first, ...others] = ['a', 'b', 'c'].filter((id) => records.some((each) => each.subscriptionId === id))
        const opening = new Set(sent.slice(0, 6).map(({ subscriptionId }) => subscriptionId))
        if (first !== undefined && records.length >= 6) expect(opening).toEqual(new Set([first, ...others]))
      }),
    )
  })
})

test('what backs off is not planned, and the plan says when the first of it is due', () => {
  const waiting = record(2 * dayMs, { attempts: 5, lastAttemptLocal: testNow - minuteMs })
  const made = plan([waiting])
  expect(send(made)).toEqual([])
  expect(made.nextDueAt).toBeGreaterThan(testNow)
  expect(made.nextDueAt).toBeLessThanOrEqual(testNow + 15 * minuteMs)
})

describe('probes of a half-open circuit', () => {
  const halfOpen: Partial<PickRules> = { isHalfOpen: () => true }

  test('fewest attempts, of these the newest', () => {
    const poisoned = record(2 * dayMs, { attempts: 9 })
    const [older, newer] = [record(3 * dayMs, { attempts: 2 }), record(dayMs, { attempts: 2 })]
    expect(send(plan([poisoned, older, newer]), halfOpen, 1)).toEqual([newer])
  })

  test('of another event type than the last probe, if there is one', () => {
    const [same, other] = [record(dayMs, { eventType: 'x' }), record(2 * dayMs, { eventType: 'y', attempts: 4 })]
    expect(send(plan([same, other]), { ...halfOpen, lastProbeType: () => 'x' }, 1)).toEqual([other])
    expect(send(plan([same]), { ...halfOpen, lastProbeType: () => 'x' }, 1)).toEqual([same])
  })

  test('take the turn of their lane', () => {
    const [healthy, next] = [record(2 * dayMs, { subscriptionId: 'a' }), record(dayMs, { subscriptionId: 'a' })]
    const [dead, newer] = [record(2 * dayMs, { subscriptionId: 'b' }), record(dayMs, { subscriptionId: 'b' })]
    const rules = { isHalfOpen: (subscriptionId: string): boolean => subscriptionId === 'b' }
    expect(send(plan([healthy, next, dead, newer]), rules)).toEqual([healthy, newer, next, dead])
  })
})

test('while the platform is on trial, a probe goes that was not refused last', () => {
  const refused = { ...record(dayMs), refusals: 1 }
  const poisoned = record(2 * dayMs, { attempts: 9 })
  const untried = record(3 * dayMs)
  expect(send(plan([refused, untried, poisoned]), { isTrial: true })).toEqual([untried, poisoned, refused])
})
