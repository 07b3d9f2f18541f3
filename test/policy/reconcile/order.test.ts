// Events of one transfer or account in their order: who is at the front, however they come and go.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createZone } from '../../../src/platform/local-time.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { createFailedRecord, type FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { createEntityOrder, noOrder } from '../../../src/reconcile/retry/order.ts'
import {
  begun,
  dayMs,
  due,
  entryOf,
  hourMs,
  learn,
  listingOf,
  looked,
  minuteMs,
  noted,
  testBacklog,
  testNow,
  type TestBacklog,
} from '../../support/backlog.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'

const transfer = '77777777-0000-4000-8000-000000000001'
const other = '77777777-0000-4000-8000-000000000002'

function entry(eventAt: number, fields: Partial<FailedRecord> = {}): FailedRecord {
  const record = failedRecord({ eventLocal: eventAt })
  const made = createFailedRecord(record, { zone: createZone('UTC'), now: testNow, askedAt: 0 })
  return { ...made, entityId: transfer, ...fields }
}

const ids = (entries: Iterable<Pick<FailedRecord, 'id'>>): string[] => [...entries].map(({ id }) => id)

describe('a chain', () => {
  test('gives its first that is not done with, and those before it', () => {
    const done = new Set<FailedRecord>()
    const order = createEntityOrder((one) => done.has(one))
    const [first, second, third] = [entry(1000), entry(2000), entry(3000)]
    for (const one of [third, first, second]) order.add(one)
    expect(ids(order.front(third))).toEqual(ids([first]))
    done.add(first)
    expect(ids(order.front(third))).toEqual(ids([first, second]))
    done.add(third)
    expect(ids(order.front(third))).toEqual(ids([first, second]))
    done.add(second)
    expect(ids(order.front(first))).toEqual(ids([first, second, third]))
  })

  test('is of one entity and one subscription: others are not waited for', () => {
    const order = createEntityOrder(() => false)
    const mine = entry(5000)
    const others = [
      entry(1000, { entityId: other }),
      entry(1000, { subscriptionId: 'aaaaaaaa-0000-4000-8000-000000000009' }),
      entry(1000, { entityId: '' }),
    ]
    for (const one of [mine, ...others]) order.add(one)
    for (const one of [mine, ...others]) expect(ids(order.front(one))).toEqual([one.id])
  })

  test('records without an entity stand in no order, however many there are', () => {
    const order = createEntityOrder(() => false)
    const all = [entry(1000, { entityId: '' }), entry(2000, { entityId: '' })]
    for (const one of all) order.add(one)
    for (const one of all) expect(order.front(one)).toEqual([one])
    expect(noOrder.front(entry(1))).toHaveLength(1)
  })

  test('of two at the same time the id decides, always in the same way', () => {
    const order = createEntityOrder(() => false)
    const [a, b] = [entry(1000), entry(1000)]
    const smaller = a.id < b.id ? a : b
    for (const one of [b, a]) order.add(one)
    expect(ids(order.front(a))).toEqual([smaller.id])
  })

  test('what was never added, or is not in it any more, is in nobody’s way', () => {
    const order = createEntityOrder(() => false)
    const [first, second, stranger] = [entry(1000), entry(2000), entry(500)]
    order.add(second)
    order.remove(stranger)
    order.remove(first)
    order.add(first)
    order.remove(first)
    order.remove(first)
    expect(ids(order.front(second))).toEqual([second.id])
    order.remove(second)
    expect(order.front(second)).toEqual([])
  })

  test('whatever comes and goes: the front is what sorting tells', () => {
    const step = fc.record({ pick: fc.nat(11), do: fc.constantFrom('add', 'remove', 'done', 'open') })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const all = Array.from({ length: 12 }, (_, index) =>
          entry(1000 * (index % 5), { entityId: [transfer, other][index % 2] ?? '' }),
        )
        const [here, done] = [new Set<FailedRecord>(), new Set<FailedRecord>()]
        const order = createEntityOrder((one) => done.has(one))
        for (const { do: act, pick } of steps) {
          const one = all[pick] ?? entry(0)
          if (act === 'add') order.add(one)
          if (act === 'add') here.add(one)
          if (act === 'remove') order.remove(one)
          if (act === 'remove') here.delete(one)
          if (act === 'done') done.add(one)
          if (act === 'open') done.delete(one)
          const chain = [...here]
            .filter(({ entityId }) => entityId === one.entityId)
            .sort((a, b) => a.eventAt - b.eventAt || (a.id < b.id ? -1 : 1))
          const first = chain.findIndex((each) => !done.has(each))
          expect(ids(order.front(one))).toEqual(ids(first === -1 ? chain : chain.slice(0, first + 1)))
        }
      }),
    )
  })
})

