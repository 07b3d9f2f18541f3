// A platform that refuses a part of the window: what it lists is listed, and the rest is tried again, at a falling rate.
import { expect, test } from 'vitest'
import type { ListQuery } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { sweepNumbers } from '../../../src/reconcile/policy.ts'
import { sweep } from '../../../src/reconcile/sweep/sweep.ts'
import { createUnlistable } from '../../../src/reconcile/sweep/unlistable.ts'
import { createFakePlatform } from '../../support/fake-platform.ts'
import { failedRecord } from '../../support/records.ts'

const { signal } = new AbortController()
const [minute, hour, day] = [60, 3600, 86_400]
const week = 7 * day
/** Seconds at the start; a record every 20 minutes since a week before. */
const start = 1_700_000_000
const records = Array.from({ length: week / (20 * minute) }, (_, index) =>
  failedRecord({ eventLocal: (start - index * 20 * minute - 7) * 1000 }),
)
/** So near to a part that is refused, records may be skipped: a 64th of a day. */
const edge = 25 * minute

interface World {
  now: number
  from: number
  to: number
}

/** Whether a list call, or a record alone, is refused. Bounds in seconds. */
type Refuses = (asked: World) => boolean

/** Busy seconds of a span: every third day has few records. */
const busySeconds = ({ from, to }: World): number => {
  const days = Array.from({ length: 9 }, (_, n) => start - n * day).filter((_, n) => n % 3 > 0)
  return days.reduce((sum, end) => sum + Math.max(0, Math.min(to, end) - Math.max(from, end - day)), 0)
}

const overlaps = ({ from, to }: World, first: number, last: number): boolean => from < last && to > first

/** A limit on the length of spans is found anew by each of the 60 sweeps of the second hour: by few calls. */
test.each<[name: string, refuses: Refuses, first: number, later: number]>([
  ['nothing', () => false, 0, 0],
  ['all older than 72 h', ({ from, now }) => from < now - 72 * hour, 50, 80],
  ['all older than 2 hours', ({ from, now }) => from < now - 2 * hour, 60, 80],
  ['spans of more than 24 h', ({ from, to }) => to - from > day + 4, 4, 60 * 4],
  ['spans of more than 1 h', ({ from, to }) => to - from > hour + 4, 9, 60 * 9],
  ['spans with more than 10 busy hours', (asked) => busySeconds(asked) > 10 * hour, 9, 60 * 6],
  ['both', ({ from, now, to }) => to - from > day + 4 || from < now - 72 * hour, 100, 60 * 5],
  ['a day in the middle', (asked) => overlaps(asked, start - 4 * day, start - 3 * day), 50, 70],
  ['two days', (asked) => [6, 3].some((n) => overlaps(asked, start - n * day, start - (n - 1) * day)), 50, 130],
  ['the newest 12 h', ({ to }) => to > start - 12 * hour, 90, 200],
  ['three seconds', (asked) => [5, 3, 1].some((n) => overlaps(asked, start - n * day, start - n * day + 1)), 65, 10],
])(
  '%s: what can be listed is listed within 20 min, and the refused calls become few',
  async (_, refuses, first, later) => {
    let now = start
    let refused = 0
    const refusedAt: number[] = []
    const onList = ({ from, size, to }: ListQuery): void => {
      if (size === 1 || from === undefined || to === undefined || !refuses({ from, to, now })) return
      refused += 1
      throw new PlatformFailure('bad-request', 400, 'list')
    }
    const platform = createFakePlatform({ records, onList })
    const monotonic = (): number => now * 1000
    const unlistable = createUnlistable(monotonic)
    const options = { client: platform, monotonic, ...sweepNumbers, unlistable }
    let listed = new Set<string>()
    for (; now < start + 2 * hour; now += minute) {
      refused = 0
      const newest = now - hour
      listed = new Set()
      unlistable.forgetBefore(now - week)
      const failed: (() => void)[] = []
      for (const span of [
        { from: newest, to: now },
        { from: now - week, to: newest },
      ]) {
        for await (const { listed: slice, skipped } of sweep(span, options, signal)) {
          for (const { id } of slice?.records ?? []) listed.add(id)
          const failure = skipped?.isResting === true ? undefined : skipped?.failure
          if (skipped !== undefined && failure !== undefined)
            failed.push(() => unlistable.failed(skipped.span, failure))
        }
      }
      for (const remember of failed) remember()
      refusedAt.push(refused)
      if (now - start < 20 * minute) continue
      const missed = records.filter(({ eventLocal, id }) => {
        const at = eventLocal / 1000
        const near = { from: Math.floor(at) - edge, to: Math.ceil(at) + edge, now }
        return at >= now - week + edge && !refuses(near) && !listed.has(id)
      })
      expect(missed.map(({ eventLocal }) => (eventLocal / 1000 - start) / hour)).toEqual([])
    }
    expect(refusedAt[0]).toBeLessThanOrEqual(first)
    expect(refusedAt.slice(60).reduce((sum, calls) => sum + calls, 0)).toBeLessThanOrEqual(later)
  },
)

test('a part rests twice as long each time, up to an hour, also where it grows; it is one until it is listed', () => {
  let now = 0
  const unlistable = createUnlistable(() => now)
  const whole = { from: 0, to: week }
  const rests: number[] = []
  const fail = (from: number): void => {
    unlistable.failed({ from, to: from + minute }, new PlatformFailure('bad-request', 400, 'list'))
  }
  for (const from of [day, 0]) fail(from)
  for (let tries = 1; tries < 9; tries += 1) {
    const [{ dueAt = 0 } = {}] = unlistable.parts()
    rests.push((dueAt - now) / 1000)
    now = dueAt - 1
    fail(tries * minute)
    expect(unlistable.plan(whole).resting[0]?.span).toEqual({ from: 0, to: (tries + 1) * minute })
    now = dueAt
    expect(unlistable.plan({ from: 0, to: minute }).resting).toEqual([])
    expect(unlistable.parts()).toMatchObject([{ dueAt }, { span: { from: day } }])
    fail(0)
  }
  expect(rests).toEqual([60, 120, 240, 480, 960, 1920, 3600, 3600])
  unlistable.listed(whole)
  expect(unlistable.parts()).toEqual([])
})

test('a failure of a moment teaches nothing about spans: the same one is listed once more', async () => {
  let isFailing = true
  const onList = ({ size }: ListQuery): void => {
    if (size === 1 || !isFailing) return
    isFailing = false
    throw new PlatformFailure('timeout', undefined, 'list')
  }
  const platform = createFakePlatform({ records, onList })
  const options = { client: platform, monotonic: () => 0, ...sweepNumbers }
  const steps = await Array.fromAsync(sweep({ from: start - week, to: start }, options, signal))
  expect(steps.map(({ listed }) => listed?.records.length)).toEqual([records.length])
})
