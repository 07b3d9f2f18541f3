// The chart of the last hour: its drawing, its words for those who can't see it, and that no number breaks it.
import { describe, expect, test } from 'vitest'
import type { MinuteState } from '../../../src/observe/history.ts'
import type { Html } from '../../../src/ops/html.ts'
import { areaPaths, missingChart, niceMax } from '../../../src/ops/page-details.ts'

const start = Date.UTC(2026, 0, 15, 11, 1)

function minutes(change: (index: number) => Partial<MinuteState>): MinuteState[] {
  return Array.from({ length: 60 }, (_, index) => ({
    at: new Date(start + index * 60_000),
    missing: 0,
    recovered: 0,
    failedAgain: 0,
    unknown: 0,
    ...change(index),
  }))
}

test.each([
  [0, 1],
  [-1, 1],
  [NaN, 1],
  [1, 1],
  [4, 5],
  [7, 10],
  [10, 10],
  [11, 20],
  [21, 30],
  [31, 50],
  [51, 100],
  [7000, 10_000],
  [100_000, 100_000],
])('the scale of %d ends at %d', (largest, max) => {
  expect(niceMax(largest)).toBe(max)
})

describe('areas', () => {
  test('one for each run of what is known, in steps', () => {
    expect(areaPaths([null, 10, 5, null, 0], 10)).toEqual([
      { line: 'M1 0L2 0L2 50L3 50', area: 'M1 100L1 0L2 0L2 50L3 50L3 100Z' },
      { line: 'M4 100L5 100', area: 'M4 100L4 100L5 100L5 100Z' },
    ])
  })

  test('none without numbers', () => {
    expect(areaPaths([null, null], 1)).toEqual([])
    expect(areaPaths([], 1)).toEqual([])
  })
})

const chart = (hour: MinuteState[]): string => (missingChart(hour) as Html).markup

describe('missing deliveries', () => {
  test('are said in words', () => {
    const markup = chart(minutes((index) => ({ missing: index < 10 ? null : 8000 - index * 100 })))
    expect(markup).toContain('2,100 now, 7,000 at 11:11 UTC.')
    expect(markup).toMatch(/role="img"\s+aria-labelledby="chart chart-words"/)
    expect(markup).toContain('<h2 id="chart">Missing, last hour</h2>')
    expect(markup).toContain('<span>10,000</span>')
  })

  test('with the most there were, and no more than there is to say', () => {
    const peak = minutes((index) => ({ missing: index === 30 ? 9 : 1 }))
    expect(chart(peak)).toContain('1 now, 1 at 11:01 UTC, at most 9 at 11:31 UTC.')
    expect(chart(minutes((index) => ({ missing: index === 59 ? 5 : null })))).toContain('5 now.')
  })

  test('that are not known are not drawn as none', () => {
    const markup = chart(minutes(() => ({ missing: null })))
    expect(markup).toContain('Not known yet')
    expect(markup).not.toContain('class="line"')
  })

  test('of no minutes leave no chart', () => {
    expect(missingChart([])).toBeUndefined()
  })
})
