// What was seen to work: progress and when it is due next, the last sweeps, and readiness.
import { describe, expect, test } from 'vitest'
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import { createProgress, maxSweeps, type Progress } from '../../../src/observe/progress.ts'
import { retryResults } from '../../../src/platform/operations.ts'
import { everyFact, failedSweep, outcomeFact, retryFact, sweepFact, tokenHad } from '../../support/facts.ts'

const minute = 60_000
const start = Date.UTC(2026, 0, 15, 12)
const toWallClock = (at: number): number => at

/** Ticks every `periodMs`, on the multiples of it. */
function progressOf(periodMs: number): { progress: Progress; setNow: (now: number) => void; asked: () => number } {
  let [now, asked] = [start, 0]
  const nextTickAt = (): number => {
    asked += 1
    return (Math.floor(now / periodMs) + 1) * periodMs
  }
  return {
    progress: createProgress({ startedAt: start, periodMs, nextTickAt, toWallClock }),
    setNow: (at) => (now = at),
    asked: () => asked,
  }
}

test('progress is a list, an outcome, or an answer that is about the record', () => {
  const isProgress = (fact: TelemetryEvent): boolean => {
    const { progress } = progressOf(minute)
    progress.observe(fact, start + 5)
    const { progressDueAt } = progress.state()
    if (progressDueAt === start + 3 * minute) return true
    expect(progressDueAt, 'as at the start').toBe(start + 2 * minute)
    return false
  }
  const seen = [sweepFact(), sweepFact({ kind: 'recent' }), sweepFact({ result: 'incomplete' }), outcomeFact()]
  expect([...seen, outcomeFact({ outcome: 'failed-again' })].filter((fact) => !isProgress(fact))).toEqual([])
  const others = [failedSweep(), outcomeFact({ outcome: 'unknown' }), everyFact['platform-request'], tokenHad]
  expect(others.filter(isProgress)).toEqual([])
  const telling = retryResults.filter((result) => isProgress(retryFact({ result, reason: 'ok' })))
  expect(telling).toEqual(['accepted', 'already-resolved', 'gone', 'rejected'])
})

describe('progress is due', () => {
  test.each([
    ['half a minute', minute / 2, minute / 2 + minute],
    // Never more than five minutes, however long the period.
    ['a day', 1440 * minute, 720 * minute + 5 * minute],
  ])('by the first tick of every %s after the last, and a little more', (_name, periodMs, expected) => {
    const { progress, setNow } = progressOf(periodMs)
    setNow(start + 10)
    progress.observe(sweepFact(), start + 10)
    expect(progress.state().progressDueAt).toBe(start + expected)
    // It stays there while nothing comes.
    setNow(start + 9_000 * minute)
    expect(progress.state().progressDueAt).toBe(start + expected)
  })

  test('without asking the schedule for each of a hundred thousand retries', () => {
    const { progress, setNow, asked } = progressOf(minute)
    for (let at = start; at < start + 10 * minute; at += 6) {
      setNow(at)
      progress.observe(everyFact.retry, at)
    }
    expect(asked()).toBeLessThanOrEqual(11)
  })

  test('after a period when the schedule knows of no next tick', () => {
    const progress = createProgress({ startedAt: start, periodMs: minute, nextTickAt: () => undefined, toWallClock })
    progress.observe(sweepFact(), start + 1)
    expect(progress.state().progressDueAt).toBe(start + 1 + 3 * minute)
  })
})

test('retries that the platform does not take are counted in a row, with the last reason, until it takes one', () => {
  const { progress } = progressOf(minute)
  const countAfter = (result: (typeof retryResults)[number], reason: 'server-error' | 'timeout'): unknown => {
    progress.observe(retryFact({ result, reason }), start)
    return progress.state().notAccepted
  }
  for (const result of ['accepted', 'already-resolved'] as const) {
    countAfter('platform-error', 'server-error')
    expect(countAfter('unreachable', 'timeout')).toEqual({ inARow: 2, reason: 'timeout' })
    // A gate says so.
    for (const held of ['throttled', 'unauthorized'] as const)
      expect(countAfter(held, 'server-error')).toEqual({ inARow: 2, reason: 'timeout' })
    expect(countAfter('rejected', 'server-error')).toEqual({ inARow: 3, reason: 'server-error' })
    expect(countAfter('gone', 'timeout')).toEqual({ inARow: 4, reason: 'timeout' })
    expect(countAfter(result, 'server-error')).toEqual({ inARow: 0 })
  }
})

