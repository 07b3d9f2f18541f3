// Which awaited records share a listing of their span. Pure functions.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { byEventTime, lookUps, spanOf, splitAtGaps } from '../../../src/reconcile/confirm/look-plan.ts'
import { due, entryOf, learn, listingOf, testBacklog, testNow } from '../../support/backlog.ts'

const begin = testNow / 1000 - 86_400

/** Entries at these seconds, each of an event of its own unless told. */
function entriesAt(seconds: readonly number[], eventId?: string): FailedRecord[] {
  const backlog = testBacklog()
  const records = seconds.map((second) =>
    due({ eventLocal: (begin + second) * 1000 + 999, ...(eventId !== undefined && { eventId }) }),
  )
  learn(backlog, listingOf(records), testNow)
  return records.map((record) => entryOf(backlog, record))
}

const secondsOf = (group: readonly FailedRecord[]): number[] => group.map(({ localSecond }) => localSecond - begin)

test('a span reaches from the first second to the end of the last', () => {
  expect(spanOf(entriesAt([3, 7, 7, 12]))).toEqual({ from: begin + 3, to: begin + 13 })
  expect(spanOf(entriesAt([5]))).toEqual({ from: begin + 5, to: begin + 6 })
})

test('records of one event take one look-up', () => {
  expect(lookUps([])).toBe(0)
  expect(lookUps(entriesAt([1, 2, 3]))).toBe(3)
  expect(lookUps(entriesAt([1, 2, 3], 'e0000000-0000-4000-8000-000000000001'))).toBe(1)
})

describe('splitting', () => {
  test('happens where the rows between would cost more than a page', () => {
    const group = entriesAt([0, 10, 21, 500, 501])
    const parts = splitAtGaps(group, 10, 100)
    expect(parts.map(secondsOf)).toEqual([[0, 10], [21], [500, 501]])
  })

  test('of a thin span does not happen, of one without end it happens at every second', () => {
    expect(splitAtGaps(entriesAt([0, 1, 5000]), 0.001, 100)).toHaveLength(1)
    expect(splitAtGaps(entriesAt([0, 0, 1, 1, 2]), Infinity, 100).map(secondsOf)).toEqual([[0, 0], [1, 1], [2]])
  })

  test('of a span that is told to be empty keeps all in one part', () => {
    expect(splitAtGaps(entriesAt([0, 7]), 0, 100).map(secondsOf)).toEqual([[0, 7]])
  })

  test('loses nobody and keeps the order, whatever is told of the span', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 5000 }), { maxLength: 60 }),
        fc.oneof(fc.double({ min: 0.0001, max: 1e6, noNaN: true }), fc.constant(Infinity)),
        fc.constantFrom(1, 20, 100),
        (seconds, rowsPerSecond, pageSize) => {
          const group = byEventTime(entriesAt(seconds))
          expect(secondsOf(group)).toEqual([...seconds].sort((a, b) => a - b))
          const parts = splitAtGaps(group, rowsPerSecond, pageSize)
          expect(parts.flat()).toEqual(group)
          expect(parts.every((part) => part.length > 0)).toBe(true)
          for (const part of parts) {
            const gaps = secondsOf(part).map((second, index, all) => second - (all[index - 1] ?? second))
            expect(gaps.every((gap) => gap === 0 || gap * rowsPerSecond <= pageSize)).toBe(true)
          }
        },
      ),
      { numRuns: 100 },
    )
  })
})
