// However the records come: the backlog stays within its bound, and what it holds plus what it only counted is the truth.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { decide, noCounts, type Counts } from '../../../src/reconcile/decide.ts'
import { createFailedRecord } from '../../../src/reconcile/failed-record.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { Policy } from '../../../src/reconcile/policy.ts'
import { contains, cut, newestHour, type Span } from '../../../src/reconcile/window.ts'
import { finish } from '../../../src/runtime/steps.ts'
import {
  defaultPolicy,
  hourMs,
  listingOf,
  minuteMs,
  subscription,
  testBacklog,
  testNow,
  ticketOf,
  type TestBacklog,
} from '../../support/backlog.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'

const now = testNow
const notHeld = (): object => ({})
const policy: Policy = { ...defaultPolicy, select: { ...defaultPolicy.select, modules: ['accounts'] } }
const window: Span = { from: (now - 24 * hourMs) / 1000, to: (now - minuteMs) / 1000 }
const newest = newestHour(now, { ...policy.window, lookback: 24 * hourMs }, createTimeZone('UTC'))

const record: fc.Arbitrary<WebhookRecord> = fc
  .record({
    age: fc.oneof(fc.integer({ min: minuteMs, max: hourMs }), fc.integer({ min: minuteMs, max: 24 * hourMs })),
    kind: fc.constantFrom('due', 'due', 'backing-off', 'exhausted', 'excluded'),
    number: fc.constantFrom(1, 1, 1, 2, 3),
  })
  .map(({ age, kind, number }) =>
    failedRecord({
      eventLocal: now - age,
      attempts: kind === 'exhausted' ? 30 : 1,
      lastAttemptLocal: kind === 'backing-off' ? now - 1000 : now - 24 * hourMs,
      module: kind === 'excluded' ? 'other' : 'accounts',
      subscriptionId: subscription(number),
    }),
  )

const records = fc.array(record, { maxLength: 40, size: 'max' })
/** What is failed at one time after the other: most of it is shown more than once. */
const worlds = fc
  .tuple(
    fc.array(record, { minLength: 1, maxLength: 60, size: 'max' }),
    fc.array(fc.array(fc.nat(59), { maxLength: 40, size: 'max' }), { minLength: 1, maxLength: 4 }),
  )
  .map(([pool, picks]) => picks.map((world) => [...new Set(world)].flatMap((pick) => pool[pick] ?? [])))

function inside(all: readonly WebhookRecord[], span: Span): WebhookRecord[] {
  return all.filter(({ eventLocal }) => contains(span, Math.floor(eventLocal / 1000)))
}

function truth(all: readonly WebhookRecord[]): Counts {
  const counts = noCounts()
  for (const one of inside(all, window)) {
    const entry = createFailedRecord(one, { zone: createTimeZone('UTC'), now })
    counts[decide(entry, policy, { now }).decision] += 1
  }
  return counts
}

interface How {
  slices: number
  /** Recent sweeps between the slices of a full sweep. */
  recents: number
  maxRecords: number
}

/** A backlog that is watched, and sweeps as the sweeper makes them. */
function worldOf({ slices, recents, maxRecords }: How): {
  backlog: TestBacklog
  list: (all: readonly WebhookRecord[], span: Span) => void
  recentSweep: (all: readonly WebhookRecord[]) => void
  fullSweep: (all: readonly WebhookRecord[], end?: 'done' | 'failed') => void
} {
  const backlog = testBacklog({ policy, maxRecords })
  function list(all: readonly WebhookRecord[], span: Span): void {
    const { changed } = finish(backlog.learn(listingOf(inside(all, span), { span }), now))
    expect(backlog.size()).toBeLessThanOrEqual(maxRecords)
    for (const entry of changed) expect(backlog.get(entry.id)).toBe(entry)
  }
  function recentSweep(all: readonly WebhookRecord[]): void {
    for (const span of cut(newest, slices)) list(all, span)
  }
  return {
    backlog,
    list,
    recentSweep,
    fullSweep(all, end = 'done') {
      const endCount = backlog.leftOut.beginSweep({ from: window.from, expiring: window.from })
      const restore = backlog.leftOut.relist(-Infinity)
      for (const span of cut(newest, slices)) list(all, span)
      for (const [index, span] of cut({ from: window.from, to: newest.from }, slices).entries()) {
        if (index < recents) recentSweep(all)
        if (end === 'failed' && index > 0) break
        list(all, span)
      }
      endCount(end)
      restore(end === 'done' ? Infinity : -Infinity)
    },
  }
}