describe('the next one goes', () => {
  const second = 1000

  /** Three events of one transfer: released, completed, returned. */
  function chained(fields: Partial<WebhookRecord> = {}): {
    backlog: TestBacklog
    records: [WebhookRecord, WebhookRecord]
  } {
    const backlog = testBacklog({ policy: { orderPerEntity: true } })
    const at = testNow - 2 * dayMs
    const make = (offset: number, more: Partial<WebhookRecord> = {}): WebhookRecord =>
      due({ eventLocal: at + offset * second, entityId: transfer, ...more })
    const records: [WebhookRecord, WebhookRecord] = [make(0, fields), make(1)]
    learn(backlog, listingOf([...records, make(2)]), testNow)
    return { backlog, records }
  }

  function isNext(backlog: TestBacklog, record: WebhookRecord): boolean {
    const one = entryOf(backlog, record)
    return backlog.front(one).includes(one)
  }

  /** It is answered as failed once more, and looked at when that is sure. */
  function failsAgain(backlog: TestBacklog, record: WebhookRecord, attempts: number): void {
    const failed = { ...record, attempts, lastAttemptLocal: testNow }
    noted(backlog, record, accepted(failed))
    looked(backlog, entryOf(backlog, record), failed, 2100)
    expect(entryOf(backlog, record)).toMatchObject({ attempts, awaiting: undefined })
  }

  test.each<[string, (backlog: TestBacklog, first: WebhookRecord) => void, boolean]>([
    ['nothing has happened', () => undefined, false],
    ['the one before is in flight', (backlog, first) => begun(backlog, first), false],
    ['it is awaited', (backlog, first) => noted(backlog, first, accepted()), false],
    [
      'its answer was lost',
      (backlog, first) => noted(backlog, first, { result: 'unreachable', reason: 'timeout', sent: true, lost: true }),
      false,
    ],
    [
      'it failed again',
      (backlog, first) => {
        failsAgain(backlog, first, 2)
      },
      false,
    ],
    [
      'it was refused',
      (backlog, first) => noted(backlog, first, { result: 'rejected', reason: 'bad-request', sent: true }),
      false,
    ],
    [
      'the platform failed',
      (backlog, first) => noted(backlog, first, { result: 'platform-error', reason: 'server-error', sent: true }),
      false,
    ],
    [
      'somebody else resolves it just now',
      (backlog, first) =>
        noted(backlog, first, { result: 'already-resolved', reason: 'conflict', sent: true, found: 'processing' }),
      false,
    ],
    ['it recovered', (backlog, first) => noted(backlog, first, accepted({ ...first, status: 'successful' })), true],
    [
      'it is gone, as one PATCH was told: a misrouted gateway says so too',
      (backlog, first) => noted(backlog, first, { result: 'gone', reason: 'not-found', sent: true, doubtful: true }),
      false,
    ],
    [
      'somebody else has resolved it',
      (backlog, first) =>
        noted(backlog, first, { result: 'already-resolved', reason: 'conflict', sent: true, found: 'successful' }),
      true,
    ],
    [
      'somebody else has resolved it, and a listing shows it failed',
      (backlog, first) => {
        noted(backlog, first, { result: 'already-resolved', reason: 'conflict', sent: true, found: 'successful' })
        learn(backlog, listingOf([first], { askedAt: 5000, complete: false }), testNow)
      },
      false,
    ],
    [
      'it failed for the last time',
      (backlog, first) => {
        failsAgain(backlog, first, 30)
      },
      true,
    ],
    [
      'its answer shows the last failure: it may still be under way',
      (backlog, first) => noted(backlog, first, accepted({ ...first, attempts: 30, lastAttemptLocal: testNow })),
      false,
    ],
    [
      'it is gone, and retried once more',
      (backlog, first) => {
        noted(backlog, first, { result: 'gone', reason: 'not-found', sent: true, doubtful: true })
        begun(backlog, first, 3000)
      },
      false,
    ],
    [
      'it was gone, and fails again',
      (backlog, first) => {
        noted(backlog, first, { result: 'gone', reason: 'not-found', sent: true, doubtful: true })
        failsAgain(backlog, first, 2)
      },
      false,
    ],
    ['it has left the window', (backlog) => backlog.forgetBefore((testNow - 2 * dayMs) / 1000 + 1), true],
    [
      'it is not listed any more',
      (backlog, first) =>
        learn(
          backlog,
          listingOf(
            [...backlog.entries()]
              .filter(({ id }) => id !== first.id)
              .map(({ id, localSecond }) => due({ id, eventLocal: localSecond * 1000, entityId: transfer })),
            { askedAt: 5000 },
          ),
          testNow,
        ),
      true,
    ],
  ])('%s: %o', (_, happens, goes) => {
    const { backlog, records } = chained()
    happens(backlog, records[0])
    expect(isNext(backlog, records[1])).toBe(goes)
  })

  test.each([
    ['by its looks', false, hourMs],
    ['as its answer was lost, and it stays as it was', true, 2 * minuteMs],
  ])('the outcome of the one before is given up %s', (_, isLost, afterMs) => {
    const { backlog, records } = chained()
    const [first, next] = records
    noted(backlog, first, isLost ? { result: 'unreachable', reason: 'timeout', sent: true, lost: true } : accepted())
    looked(backlog, entryOf(backlog, first), first, afterMs - 1)
    expect(isNext(backlog, next)).toBe(false)
    looked(backlog, entryOf(backlog, first), first, afterMs)
    expect(isNext(backlog, next)).toBe(true)
    // Both may go now; the third one waits for the second.
    expect(backlog.front(entryOf(backlog, next))).toHaveLength(2)
    // It is nobody's order any more: that it is retried once more does not stop them again.
    noted(backlog, first, accepted(), 9e6)
    expect(isNext(backlog, next)).toBe(true)
  })

  test('a parked one that is retried by hand is waited for only while it is retried', () => {
    const { backlog, records } = chained({ attempts: 30 })
    expect(isNext(backlog, records[1])).toBe(true)
    const one = begun(backlog, records[0])
    expect(isNext(backlog, records[1])).toBe(false)
    const failed = { ...records[0], attempts: 31, lastAttemptLocal: testNow }
    backlog.outcomes.note(one, accepted(failed), { answeredAt: testNow, monotonic: 2000 })
    looked(backlog, one, failed, 2099)
    expect(isNext(backlog, records[1])).toBe(false)
    looked(backlog, one, failed, 2100)
    expect(isNext(backlog, records[1])).toBe(true)
  })

  test('an excluded one is not waited for', () => {
    const select = { eventTypes: [], modules: ['accounts'], subscriptionIds: [] }
    const backlog = testBacklog({ policy: { orderPerEntity: true, select } })
    const first = due({ eventLocal: testNow - 2 * dayMs, module: 'other', entityId: transfer })
    const next = due({ entityId: transfer })
    learn(backlog, listingOf([first, next]), testNow)
    expect(isNext(backlog, next)).toBe(true)
  })

  test('an older event that comes later goes first', () => {
    const { backlog, records } = chained()
    const older = due({ eventLocal: testNow - 3 * dayMs, entityId: transfer })
    learn(backlog, listingOf([older], { askedAt: 1001, complete: false }), testNow)
    expect(isNext(backlog, older)).toBe(true)
    expect(isNext(backlog, records[0])).toBe(false)
  })

  test('without `retry.orderPerEntity` nobody waits', () => {
    const backlog = testBacklog()
    const records = [due({ entityId: transfer }), due({ entityId: transfer })]
    learn(backlog, listingOf(records), testNow)
    for (const record of records) expect(isNext(backlog, record)).toBe(true)
  })
})
