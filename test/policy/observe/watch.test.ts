// When there was progress, when it is due next, and how long the rest takes.
import { describe, expect, test } from 'vitest'
import type { Fact } from '../../../src/observe/events.ts'
import { createWatch, type Present, type Watch } from '../../../src/observe/progress.ts'
import { retryResults } from '../../../src/platform/operations.ts'
import { noCounts } from '../../../src/reconcile/retry/census.ts'
import { everyFact, failedSweep, outcomeFact, retryFact, sweepFact } from '../../support/facts.ts'

const minute = 60_000
const start = Date.UTC(2026, 0, 15, 12)

/** Ticks every `periodMs`, on the multiples of it. */
function watchOf(periodMs: number): { watch: Watch; setNow: (now: number) => void; asked: () => number } {
  let [now, asked] = [start, 0]
  const nextTickAt = (): number => {
    asked += 1
    return (Math.floor(now / periodMs) + 1) * periodMs
  }
  return {
    watch: createWatch({ startedAt: start, periodMs, nextTickAt }),
    setNow: (at) => (now = at),
    asked: () => asked,
  }
}

function present(changes: Partial<Present> = {}): Present {
  return { counts: noCounts(), recoveredPerMs: 0, ...changes }
}

describe('progress', () => {
  test.each<[string, Fact]>([
    ['a sweep', sweepFact()],
    ['a recent sweep', sweepFact({ kind: 'recent' })],
    ['an incomplete sweep', sweepFact({ result: 'incomplete' })],
    ['a recovery', outcomeFact()],
    ['a delivery that failed again', outcomeFact({ outcome: 'failed-again' })],
  ])('is %s', (_name, fact) => {
    const { watch } = watchOf(minute)
    watch.hear(fact, start + 5)
    expect(watch.state(present()).progressAt).toBe(start + 5)
  })

  test.each<[string, Fact]>([
    ['a sweep that failed', failedSweep()],
    ['an outcome that was given up', outcomeFact({ outcome: 'unknown' })],
    ['a retry that was not sent', retryFact({ result: 'accepted', reason: 'ok', sent: false })],
    ['a call', everyFact['platform-request']],
    ['a token', everyFact['token-refreshed']],
    ['a tick that was skipped', everyFact['tick-skipped']],
  ])('is not %s', (_name, fact) => {
    const { watch } = watchOf(minute)
    watch.hear(fact, start + 5)
    expect(watch.state(present()).progressAt).toBeUndefined()
  })

  test('is a retry whose answer is about the record', () => {
    const telling = retryResults.filter((result) => {
      const { watch } = watchOf(minute)
      watch.hear(retryFact({ result, reason: 'ok', sent: true }), start)
      return watch.state(present()).progressAt !== undefined
    })
    expect(telling).toEqual(['accepted', 'already-resolved', 'gone', 'rejected'])
  })
})

describe('progress is due', () => {
  test('with the start, also when it never comes', () => {
    const { watch } = watchOf(minute)
    expect(watch.state(present()).progressDueAt).toBe(start + 2 * minute)
    watch.hear(failedSweep(), start + 30 * minute)
    watch.ticked(start + 31 * minute, undefined)
    expect(watch.state(present()).progressDueAt).toBe(start + 2 * minute)
  })

  test.each([
    ['half a minute', minute / 2, minute / 2 + minute],
    // Never more than five minutes, however long the period.
    ['a day', 1440 * minute, 720 * minute + 5 * minute],
  ])('by the first tick of every %s after the last, and a little more', (_name, periodMs, expected) => {
    const { watch, setNow } = watchOf(periodMs)
    setNow(start + 10)
    watch.hear(sweepFact(), start + 10)
    expect(watch.state(present()).progressDueAt).toBe(start + expected)
    // It stays there while nothing comes, whatever ticks.
    setNow(start + 9_000 * minute)
    watch.ticked(start + 9_000 * minute, -1)
    expect(watch.state(present()).progressDueAt).toBe(start + expected)
  })

  test('later when sweeps rest, and not again later when the rest is over', () => {
    const { watch, setNow } = watchOf(minute)
    const restEnds = start + 100 * minute - 1
    for (let at = start; at <= start + 150 * minute; at += minute) {
      setNow(at)
      if (at === start) watch.hear(sweepFact(), start)
      watch.ticked(at, restEnds - at)
      const firstThatMay = Math.min(at + minute, start + 100 * minute)
      expect(watch.state(present()).progressDueAt).toBe(firstThatMay + 2 * minute)
    }
  })

  test('on Monday morning, when sweeps rest at the last tick of a schedule for office hours', () => {
    const [friday, monday] = [Date.UTC(2026, 0, 16, 17, 50), Date.UTC(2026, 0, 19, 8)]
    let now = friday
    const nextTickAt = (): number => (now < friday ? friday : monday)
    const watch = createWatch({ startedAt: friday - 10 * minute, periodMs: 10 * minute, nextTickAt })
    now = friday - 9 * minute
    watch.hear(sweepFact(), now)
    expect(watch.state(present()).progressDueAt).toBe(friday + 5 * minute)
    now = friday + 50
    watch.ticked(now, 15 * minute)
    expect(watch.state(present()).progressDueAt).toBe(monday + 5 * minute)
  })

  test('without asking the schedule for each of a hundred thousand retries', () => {
    const { watch, setNow, asked } = watchOf(minute)
    for (let at = start; at < start + 10 * minute; at += 6) {
      setNow(at)
      watch.hear(everyFact.retry, at)
    }
    expect(asked()).toBeLessThanOrEqual(11)
  })

  test('after a period when the schedule knows of no next tick', () => {
    const watch = createWatch({ startedAt: start, periodMs: minute, nextTickAt: () => undefined })
    watch.hear(sweepFact(), start + 1)
    expect(watch.state(present()).progressDueAt).toBe(start + 1 + 3 * minute)
  })
})

describe('the rest takes', () => {
  const counts = { due: 1, held: 2, 'backing-off': 3, awaiting: 4, parked: 1000, excluded: 1000 }

  test('as long as the open ones at the present pace', () => {
    const { watch } = watchOf(minute)
    expect(watch.state(present({ counts, recoveredPerMs: 0.002 })).estimatedDrainSeconds).toBe(5)
  })

  test('no time when there are none, whatever the pace', () => {
    const { watch } = watchOf(minute)
    const done = { ...noCounts(), parked: 5, excluded: 5 }
    expect(watch.state(present({ counts: done })).estimatedDrainSeconds).toBe(0)
    expect(watch.state(present({ counts: done, recoveredPerMs: 1 })).estimatedDrainSeconds).toBe(0)
  })

  test('for ever while nothing recovers', () => {
    const { watch } = watchOf(minute)
    expect(watch.state(present({ counts })).estimatedDrainSeconds).toBe(Infinity)
  })
})