const how = fc.record({
  slices: fc.integer({ min: 1, max: 6 }),
  recents: fc.integer({ min: 0, max: 6 }),
  maxRecords: fc.integer({ min: 1, max: 20 }),
})
/** Worlds are large: the first that fails is reported as it is, and not made smaller for minutes. */
const asFound = { endOnFailure: true }

test('after each full sweep, and recent ones during and after it, and one that fails, what is held and left out is the truth', () => {
  fc.assert(
    fc.property(worlds, how, (times, setting) => {
      const { backlog, fullSweep, recentSweep } = worldOf(setting)
      for (const all of times) {
        fullSweep(all)
        expect(backlog.summary(now, notHeld).counts).toEqual(truth(all))
        recentSweep(all)
        expect(backlog.summary(now, notHeld).counts).toEqual(truth(all))
        fullSweep(all, 'failed')
        expect(backlog.summary(now, notHeld).counts).toEqual(truth(all))
      }
    }),
    { numRuns: 200, ...asFound },
  )
})

test('going on from the oldest left-out record, as the backlog is worked off: in the end nothing was forgotten', () => {
  fc.assert(
    fc.property(records, how, (all, setting) => {
      const { backlog, list, fullSweep } = worldOf(setting)
      fullSweep(all)
      const resolved = new Set<string>()
      const open = new Set(
        inside(all, window)
          .filter(({ attempts, module }) => module === 'accounts' && attempts < 30)
          .map(({ id }) => id),
      )
      for (let round = 0; resolved.size < open.size; round += 1) {
        expect(round).toBeLessThan(200)
        for (const entry of [...backlog.entries()]) {
          if (open.has(entry.id)) resolved.add(entry.id)
          const done = failedRecord({ eventLocal: entry.localSecond * 1000, id: entry.id, status: 'successful' })
          backlog.outcomes.begin(entry, ticketOf(entry), { sentAt: now, monotonic: 0 })
          backlog.outcomes.note(entry, accepted(done), { answeredAt: now, monotonic: 0 })
        }
        expect(backlog.size()).toBe(0)
        const rest = all.filter(({ attempts, id }) => !resolved.has(id) && attempts < 30)
        const from = backlog.leftOut.oldestSecond(() => true)
        if (from === undefined) continue
        const part = { from: Math.floor(from), to: Math.min(window.to, Math.floor(from) + 4 * 3600) }
        const restore = backlog.leftOut.relist(part.from)
        list(rest, part)
        restore(part.to)
      }
      expect(resolved).toEqual(open)
    }),
    { numRuns: 200, ...asFound },
  )
})

test('whatever gives way and comes back where no full sweep has been yet, each record is counted once', () => {
  const areBackingOff = fc.array(fc.boolean(), { minLength: 20, maxLength: 20 })
  const turns = fc.array(areBackingOff, { minLength: 2, maxLength: 6 })
  const recent = fc.array(record, { minLength: 20, maxLength: 20 }).map((all) => inside(all, newest))
  fc.assert(
    fc.property(recent, turns, how, (all, times, setting) => {
      const { backlog, list, recentSweep } = worldOf(setting)
      const endCount = backlog.leftOut.beginSweep({ from: window.from, expiring: window.from })
      list([], { from: window.from, to: newest.from })
      endCount('done')
      const selected = all.filter(({ module }) => module === 'accounts').length
      for (const one of times) {
        recentSweep(all.map((row, index) => (one[index] === true ? { ...row, lastAttemptLocal: now - 1000 } : row)))
        const { counts } = backlog.summary(now, notHeld)
        expect(Object.values({ ...counts, excluded: 0 }).reduce((sum, count) => sum + count)).toBe(selected)
      }
    }),
    { numRuns: 200, ...asFound },
  )
})
