// The chart: its words for those who can't see it, what it marks, and what it leaves out.
import { expect, test } from 'vitest'
import type { HistoryStep } from '../../../src/observe/history.ts'
import { missingChart } from '../../../src/ops/chart.ts'
import { toStatus } from '../../../src/ops/status.ts'
import type { Html } from '../../../src/ops/html.ts'
import { aStatusState } from '../../support/status.ts'

const start = Date.UTC(2026, 0, 15, 11, 1)

function chart(change: (index: number) => Partial<HistoryStep>, length = 60, changes: object = {}): string {
  const startedAt = new Date(length < 60 ? start : 0)
  const quiet = { missing: 0, recovered: 0, circuits: 0, paused: false }
  const minutes = Array.from({ length }, (_, index): HistoryStep => ({
    ...quiet,
    at: new Date(start + index * 60_000),
    ...change(index),
  }))
  const now = new Date(start + length * 60_000)
  const seen = { lastFullSweep: now, lastCompleteSweep: now }
  const status = { ...toStatus(aStatusState()), ...seen, now, startedAt, history: minutes, ...changes }
  return (missingChart(status) as Html | undefined)?.markup ?? ''
}

test.each<[string, (index: number) => Partial<HistoryStep>, string]>([
  ['a peak', (n) => ({ missing: n === 30 ? 9 : 1 }), '1 now, at most 9 at 11:31 UTC.'],
  ['one alone', (n) => ({ missing: n === 59 ? 5 : null }), '5 now.'],
  ['none', () => ({ missing: null, paused: true }), 'Not known yet: no full sweep has ended.'],
])('numbers in words: %s', (_, change, words) => {
  expect(chart(change)).toContain(words)
  expect(chart(change)).toMatch(/role="img"\s+aria-labelledby="chart chart-words"/)
})

test('begins with the process, and draws no number that is not known', () => {
  const markup = chart((index) => ({ missing: [null, null, 0, 7, 14][index] ?? null }), 5)
  expect(markup).toContain('<h2 id="chart">Missing since the start</h2>')
  expect(markup).toContain('viewBox="0 0 5 ')
  expect(markup).not.toContain('NaN')
  expect(markup).toContain('class="missing" d="M2 100V100h1V100M3 100V50h1V100M4 100V0h1V100"')
  expect(chart(() => ({ missing: 7 }))).toContain('<h2 id="chart">Missing in the last hour</h2>')
  expect([1, 2].map((length) => chart(() => ({ missing: 7 }), length).includes('7 now.'))).toEqual([false, true])
  expect(chart(() => ({ missing: 7 }), 5, { drain: { limitedBy: 'zone' } })).toContain('7 known now.')
})

test.each([
  [61, start, 'in the last hour'],
  [62, start, 'since the incident began'],
  [7 * 24 * 60, start, 'since the incident began'],
  [7 * 24 * 60, start - 3_600_000, 'in the last 7 days'],
])('begins with an incident of more than an hour, and less than a week', (length, since, words) => {
  const incident = { endedAt: null, since: new Date(since) }
  expect(chart(() => ({ missing: 7 }), length, { incident })).toContain(`Missing ${words}<`)
})

test('marks minutes with a circuit that was not closed, and of a pause', () => {
  const markup = chart((index) => ({ missing: 7, circuits: index < 20 ? 3 : 0, paused: index === 1 }))
  expect(markup).toMatch(/class="circuits" d="(M\d+ 110V105h1V110){20}"/)
  expect(markup).toContain('class="paused" d="M1 120V115h1V120"')
  expect(markup).toContain('a circuit open or half-open<')
  expect(markup).toContain('paused by an operator<')
})

test('recovered deliveries are a line with its own height; the times below are of its thirds', () => {
  const markup = chart((index) => ({ missing: 7, recovered: index === 1 ? 40 : 10 }), 3)
  expect(markup).toContain('class="recovered" d="M0.5 75L1.5 0L2.5 75"')
  expect(markup).toContain('recovered, at most 40 in 1 min<')
  expect(markup).toContain('<span>11:01 UTC</span><span>11:02</span><span>11:03</span><span>now</span>')
})

test('of a week each time has its day, of a day none', () => {
  const first = (index: number): Partial<HistoryStep> => ({ missing: index === 0 ? 7 : 0 })
  expect(chart(first, 24 * 60)).toContain('0 now, at most 7 at 11:01 UTC.')
  const markup = chart(first, 7 * 24 * 60)
  expect(markup).toContain('0 now, at most 7 at 01-15 11:01 UTC.')
  expect(markup).toMatch(/<span>01-15 11:01 UTC<\/span><span>01-17 \d\d:\d\d<\/span>/)
})

test('where nothing was missing there is no drawing; without a course nothing', () => {
  expect(chart(() => ({}))).toMatch(/Missing in the last hour<[^]*None\./)
  expect(chart(() => ({}), 7 * 24 * 60)).toContain('Missing in the last 7 days<')
  expect(chart(() => ({}), 60, { sweeps: [{ result: 'failed' }] })).toContain('None known.')
  expect(chart(() => ({ missing: null }), 60, { lastFullSweep: null })).toContain('None known.')
  expect(chart(() => ({}), 0)).toBe('')
  expect(chart(() => ({ missing: 7 }), 1)).toBe('')
  expect(chart(() => ({ paused: true }))).not.toBe('')
})
