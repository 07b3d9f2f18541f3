// Numbers, times and spans as people read them.
import { expect, test } from 'vitest'
import type { CallResponse } from '../../../src/platform/operations.ts'
import { callText, clockTime, fromNow, response, span, subscriptionName, word } from '../../../src/ops/words.ts'
import { count, counted } from '../../../src/runtime/counted.ts'

const now = new Date('2026-01-15T12:00:00.000Z')
const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000]

test('numbers, and answers of the receiver', () => {
  expect([count(0), count(7000), count(0.26), count(1_234_567)]).toEqual(['0', '7,000', '0.3', '1,234,567'])
  expect([counted(1, 'cause', 'causes'), counted(0, 'cause', 'causes')]).toEqual(['1 cause', '0 causes'])
  expect([response(503), response(null)]).toEqual(['HTTP 503', 'no response'])
})

test('a subscription is called by its name, or by the start of its id: by more of one that begins with a time', () => {
  const [random, timed] = ['0d8e6b1c-5b7a-4c3e-9f10-000000000001', '0190a1b2-c3d4-7e5f-8a6b-000000000001']
  expect(subscriptionName(random, { [random]: 'Payments' })).toBe('Payments')
  expect([random, timed].map((id) => subscriptionName(id, {}))).toEqual(['0d8e6b1c', '0190a1b2-c3d4'])
})

test.each<[CallResponse, string]>([
  [{ reason: 'server-error' }, 'HTTP 5xx'],
  [{ reason: 'server-error', status: 503 }, 'HTTP 503'],
  [{ reason: 'other', status: 423, problem: 'svc.locked' }, 'HTTP 423 (svc.locked)'],
  [{ reason: 'forbidden', status: 403 }, 'HTTP 403 without a platform error body'],
  [{ reason: 'invalid-body', status: 200 }, 'HTTP 200, an unusable body'],
  [{ reason: 'too-large' }, 'too-large'],
])('the answer %j is shown as %s', (answer, text) => {
  expect(callText(answer)).toBe(text)
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

test.each([
  ['2026-01-15T12:00:00.900Z', '12:00:00', 'now'],
  ['2026-01-15T12:00:00.000Z', '12:00:00', 'just now'],
  ['2026-01-15T11:59:59.100Z', '11:59:59', 'just now'],
  ['2026-01-15T11:59:58.000Z', '11:59:58', '2 s ago'],
  ['2026-01-15T12:00:01.500Z', '12:00:01', 'in 2 s'],
  ['2026-01-14T23:59:59.000Z', '2026-01-14 23:59:59', '12 h ago'],
  ['2025-01-15T12:00:00.000Z', '2025-01-15 12:00:00', '365 d ago'],
])('%s is %s, %s', (iso, clock, text) => {
  expect([clockTime(new Date(iso), now), fromNow(new Date(iso), now)]).toEqual([clock, text])
})

test('words from outside are cut, and an empty one is not left out', () => {
  expect(word('')).toBe('(none)')
  expect(word('x'.repeat(80))).toBe('x'.repeat(80))
  expect(word('x'.repeat(81))).toBe(`${'x'.repeat(79)}…`)
  expect([...word('💶'.repeat(200))]).toHaveLength(80)
})
