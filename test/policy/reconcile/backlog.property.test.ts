// However the records come: the backlog stays within its bound, and what it holds plus what it only counted is the truth.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { noCounts, type Count, type Counts } from '../../../src/reconcile/retry/census.ts'
import { decide } from '../../../src/reconcile/decide.ts'
import { createFailedRecord } from '../../../src/reconcile/failed-record.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { Policy } from '../../../src/reconcile/policy.ts'
import { contains, cut, newestHour, type Span } from '../../../src/reconcile/window.ts'
import {
  defaultPolicy,
  hourMs,
  listingOf,
  minuteMs,
  testBacklog,
  testNow,
  ticketOf,
  type TestBacklog,
} from '../../support/backlog.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'

const now = testNow
const notHeld = (): undefined => undefined
const policy: Policy = { ...defaultPolicy, select: { ...defaultPolicy.select, modules: ['accounts'] } }
const window: Span = { from: (now - 24 * hourMs) / 1000, to: (now - minuteMs) / 1000 }
const newest = newestHour(now, { ...policy.window, lookbackMs: 24 * hourMs }, createTimeZone('UTC'))

const record: fc.Arbitrary<WebhookRecord> = fc
  .record({
    age: fc.oneof(fc.integer({ min: minuteMs, max: hourMs }), fc.integer({ min: minuteMs, max: 24 * hourMs })),
    kind: fc.constantFrom('due', 'due', 'backing-off', 'parked', 'excluded'),
  })
  .map(({ age, kind }) =>
    failedRecord({
      eventLocal: now - age,
      attempts: kind === 'parked' ? 30 : 1,
      lastAttemptLocal: kind === 'backing-off' ? now - 1000 : now - 24 * hourMs,
      module: kind === 'excluded' ? 'other' : 'accounts',
    }),
  )

const records = fc.array(record, { maxLength: 40, size: 'max' })

function inside(all: readonly WebhookRecord[], span: Span): WebhookRecord[] {
  return all.filter(({ eventLocal }) => contains(span, Math.floor(eventLocal / 1000)))
}

function truth(all: readonly WebhookRecord[]): Counts {
  const counts = noCounts()
  for (const one of inside(all, window)) {
    const entry = createFailedRecord(one, { zone: createTimeZone('UTC'), now, askedAt: 0 })
    counts[decide(entry, policy, { now }).decision] += 1
  }
  return counts
}

interface How {
  slices: number
  /** Fresh looks between the slices of a full sweep. */
  looks: number
  maxRecords: number
}

/** A clock that every listing moves on, and a backlog that is watched. */
function worldOf({ slices, looks, maxRecords }: How): {
  backlog: TestBacklog
  list: (all: readonly WebhookRecord[], span: Span, count: Count) => void
  freshLook: (all: readonly WebhookRecord[]) => void
  fullSweep: (all: readonly WebhookRecord[], end?: 'commit' | 'abandon') => void
} {
  const backlog = testBacklog({ policy, maxRecords })
  let askedAt = 1000
  function list(all: readonly WebhookRecord[], span: Span, count: Count): void {
    askedAt += 10
    const { changed } = backlog.learn(listingOf(inside(all, span), { span, askedAt }), now, count)
    expect(backlog.size()).toBeLessThanOrEqual(maxRecords)
    for (const entry of changed) expect(backlog.get(entry.id)).toBe(entry)
  }
  function freshLook(all: readonly WebhookRecord[]): void {
    const count = backlog.census.begin(newest)
    for (const span of cut(newest, slices)) list(all, span, count)
    count.commit()
  }
  return {
    backlog,
    list,
    freshLook,
    fullSweep(all, end = 'commit') {
      const count = backlog.census.begin()
      for (const span of cut(newest, slices)) list(all, span, count)
      for (const [index, span] of cut({ from: window.from, to: newest.from }, slices).entries()) {
        if (index < looks) freshLook(all)
        list(all, span, count)
      }
      count[end]()
    },
  }
}

const how = fc.record({
  slices: fc.integer({ min: 1, max: 6 }),
  looks: fc.integer({ min: 0, max: 6 }),
  maxRecords: fc.integer({ min: 1, max: 20 }),
})
/** Worlds are large: the first that fails is told as it is, and not made smaller for minutes. */
const asFound = { endOnFailure: true }

