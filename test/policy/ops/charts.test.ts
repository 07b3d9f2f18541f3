// The charts: what they draw, what they say to who can't see them, and that no number makes them break.
import { describe, expect, test } from 'vitest'
import { areaPaths, missingChart, niceMax, outcomesChart } from '../../../src/ops/charts.ts'
import type { MinuteStatus } from '../../../src/ops/history-status.ts'

const start = Date.UTC(2026, 0, 15, 11, 1)

function minutes(change: (index: number) => Partial<MinuteStatus>): MinuteStatus[] {
  return Array.from({ length: 60 }, (_, index) => ({
    at: new Date(start + index * 60_000).toISOString(),
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

describe('missing deliveries', () => {
  test('say in words how it went', () => {
    const { markup } = missingChart(minutes((index) => ({ missing: index < 10 ? null : 8000 - index * 100 })))
    expect(markup).toContain('2,100 now, 7,000 at 11:11 UTC.')
    expect(markup).toContain('<title id="missing-chart-title">Missing deliveries, last hour</title>')
    expect(markup).toMatch(/aria-labelledby="missing-chart-title missing-chart-desc"/)
    expect(markup).toContain('11:05 UTC: not known')
    expect(markup).toContain('12:00 UTC: 2,100 missing')
    expect(markup).toContain('<span>10,000</span>')
  })

  test('say when there were most, and no more than there is to say', () => {
    const peak = minutes((index) => ({ missing: index === 30 ? 9 : 1 }))
    expect(missingChart(peak).markup).toContain('1 now, 1 at 11:01 UTC, at most 9 at 11:31 UTC.')
    expect(missingChart(minutes((index) => ({ missing: index === 59 ? 5 : null }))).markup).toContain('5 now.')
  })

  test('that nobody knows are not drawn as none', () => {
    const { markup } = missingChart(minutes(() => ({ missing: null })))
    expect(markup).toContain('Not known yet')
    expect(markup).not.toContain('class="line"')
  })

  test('of no minutes break nothing', () => {
    expect(missingChart([]).markup).toContain('Not known yet')
    expect(outcomesChart([]).markup).toContain('No outcome')
  })
})

describe('outcomes', () => {
  const bars = (markup: string, kind: string): number[] =>
    [...markup.matchAll(new RegExp(`<rect class="${kind}"[^>]* height="([\\d.]+)"`, 'g'))].map((match) =>
      Number(match[1]),
    )

  test('what recovered stands above the line, what failed again hangs below it, on one scale', () => {
    const { markup } = outcomesChart(
      minutes((index) => ({ recovered: index === 5 ? 100 : 0, failedAgain: index === 7 ? 50 : 0 })),
    )
    expect(bars(markup, 'recovered')[0]).toBeCloseTo(100 / 1.5)
    expect(bars(markup, 'failed-again')[0]).toBeCloseTo(50 / 1.5)
    expect(markup).toContain('100 deliveries recovered, 50 failed again.')
    expect(markup).toContain('11:06 UTC: 100 recovered, 0 failed again')
  })

  test('without failures the line is at the bottom', () => {
    const { markup } = outcomesChart(minutes((index) => ({ recovered: index })))
    expect(bars(markup, 'recovered')).toHaveLength(59)
    expect(markup).toContain('<span>0</span>')
    expect(Math.max(...bars(markup, 'recovered'))).toBeLessThanOrEqual(100)
  })

  test('none are said in words', () => {
    expect(outcomesChart(minutes(() => ({}))).markup).toContain('No outcome in the last hour.')
  })
})
