// The hours of the books: which one is looked at next, and what an answer out of turn changes. What is missed: test/daemon/books.test.ts.
import { expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import {
  hourMs,
  hoursAt,
  missedOf,
  nextLook,
  sumOfMissed,
  takeLedger,
  takeListing,
  type Hour,
  type HourListing,
} from '../../../src/reconcile/books/hours.ts'
import { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { failedRecord } from '../../support/records.ts'

const start = Date.UTC(2026, 0, 15, 10)
const askedAt = start + 2 * hourMs
const policy = { settleMs: hourMs / 4, lookbackMs: 24 * hourMs }
const delivery = failedRecord({ eventLocal: start, lastAttemptLocal: start, status: 'successful' })
const missed = [{ entry: new FailedRecord(delivery, { zone: createTimeZone('UTC'), now: askedAt }), key: 'key' }]

function listingOf(given: Partial<HourListing> = {}): HourListing {
  const delivered = Array.from({ length: 60 }, () => 2)
  const sets = { subscriptions: new Set(['a', 'b']), eventTypes: new Set(['account-activated']) }
  return {
    match: undefined,
    complete: true,
    delivered,
    ...sets,
    missed: [],
    more: 0,
    open: 0,
    withoutKey: 0,
    ...given,
  }
}

function hourOf(listing?: HourListing): Hour {
  const [hour] = hoursAt([], start + hourMs + policy.settleMs, { ...policy, lookbackMs: hourMs })
  if (hour === undefined) throw new Error('there is no hour')
  if (listing !== undefined) takeListing(hour, askedAt, listing, policy)
  return hour
}

test('the next look is at the oldest hour that was never listed, then at the ledger alone, then at an hour again', () => {
  const differs = hourOf(listingOf({ missed }))
  const now = start + 3 * hourMs
  const hours = hoursAt([differs], now, { ...policy, lookbackMs: 2 * hourMs })
  expect(nextLook(hours, now)).toMatchObject({ kind: 'list', hour: { from: start + hourMs } })
  for (const hour of hours) if (hour !== differs) takeListing(hour, askedAt, listingOf(), policy)
  expect(nextLook(hours, now)).toEqual({ kind: 'ask', hour: differs })
  differs.askAt = Infinity
  expect(nextLook(hours, now)).toEqual({ kind: 'list', hour: differs })
  expect(differs.listAt).toBe(start + 3 * hourMs)
})

test('an hour that is equal is done; one that differs, or is open, is listed again after 1, 2, 4, 8 and 8 hours', () => {
  expect(hourOf(listingOf())).toMatchObject({ listAt: Infinity, askAt: Infinity })
  for (const differs of [{ open: 1 }, { missed }, { complete: false }]) {
    const hour = hourOf()
    const waits = Array.from({ length: 5 }, () => {
      takeListing(hour, askedAt, listingOf(differs), policy)
      return (hour.listAt - hour.askedAt) / hourMs
    })
    expect(waits).toEqual([1, 2, 4, 8, 8])
  }
})

test('an answer to an hour that was never listed changes nothing', () => {
  const hour = hourOf()
  takeLedger(hour, start + 2 * hourMs, () => true, policy)
  expect(hour).toMatchObject({ askedAt: 0, listing: undefined })
})

test('a delivery is missed once it is exactly ledger.settle old', () => {
  const counts = (settleMs: number): number => missedOf(hourOf(listingOf({ missed })), { ...policy, settleMs }).length
  expect([counts(askedAt - start), counts(askedAt - start + 1)]).toEqual([1, 0])
})

test('the sum is of the hours from the first with a missed delivery to the last that was listed', () => {
  const hours = hoursAt([], start + 3 * hourMs + policy.settleMs, { ...policy, lookbackMs: 3 * hourMs })
  for (const [index, hour] of hours.entries())
    if (index !== 1) takeListing(hour, askedAt, listingOf(index === 0 ? { missed } : {}), policy)
  const sum = sumOfMissed(hours, policy)
  expect(sum).toMatchObject({ total: 1, delivered: 240, firstAt: start, untilAt: start + 3 * hourMs })
})

test('where nothing is missed there is no sum', () => {
  expect(sumOfMissed([hourOf(listingOf()), hourOf()], policy)).toBeUndefined()
})
