// When rounds of checks begin, and who is in them: nobody is checked early, twice, or never.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createCheckQueue, type CheckQueue } from '../../../src/reconcile/confirm/check-queue.ts'
import type { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { awaitedOf, due, entryOf, learn, listingOf, testBacklog, testNow } from '../../support/backlog.ts'

/** Entries that are to be checked at these times. */
function awaitedAt(times: readonly number[]): FailedRecord[] {
  const backlog = testBacklog({ maxRecords: 100_000 })
  const records = times.map(() => due())
  learn(backlog, listingOf(records), testNow)
  return records.map((record, index) => {
    const entry = entryOf(backlog, record)
    entry.awaiting = awaitedOf(record, { checkAt: times[index] ?? 0 })
    return entry
  })
}

function queueOf(entries: readonly FailedRecord[]): CheckQueue {
  const queue = createCheckQueue(500)
  for (const entry of entries) queue.add(entry)
  return queue
}

function only(entries: readonly FailedRecord[]): FailedRecord {
  const [entry] = entries
  if (entry === undefined) throw new Error('no entry')
  return entry
}

test('an empty queue has no round', () => {
  const queue = queueOf([])
  expect([queue.nextRoundAt(), queue.firstDueAt()]).toEqual([undefined, undefined])
  expect(queue.take(1e9)).toEqual([])
})

test('a record that is not awaited is not let in', () => {
  const entry = only(awaitedAt([500]))
  entry.awaiting = undefined
  expect(queueOf([entry]).nextRoundAt()).toBeUndefined()
})

describe('a round', () => {
  test('begins when the first check is due, and a second after the one before', () => {
    const entries = awaitedAt([700, 500, 1200])
    const queue = queueOf(entries)
    expect(queue.nextRoundAt()).toBe(500)
    expect(queue.take(500)).toEqual([entries[1]])
    expect([queue.firstDueAt(), queue.nextRoundAt()]).toEqual([700, 1500])
    expect(queue.take(1500)).toEqual([entries[0], entries[2]])
    expect(queue.nextRoundAt()).toBeUndefined()
  })

  test('is taken the longest due first, ten thousand at most; the rest comes a second later', () => {
    const entries = awaitedAt(Array.from({ length: 12_500 }, (_, index) => 20_000 - index))
    const queue = queueOf(entries)
    expect(queue.take(30_000)).toEqual(entries.slice(2500).reverse())
    expect(queue.nextRoundAt()).toBe(31_000)
    expect(queue.take(31_000)).toHaveLength(2500)
  })
})

test('a record that was seen meanwhile is checked when its next check is due', () => {
  const entry = only(awaitedAt([500]))
  const queue = queueOf([entry])
  if (entry.awaiting !== undefined) entry.awaiting.checkAt = 4000
  expect(queue.nextRoundAt()).toBe(4000)
  expect(queue.take(3999)).toEqual([])
  expect(queue.take(4000)).toEqual([entry])
})

test('a record that is to be checked sooner than before is checked once, then', () => {
  const entry = only(awaitedAt([64_000]))
  const queue = queueOf([entry])
  if (entry.awaiting !== undefined) entry.awaiting.checkAt = 42_000
  queue.add(entry)
  queue.add(entry)
  expect(queue.take(42_000)).toEqual([entry])
  expect(queue.nextRoundAt()).toBeUndefined()
})

test('a record whose outcome has become known is not checked', () => {
  const entry = only(awaitedAt([500]))
  const queue = queueOf([entry])
  entry.awaiting = undefined
  expect(queue.nextRoundAt()).toBeUndefined()
  expect(queue.take(1e9)).toEqual([])
})

test('a record that is retried again before its old check is due is checked once, at its new time', () => {
  const entry = only(awaitedAt([4000]))
  const queue = queueOf([entry])
  // A listing has shown it failed; it was due again at once, and is awaited anew.
  entry.awaiting = awaitedOf(entry, { sentAt: 2000, checkAt: 2500 })
  queue.add(entry)
  expect(queue.nextRoundAt()).toBe(2500)
  expect(queue.take(2500)).toEqual([entry])
  expect(queue.nextRoundAt()).toBeUndefined()
  expect(queue.take(9000)).toEqual([])
})

test('each check is in one round, none before its time, and at most one round a second late', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(60_000), { minLength: 1, maxLength: 60 }), (times) => {
      const entries = awaitedAt(times)
      const queue = queueOf(entries)
      const taken: FailedRecord[] = []
      let last = -Infinity
      for (let at = queue.nextRoundAt(); at !== undefined; at = queue.nextRoundAt()) {
        expect(at).toBeGreaterThanOrEqual(last + 1000)
        last = at
        for (const entry of queue.take(at)) {
          const checkAt = entry.awaiting?.checkAt ?? Infinity
          expect(at).toBeGreaterThanOrEqual(checkAt)
          expect(at).toBeLessThan(checkAt + 1000)
          taken.push(entry)
        }
      }
      expect(taken).toHaveLength(entries.length)
      expect(new Set(taken).size).toBe(entries.length)
    }),
  )
})
