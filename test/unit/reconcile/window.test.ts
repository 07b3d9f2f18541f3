// The window's edges on the platform's wall clock, over both changes of daylight saving, and the cutting of spans.
import { describe, expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { WindowPolicy } from '../../../src/reconcile/policy.ts'
import { cut, expiringBefore, isEmpty, newestHour, slidingWindow, without } from '../../../src/reconcile/window.ts'

const minute = 60_000
const hour = 60 * minute
const policy: WindowPolicy = { lookback: 2 * hour, settle: minute }
const at = (text: string): number => Temporal.Instant.from(text).epochMilliseconds
const read = (second: number): string => new Date(second * 1000).toISOString().slice(5, 19)

describe('the edges', () => {
  const noon = '2026-01-15T12:00:00Z'

  test.each([
    ['UTC', noon, '01-15T10:00:00', '01-15T11:59:00'],
    ['UTC', '2026-01-15T12:00:00.999Z', '01-15T10:00:00', '01-15T11:59:00'],
    ['Asia/Kolkata', noon, '01-15T15:30:00', '01-15T17:29:00'],
    ['America/New_York', '2026-01-15T02:00:00Z', '01-14T19:00:00', '01-14T20:59:00'],
    // Berlin puts its clock back on 2025-10-26 at 01:00 UTC: 02:00 to 03:00 comes twice. First the hour that will come again,
    ['Europe/Berlin', '2025-10-26T00:30:00Z', '10-26T00:30:00', '10-26T02:29:00'],
    // the last moment of it; then what was settled before is still inside, and the start lies in the first pass, or the second.
    ['Europe/Berlin', '2025-10-26T01:00:59Z', '10-26T01:00:59', '10-26T02:59:59'],
    ['Europe/Berlin', '2025-10-26T01:01:00Z', '10-26T01:01:00', '10-26T03:00:00'],
    ['Europe/Berlin', '2025-10-26T01:30:00Z', '10-26T01:30:00', '10-26T03:00:00'],
    ['Europe/Berlin', '2025-10-26T02:30:00Z', '10-26T02:00:00', '10-26T03:29:00'],
    ['Europe/Berlin', '2025-10-26T03:30:00Z', '10-26T02:30:00', '10-26T04:29:00'],
    // ... and forward on 2026-03-29 at 01:00 UTC: 02:00 to 03:00 does not come at all.
    ['Europe/Berlin', '2026-03-29T01:00:30Z', '03-29T00:00:30', '03-29T01:59:30'],
    ['Europe/Berlin', '2026-03-29T01:01:30Z', '03-29T00:01:30', '03-29T03:00:30'],
    ['Europe/Berlin', '2026-03-29T03:30:00Z', '03-29T03:30:00', '03-29T05:29:00'],
  ])('in %s at %s', (zone, now, from, to) => {
    const span = slidingWindow(at(now), policy, createTimeZone(zone))
    expect([read(span.from), read(span.to)]).toEqual([from, to])
  })

  test('a time to settle as long as the lookback is an empty window', () => {
    expect(isEmpty(slidingWindow(at(noon), { ...policy, settle: 2 * hour }, createTimeZone('UTC')))).toBe(true)
  })
})

describe('the newest hour', () => {
  const zone = createTimeZone('Europe/Berlin')
  const week = { ...policy, lookback: 7 * 24 * hour }

  test.each([
    ['on an ordinary day', '2026-01-15T12:00:00Z', week, '01-15T11:59:00', '01-15T12:59:00'],
    ['right after the clock was put forward', '2026-03-29T01:11:00Z', week, '03-29T01:10:00', '03-29T03:10:00'],
    ['while the hour comes again', '2025-10-26T01:31:00Z', week, '10-26T02:00:00', '10-26T03:00:00'],
  ])('%s', (_, now, rules, from, to) => {
    const span = newestHour(at(now), rules, zone)
    expect([read(span.from), read(span.to)]).toEqual([from, to])
    expect(span.to).toBe(slidingWindow(at(now), rules, zone).to)
  })

  test.each([
    ['an hour and a half ago: from there', '2026-01-15T11:25:00', '01-15T11:25:00'],
    ['half an hour ago: from an hour ago', '2026-01-15T12:25:00', '01-15T11:59:00'],
    ['before the window: from its start', '2026-01-01T00:00:00', '01-08T13:00:00'],
  ])('and what has come since the last one ended, %s', (_, endedAt, from) => {
    const since = Date.parse(`${endedAt}Z`) / 1000
    expect(read(newestHour(at('2026-01-15T12:00:00Z'), week, zone, since).from)).toBe(from)
  })
})

test.each([
  ['UTC', '2026-01-15T12:00:00Z', {}, '01-15T10:30:00'],
  ['UTC', '2026-01-15T12:00:00Z', { lookback: 30 * 24 * hour }, '12-16T18:00:00'],
  // The hour from 02:00 comes twice at the window's start: what lies in it stays until the second time.
  ['Europe/Berlin', '2025-10-26T02:20:00Z', {}, '10-26T02:00:00'],
  ['Europe/Berlin', '2025-10-26T03:20:00Z', {}, '10-26T02:50:00'],
  ['Europe/Berlin', '2026-03-29T02:40:00Z', {}, '03-29T03:10:00'],
])('what is about to leave: in %s at %s: what happened before', (zone, now, rules, before) => {
  expect(read(expiringBefore(at(now), { ...policy, ...rules }, createTimeZone(zone)))).toBe(before)
})

test.each<[from: number, to: number, parts: number, edges: number[]]>([
  [-3, 7, 3, [-3, 0, 3, 7]],
  [0, 2, 5, [0, 1, 2]],
  [0, 9, 0, [0, 9]],
])(
  'from %i to %i in %i: the parts are whole, in order, without gap or overlap, about equal',
  (from, to, parts, edges) => {
    const spans = edges.slice(1).map((end, index) => ({ from: edges[index], to: end }))
    expect(cut({ from, to }, parts)).toEqual(spans)
  },
)

test.each([
  [{ from: 0, to: 5 }, [{ from: 5, to: 10 }]],
  [
    { from: 4, to: 6 },
    [
      { from: 0, to: 4 },
      { from: 6, to: 10 },
    ],
  ],
  [{ from: -1, to: 11 }, []],
  [{ from: 10, to: 12 }, [{ from: 0, to: 10 }]],
])('of ten seconds without %j, %j are left', (taken, left) => {
  expect(without([{ from: 0, to: 10 }], taken)).toEqual(left)
})
