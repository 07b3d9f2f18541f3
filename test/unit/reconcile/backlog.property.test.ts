// However the records come: the backlog stays within its bound, and what it holds plus what it only counted is the truth.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import type { Backlog } from '../../../src/reconcile/backlog.ts'
import { noCounts, type Counts } from '../../../src/reconcile/census.ts'
import { decide } from '../../../src/reconcile/decide.ts'
import { createEntry } from '../../../src/reconcile/entry.ts'
import { createZone } from '../../../src/platform/local-time.ts'
import type { Policy } from '../../../src/reconcile/policy.ts'
import { contains, cut, type Span } from '../../../src/reconcile/window.ts'
import { defaultPolicy, hourMs, listingOf, minuteMs, testBacklog, testNow } from '../../support/backlog.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'

const now = testNow
const policy: Policy = { ...defaultPolicy, select: { ...defaultPolicy.select, modules: ['accounts'] } }
const window: Span = { from: (now - 24 * hourMs) / 1000, to: (now - minuteMs) / 1000 }
const newest: Span = { from: window.to - 3600, to: window.to }

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

const records = fc.array(record, { maxLength: 120, size: 'max' })

function inside(all: readonly WebhookRecord[], span: Span): WebhookRecord[] {
  return all.filter(({ eventLocal }) => contains(span, Math.floor(eventLocal / 1000)))
}

function truth(all: readonly WebhookRecord[]): Counts {
  const counts = noCounts()
  for (const one of inside(all, window)) {
    const entry = createEntry(one, { zone: createZone('UTC'), now, askedAt: 0 })
    counts[decide(entry, policy, { now, held: false }).decision] += 1
  }
  return counts
}

/** Lists everything as a full sweep does, with fresh looks in between. */
function fullSweep(backlog: Backlog, all: readonly WebhookRecord[], how: { slices: number; looks: number; askedAt: number; maxRecords: number }): void {
  let { askedAt } = how
  const list = (span: Span, counting: boolean): void => {
    askedAt += 1
    const { changed } = backlog.learn(listingOf(inside(all, span), { span, askedAt }), now, counting)
    expect(backlog.size()).toBeLessThanOrEqual(how.maxRecords)
    for (const entry of changed) expect(backlog.get(entry.id)).toBe(entry)
  }
  backlog.census.begin()
  list(newest, true)
  for (const [index, span] of cut({ from: window.from, to: newest.from }, how.slices).entries()) {
    if (index < how.looks) list(newest, false)
    list(span, true)
  }
  backlog.census.commit()
}

test('after each full sweep, with fresh looks during and between them, the counts are the truth', () => {
  fc.assert(
    fc.property(
      fc.array(records, { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 0, max: 6 }),
      (worlds, maxRecords, slices, looks) => {
        const backlog = testBacklog({ policy, maxRecords })
        for (const [index, all] of worlds.entries()) {
          const askedAt = (index + 1) * 1000
          fullSweep(backlog, all, { slices, looks, askedAt, maxRecords })
          expect(backlog.summary(now, false).counts).toEqual(truth(all))
          for (let look = 0; look < looks; look += 1) {
            backlog.learn(listingOf(inside(all, newest), { span: newest, askedAt: askedAt + 500 + look }), now, false)
          }
          expect(backlog.summary(now, false).counts).toEqual(truth(all))
        }
      },
    ),
    { numRuns: 500 },
  )
})

test('a full sweep that fails half-way leaves the old count, and the next one that ends the truth', () => {
  fc.assert(
    fc.property(records, records, fc.integer({ min: 1, max: 40 }), (first, second, maxRecords) => {
      const backlog = testBacklog({ policy, maxRecords })
      fullSweep(backlog, first, { slices: 3, looks: 1, askedAt: 1000, maxRecords })
      const before = backlog.census.counts()
      backlog.census.begin()
      backlog.learn(listingOf(inside(first, newest), { span: newest, askedAt: 2000 }), now, true)
      backlog.census.abandon()
      expect(backlog.census.counts()).toEqual(before)
      fullSweep(backlog, second, { slices: 3, looks: 1, askedAt: 3000, maxRecords })
      expect(backlog.summary(now, false).counts).toEqual(truth(second))
    }),
    { numRuns: 200 },
  )
})

test('going on where there was no room, hour by hour, as the backlog is worked off: in the end nothing was forgotten', () => {
  fc.assert(
    fc.property(records, fc.integer({ min: 1, max: 40 }), (all, maxRecords) => {
      const backlog = testBacklog({ policy, maxRecords })
      fullSweep(backlog, all, { slices: 4, looks: 1, askedAt: 1000, maxRecords })
      const resolved = new Set<string>()
      const open = new Set(
        all.filter((one) => one.module === 'accounts' && contains(window, Math.floor(one.eventLocal / 1000))).map(({ id }) => id),
      )
      let askedAt = 2000
      for (let round = 0; resolved.size < open.size; round += 1) {
        expect(round).toBeLessThan(200)
        for (const entry of [...backlog.entries()]) {
          resolved.add(entry.id)
          const answer = accepted({ ...failedRecord({ eventLocal: entry.localSecond * 1000 }), id: entry.id, status: 'successful' })
          backlog.note(entry, answer, { sentAt: now, answeredAt: now, monotonic: askedAt })
        }
        expect(backlog.size()).toBe(0)
        while (backlog.size() < maxRecords) {
          const hour = backlog.census.takeOldest()
          if (hour === undefined) break
          const span = { from: Math.max(hour.span.from, window.from), to: Math.min(hour.span.to, window.to) }
          askedAt += 10
          const left = inside(all, span).filter(({ id }) => !resolved.has(id))
          backlog.learn(listingOf(left, { span, askedAt }), now, true)
          expect(backlog.size()).toBeLessThanOrEqual(maxRecords)
        }
        const rest = all.filter(({ id }) => !resolved.has(id))
        expect(backlog.summary(now, false).counts).toEqual(truth(rest))
      }
      expect(resolved).toEqual(open)
      expect(backlog.census.leftOut()).toBe(false)
    }),
    { numRuns: 200 },
  )
})