test('after each full sweep, and each fresh look during and after it, the counts are the truth', () => {
  fc.assert(
    fc.property(fc.array(records, { minLength: 1, maxLength: 4 }), how, (worlds, setting) => {
      const { backlog, freshLook, fullSweep } = worldOf(setting)
      for (const all of worlds) {
        fullSweep(all)
        expect(backlog.summary(now, notHeld).counts).toEqual(truth(all))
        freshLook(all)
        expect(backlog.summary(now, notHeld).counts).toEqual(truth(all))
      }
    }),
    { numRuns: 200, ...asFound },
  )
})

test('what changed in the newest hour only is counted right by a fresh look alone', () => {
  fc.assert(
    fc.property(records, records, how, (first, second, setting) => {
      const { backlog, freshLook, fullSweep } = worldOf(setting)
      fullSweep(first)
      const changed = [...inside(first, { from: window.from, to: newest.from }), ...inside(second, newest)]
      freshLook(changed)
      expect(backlog.summary(now, notHeld).counts).toEqual(truth(changed))
    }),
    { numRuns: 200, ...asFound },
  )
})

test('a full sweep that fails leaves the old count, and the next one that ends the truth', () => {
  fc.assert(
    fc.property(records, records, how, (first, second, setting) => {
      const { backlog, fullSweep } = worldOf(setting)
      fullSweep(first)
      fullSweep(first, 'abandon')
      expect(backlog.summary(now, notHeld).counts).toEqual(truth(first))
      fullSweep(second)
      expect(backlog.summary(now, notHeld).counts).toEqual(truth(second))
    }),
    { numRuns: 200, ...asFound },
  )
})

test('going on where there was no room, as the backlog is worked off: in the end nothing was forgotten', () => {
  fc.assert(
    fc.property(records, how, (all, setting) => {
      const { backlog, list, fullSweep } = worldOf(setting)
      fullSweep(all)
      const resolved = new Set<string>()
      const open = new Set(
        inside(all, window)
          .filter((one) => one.module === 'accounts')
          .map(({ id }) => id),
      )
      for (let round = 0; resolved.size < open.size; round += 1) {
        expect(round).toBeLessThan(200)
        for (const entry of [...backlog.entries()]) {
          resolved.add(entry.id)
          const done = failedRecord({ eventLocal: entry.localSecond * 1000, id: entry.id, status: 'successful' })
          backlog.outcomes.begin(entry, ticketOf(entry), { sentAt: now, monotonic: 0 })
          backlog.outcomes.note(entry, accepted(done), { answeredAt: now, monotonic: 0 })
        }
        expect(backlog.size()).toBe(0)
        const rest = all.filter(({ id }) => !resolved.has(id))
        while (backlog.size() < setting.maxRecords) {
          const span = backlog.census.oldestLeftOut()
          if (span === undefined) break
          const count = backlog.census.begin(span)
          list(rest, { from: Math.max(span.from, window.from), to: Math.min(span.to, window.to) }, count)
          count.commit()
        }
        expect(backlog.summary(now, notHeld).counts).toEqual(truth(rest))
      }
      expect(resolved).toEqual(open)
      expect(backlog.census.leftOut()).toBe(false)
    }),
    { numRuns: 200, ...asFound },
  )
})

test('where events go in their order: whatever comes in which order, nothing outside is older than what waits inside', () => {
  const listings = fc.array(fc.array(fc.nat(39), { maxLength: 20 }), { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(fc.array(record, { minLength: 40, maxLength: 40 }), listings, fc.nat(10), (all, turns, more) => {
      const backlog = testBacklog({ policy: { ...policy, orderPerEntity: true }, maxRecords: 1 + more })
      const isOpen = ({ attempts, module }: WebhookRecord): boolean => attempts < 30 && module === 'accounts'
      const met = new Set<WebhookRecord>()
      for (const [turn, picks] of turns.entries()) {
        const listed = [...new Set(picks)].flatMap((pick) => all[pick] ?? [])
        for (const one of listed) met.add(one)
        const listing = listingOf(listed, { complete: false, askedAt: 1000 + turn })
        backlog.learn(listing, now, backlog.census.begin(listing.span))
        const open = [...met].filter(isOpen)
        const inside = open.filter(({ id }) => backlog.get(id) !== undefined).map(({ eventLocal }) => eventLocal)
        const outside = open.filter(({ id }) => backlog.get(id) === undefined).map(({ eventLocal }) => eventLocal)
        expect(inside).toHaveLength(Math.min(open.length, 1 + more))
        expect(Math.max(...inside)).toBeLessThanOrEqual(Math.min(...outside))
      }
    }),
    { numRuns: 200, ...asFound },
  )
})
