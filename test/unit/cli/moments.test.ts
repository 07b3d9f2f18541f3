// Times as the commands take and show them: always in a stated zone, also where daylight saving repeats or skips an hour.
import { describe, expect, test } from 'vitest'
import { createMoments } from '../../../src/cli/moments.ts'
import { UsageError } from '../../../src/runtime/errors.ts'

const now = Date.UTC(2026, 5, 1, 12)
const at = (text: string): number => Date.parse(text)

describe('shown', () => {
  test.each([
    ['UTC', '2026-01-02T03:04:05.999Z', '2026-01-02T03:04:05Z'],
    ['Europe/Berlin', '2026-01-02T03:04:05Z', '2026-01-02T04:04:05+01:00'],
    ['Europe/London', '2026-01-02T03:04:05Z', '2026-01-02T03:04:05+00:00'],
    ['Asia/Kolkata', '2026-01-02T23:04:05Z', '2026-01-03T04:34:05+05:30'],
  ])('in %s: %s is %s', (zone, moment, shown) => {
    expect(createMoments(zone).show(at(moment))).toBe(shown)
  })

  test.each([null, NaN, Infinity, 9e15])('%s is none', (ms) => {
    expect(createMoments('UTC').show(ms)).toBe('-')
  })
})

describe('taken', () => {
  test.each([
    ['Europe/Berlin', '2026-03-01T10:00:00Z', 'earlier', '2026-03-01T10:00:00Z'],
    ['Europe/Berlin', '2026-03-01T10:00:00+05:00', 'earlier', '2026-03-01T05:00:00Z'],
    ['Europe/Berlin', '2026-03-01T10:00+0500', 'earlier', '2026-03-01T05:00:00Z'],
    ['Europe/Berlin', '2026-03-01T10:00:00', 'earlier', '2026-03-01T09:00:00Z'],
    ['UTC', '2026-03-01T10:00[Europe/Berlin]', 'earlier', '2026-03-01T09:00:00Z'],
    ['Europe/Berlin', '2026-03-01 10:00', 'earlier', '2026-03-01T09:00:00Z'],
    ['Europe/Berlin', '2026-03-01', 'earlier', '2026-02-28T23:00:00Z'],
    // The hour that comes twice: a beginning takes both in, and so does an end.
    ['Europe/Berlin', '2026-10-25T02:30', 'earlier', '2026-10-25T00:30:00Z'],
    ['Europe/Berlin', '2026-10-25T02:30', 'later', '2026-10-25T01:30:00Z'],
    // The hour that does not come.
    ['Europe/Berlin', '2026-03-29T02:30', 'earlier', '2026-03-29T00:30:00Z'],
    ['UTC', '6h', 'earlier', '2026-06-01T06:00:00Z'],
    ['UTC', '90m', 'later', '2026-06-01T10:30:00Z'],
  ] as const)('in %s: %s (%s) is %s', (zone, text, edge, moment) => {
    const taken = createMoments(zone).parse(text, { option: '--since', now, edge })
    expect(new Date(taken).toISOString()).toBe(new Date(at(moment)).toISOString())
  })

  test.each(['0000-12-31', '+010000-01-02', '9000000d', '', '2026-02-30', '2026-13-01T00:00Z', '1.5h', '\u001b[2J'])(
    '%j is refused, by the name of its option and without control characters',
    (text) => {
      const taking = (): number => createMoments('UTC').parse(text, { option: '--until', now, edge: 'later' })
      expect(taking).toThrow(UsageError)
      expect(taking).toThrow(/^--until: a moment such as [^\p{Cc}]+$/u)
    },
  )

  test.each(['Mars/Olympus', '', 'UTC; rm'])('the zone %j is refused', (zone) => {
    expect(() => createMoments(zone)).toThrow(/^--zone: an IANA time zone/)
  })
})
