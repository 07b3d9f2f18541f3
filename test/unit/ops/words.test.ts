// Numbers, times and spans as people read them.
import { describe, expect, test } from 'vitest'
import { clockTime, count, counted, fromNow, response, span, word } from '../../../src/ops/words.ts'

const now = new Date('2026-01-15T12:00:00.000Z')
const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000]

test('numbers', () => {
  expect([count(0), count(7000), count(0.26), count(1_234_567)]).toEqual(['0', '7,000', '0.3', '1,234,567'])
  expect([counted(1, 'cause', 'causes'), counted(0, 'cause', 'causes')]).toEqual(['1 cause', '0 causes'])
})

test.each([
  [-5, '0 s'],
  [499, '0 s'],
  [500, '1 s'],
  [59_499, '59 s'],
  [minuteMs, '1 min'],
  [hourMs - 1000, '59 min'],
  [hourMs, '1 h'],
  [3 * hourMs + 20 * minuteMs, '3 h 20 min'],
  [2 * dayMs - 1000, '47 h 59 min'],
  [2 * dayMs, '2 d'],
  [9 * dayMs + 5 * hourMs, '9 d 5 h'],
])('a span of %d ms is %s', (ms, text) => {
  expect(span(ms)).toBe(text)
})

describe('times', () => {
  test('of the same day are short, others carry their date', () => {
    expect(clockTime(new Date('2026-01-15T00:00:01.999Z'), now)).toBe('00:00:01')
    expect(clockTime(new Date('2026-01-14T23:59:59.000Z'), now)).toBe('2026-01-14 23:59:59')
    expect(clockTime(new Date('2025-01-15T12:00:00.000Z'), now)).toBe('2025-01-15 12:00:00')
  })

  test.each([
    ['2026-01-15T12:00:00.900Z', 'now'],
    ['2026-01-15T12:00:00.000Z', 'just now'],
    ['2026-01-15T11:59:59.100Z', 'just now'],
    ['2026-01-15T11:59:58.000Z', '2 s ago'],
    ['2026-01-15T12:00:01.500Z', 'in 2 s'],
    ['2026-01-15T12:05:00.000Z', 'in 5 min'],
    ['2026-01-13T12:00:00.000Z', '2 d ago'],
  ])('%s is %s', (iso, text) => {
    expect(fromNow(new Date(iso), now)).toBe(text)
  })
})

test('answers of the receiver', () => {
  expect([response(503), response(null)]).toEqual(['HTTP 503', 'no response'])
})

test('words from outside are cut, and an empty one is not left out', () => {
  expect(word('')).toBe('(none)')
  expect(word('x'.repeat(80))).toBe('x'.repeat(80))
  expect(word('x'.repeat(81))).toBe(`${'x'.repeat(79)}…`)
  expect([...word('💶'.repeat(200))]).toHaveLength(80)
})
