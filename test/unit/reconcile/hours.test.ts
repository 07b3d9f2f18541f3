// The hours of the books: when each is listed, when the ledger alone is asked, and what counts as missed.
import { describe, expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import {
  comparedUntil,
  hourMs,
  hoursAt,
  hoursProblem,
  missedOf,
  nextLook,
  sumOfMissed,
  takeLedger,
  takeListing,
  type Hour,
  type HourListing,
} from '../../../src/reconcile/books/hours.ts'
import { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { failedRecord } from '../../support/fake-platform.ts'

const minuteMs = 60_000
const start = Date.UTC(2026, 0, 15, 10)
const policy = { settleMs: 15 * minuteMs, lookbackMs: 24 * hourMs }
const zone = createTimeZone('UTC')

/** A delivery of this minute of the hour, settled long ago unless it is told when it was delivered. */
function missed(minute: number, { at = start + minute * minuteMs, type = 'account-activated' } = {}) {
  const eventAt = start + minute * minuteMs
  const record = failedRecord({ eventLocal: eventAt, lastAttemptLocal: at, eventType: type, status: 'successful' })
  return { entry: new FailedRecord(record, { zone, now: eventAt + 24 * hourMs }), key: `key of ${minute}` }
}

const askedAt = start + 2 * hourMs

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

describe('which hours there are', () => {
  test.each([
    ['before the last one has settled', start + hourMs + policy.settleMs - 1, start - 24 * hourMs, start - hourMs],
    ['when it has', start + hourMs + policy.settleMs, start - 23 * hourMs, start],
    ['until the next has', start + 2 * hourMs + policy.settleMs - 1, start - 23 * hourMs, start],
  ])('%s', (_, now, first, last) => {
    const hours = hoursAt([], now, policy)
    expect([hours[0]?.from, hours.at(-1)?.from]).toEqual([first, last])
    expect(comparedUntil(hours, now, policy)).toBe(first)
  })

  // The minimum of ledger.lookback.
  test.each([0, 24])('settled after %i h, one that differs is kept until its last look, and then not', (hours) => {
    const policy = { settleMs: hours * hourMs, lookbackMs: 16 * hourMs }
    const settledAt = start + hourMs + policy.settleMs
    const [hour] = hoursAt([], settledAt, policy).slice(-1)
    if (hour === undefined) throw new Error('there is no hour')
    const lookedAt = [settledAt]
    while (lookedAt.length < 5) {
      takeListing(hour, lookedAt.at(-1) ?? 0, listingOf({ open: 1 }), policy)
      lookedAt.push(hour.listAt)
    }
    for (const at of lookedAt) expect(hoursAt([hour], at, policy)).toContain(hour)
    expect(lookedAt.at(-1)).toBe(settledAt + 15 * hourMs)
    expect(hoursAt([hour], settledAt + policy.lookbackMs, policy)).not.toContain(hour)
  })
})

describe('the next look', () => {
  test('is at the oldest hour that was never listed, then at the ledger alone, then at an hour again', () => {
    const differs = hourOf(listingOf({ missed: [missed(1)] }))
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
    for (const differs of [{ open: 1 }, { missed: [missed(1)] }, { complete: false }]) {
      const hour = hourOf()
      const waits = Array.from({ length: 5 }, () => {
        takeListing(hour, askedAt, listingOf(differs), policy)
        return (hour.listAt - hour.askedAt) / hourMs
      })
      expect(waits).toEqual([1, 2, 4, 8, 8])
    }
  })

  test('the ledger is asked again when the freshest delivery has settled, and after ledger.settle otherwise', () => {
    expect(hourOf(listingOf({ missed: [missed(1)] })).askAt).toBe(askedAt + policy.settleMs)
    const fresh = missed(59, { at: askedAt - 10 * minuteMs })
    expect(hourOf(listingOf({ missed: [missed(1), fresh] })).askAt).toBe(askedAt + 5 * minuteMs)
    const justNow = missed(59, { at: askedAt - policy.settleMs + 1 })
    expect(hourOf(listingOf({ missed: [justNow] })).askAt).toBe(askedAt + minuteMs)
  })
})

describe('what is missed', () => {
  test('a delivery counts once it is ledger.settle old, and no more when the ledger has it', () => {
    const [old, fresh] = [missed(1), missed(2, { at: askedAt - policy.settleMs + 1 })]
    const hour = hourOf(listingOf({ missed: [old, fresh] }))
    expect(missedOf(hour, policy)).toEqual([old.entry])
    takeLedger(hour, askedAt + 1, () => false, policy)
    expect(missedOf(hour, policy)).toEqual([old.entry, fresh.entry])
    takeLedger(hour, askedAt + minuteMs, (key) => key === old.key, policy)
    expect(missedOf(hour, policy)).toEqual([fresh.entry])
    takeLedger(hour, askedAt + minuteMs, () => true, policy)
    expect([missedOf(hour, policy), hour.askAt]).toEqual([[], Infinity])
  })

  test('an answer to an hour that was never listed changes nothing', () => {
    const hour = hourOf()
    takeLedger(hour, start + 2 * hourMs, () => true, policy)
    expect(hour).toMatchObject({ askedAt: 0, listing: undefined })
  })

  test('the sum has the share since the first of them, by cause, the largest first', () => {
    const late = missed(50, { at: start + 58 * minuteMs })
    const first = hourOf(listingOf({ missed: [late, missed(55, { type: 'other' }), missed(56)], more: 4 }))
    const next = { ...hourOf(listingOf()), from: start + hourMs }
    const before = { ...hourOf(listingOf()), from: start - hourMs }
    expect(sumOfMissed([before, first, next], policy)).toMatchObject({
      total: 7,
      delivered: 2 * 10 + 2 * 60,
      ...{ subscriptions: 2, eventTypes: 1, isConfirmed: false, firstAt: start + 50 * minuteMs },
      causes: [
        // Their deliveries, not their events.
        { eventType: 'account-activated', records: 2, firstAt: start + 56 * minuteMs, lastAt: start + 58 * minuteMs },
        { eventType: 'other', records: 1 },
      ],
    })
    expect(sumOfMissed([before, next], policy)).toBeUndefined()
  })

  test('up to where all is compared', () => {
    const now = start + 3 * hourMs + policy.settleMs
    const hours = hoursAt([hourOf(listingOf())], now, { ...policy, lookbackMs: 3 * hourMs })
    expect(comparedUntil(hours, now, policy)).toBe(start + hourMs)
    for (const hour of hours.slice(1))
      takeListing(hour, askedAt, listingOf({ complete: hour.from > start + hourMs }), policy)
    expect(comparedUntil(hours, now, policy)).toBe(start + hourMs)
    expect(hoursProblem(hours)).toBeUndefined()
    for (const hour of hours.slice(1, 2)) takeListing(hour, askedAt, listingOf({ complete: false }), policy)
    expect(hoursProblem(hours)).toMatchObject({ since: start + 2 * hourMs })
    const down = { text: 'down', since: now }
    expect(hoursProblem([...hours, { ...hourOf(), problem: down }])).toBe(down)
    for (const hour of hours.slice(1)) takeListing(hour, askedAt, listingOf(), policy)
    expect(hoursProblem(hours)).toBeUndefined()
    expect(comparedUntil(hours, now, policy)).toBe(start + 3 * hourMs)
  })
})