test('outcomes that stay unknown are counted in a row, until a retry finds a record resolved, too', () => {
  const { progress } = progressOf(minute)
  for (const [index, outcome] of (['unknown', 'failed-again', 'unknown', 'unknown'] as const).entries()) {
    progress.observe(outcomeFact({ outcome }), 1)
    expect(progress.state().unknownInARow).toBe([1, 0, 1, 2][index])
  }
  progress.observe(retryFact({ result: 'already-resolved', reason: 'conflict' }), 1)
  expect(progress.state().unknownInARow).toBe(0)
})

test('records that expired are counted, without those that returned; how far attempts lie off is kept', () => {
  const { progress } = progressOf(minute)
  progress.observe({ type: 'expired', records: 3, again: 0 }, 1)
  progress.observe({ type: 'expired', records: 5, again: 0 }, 2)
  progress.observe({ type: 'returned', records: 2 }, 2)
  progress.observe(outcomeFact({ timeOffsetMs: 2000 }), 1)
  progress.observe(outcomeFact({ timeOffsetMs: undefined }), 2)
  progress.observe(outcomeFact({ timeOffsetMs: -9000 }), 2)
  expect(progress.state()).toMatchObject({ expired: 6, timeOffsetMs: 2000 })
  progress.forget()
  expect(progress.state()).toMatchObject({ expired: 0 })
})

describe('sweeps', () => {
  test('that ended: no more are kept than are shown; those that failed say why in our own words, and what to do', () => {
    const { progress } = progressOf(minute)
    for (let at = 1; at < 1000; at += 1) progress.observe(sweepFact({ listed: at }), at)
    const quotes = { stage: 'token', reason: 'unauthorized', message: 'rejected: "words from outside"' } as const
    progress.observe(failedSweep({ listed: 1000 }, { ...quotes, advice: 'check the key' }), 1000)
    const { sweeps } = progress.state()
    const kept = sweeps.map(({ endedAt, listed }) => [Number(endedAt), listed])
    expect(kept).toEqual(Array.from({ length: maxSweeps }, (_, i) => [991 + i, 991 + i]))
    expect(sweeps.at(-1)?.failure).toEqual({
      stage: 'token',
      reason: 'unauthorized',
      rejected: false,
      advice: 'check the key',
    })
  })

  test('full ones: one that failed is none, and only one that saw all is complete', () => {
    const { progress } = progressOf(minute)
    const at = (): unknown => {
      const { lastFullSweepAt, lastCompleteSweepAt, lastIncompleteSweepAt } = progress.state()
      return [lastFullSweepAt, lastCompleteSweepAt, lastIncompleteSweepAt]
    }
    progress.observe(sweepFact({ result: 'failed' }), 1)
    expect(at()).toEqual([undefined, undefined, 1])
    progress.observe(sweepFact({ kind: 'recent' }), 2)
    expect(at()).toEqual([undefined, undefined, 1])
    progress.observe(sweepFact({ result: 'incomplete' }), 3)
    expect(at()).toEqual([3, undefined, 3])
    progress.observe(sweepFact(), 5)
    expect(at()).toEqual([5, 5, 3])
  })
})

test('it is ready once it has had a token and a page of the list', () => {
  const { progress } = progressOf(minute)
  expect(progress.notReady()).toEqual(['no access token yet', 'no list page of the platform yet'])
  progress.observe(tokenHad, 1)
  for (const call of [{ reason: 'server-error' }, { operation: 'confirm', reason: 'ok' }] as const)
    progress.observe({ ...everyFact['platform-request'], ...call }, 2)
  expect(progress.notReady()).toEqual(['no list page of the platform yet'])
  progress.observe({ ...everyFact['platform-request'], reason: 'ok' }, 3)
  expect(progress.notReady()).toEqual([])
})

test('lists fail from the start of the first one, whatever retries meet', () => {
  const { progress } = progressOf(minute)
  for (const [index, operation] of (['list', 'confirm', 'retry'] as const).entries())
    progress.observe({ ...everyFact['platform-request'], operation }, 1000 * (index + 1))
  expect(progress.state().listsFailing).toEqual({ since: 800, until: 2000, reason: 'server-error' })
})

test('what was at one moment is shown at one, although two readings of the clocks may differ by a millisecond', () => {
  let late = 0
  const progress = createProgress({
    ...{ startedAt: start, periodMs: minute, nextTickAt: () => undefined },
    toWallClock: (at) => at - (late += 1),
  })
  progress.observe(sweepFact({ result: 'complete' }), start)
  const { lastCompleteSweepAt, lastFullSweepAt } = progress.state()
  expect(lastCompleteSweepAt).toBe(lastFullSweepAt)
})
