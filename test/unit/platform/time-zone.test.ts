// Wall clocks and instants: every daylight-saving rule there is, years far away, and texts that are nearly date-times.
import { describe, expect, test } from 'vitest'
import { createTimeZone, formatLocalSecond, laterReadingNotAfter, parseLocal } from '../../../src/platform/time-zone.ts'

const hour = 3_600_000
const utc = createTimeZone('UTC')

/** Epoch ms of what stands there when it is read as UTC: for instants, and for local times. */
function at(text: string): number {
  return Date.parse(`${text}Z`)
}

/** What Temporal itself says of a local time; for a skipped one, the reading of a clock that was not moved yet. */
function byTemporal(local: number, name: string): [number, number] {
  const plain = Temporal.Instant.fromEpochMilliseconds(local).toZonedDateTimeISO('UTC').toPlainDateTime()
  const earlier = plain.toZonedDateTime(name, { disambiguation: 'earlier' })
  const { epochMilliseconds: later } = plain.toZonedDateTime(name, { disambiguation: 'later' })
  return earlier.toPlainDateTime().equals(plain) ? [earlier.epochMilliseconds, later] : [later, later]
}

test.each(['0001-01-01T00:00:00', '1582-10-10T00:00:00', '1883-11-18T12:00:00', '9999-12-31T23:59:59'])(
  'the year of %s is as Temporal has it',
  (text) => {
    for (const name of ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe']) {
      const local = parseLocal(text, createTimeZone(name)) ?? NaN
      expect(createTimeZone(name).toInstants(local)).toEqual(byTemporal(local, name))
    }
  },
)

test('within three days of every change of an offset since 2011, it is as Temporal has it', () => {
  const names = Intl.supportedValuesOf('timeZone')
  const since = at('2011-01-01T00:00:00')
  const until = at('2027-01-01T00:00:00')
  let changes = 0
  for (const name of names) {
    const zone = createTimeZone(name)
    let change = zone.nextTransition(since) ?? Infinity
    for (; change < until; change = zone.nextTransition(change) ?? Infinity) {
      changes += 1
      for (const hours of [-72, -25, -24, -1, -0.5, 0, 0.25, 0.5, 1, 24, 25, 72]) {
        const local = zone.toLocal(change - 1) + 1 + hours * hour
        const told = { name, local, instants: zone.toInstants(local) }
        expect(told).toEqual({ name, local, instants: byTemporal(local, name) })
      }
    }
  }
  expect(changes).toBeGreaterThan(2_000)
})

test('nextTransition is the next change, strictly after', () => {
  const zone = createTimeZone('Europe/Berlin')
  const spring = at('2026-03-29T01:00:00')
  expect(zone.nextTransition(spring - 1)).toBe(spring)
  expect(zone.nextTransition(spring)).toBe(at('2026-10-25T01:00:00'))
})

test.each(['', 'Mars/Olympus', 'Europe/Berlin ', 'local'])('the zone %j is refused', (name) => {
  expect(() => createTimeZone(name)).toThrow(RangeError)
})

describe('parseLocal', () => {
  test.each([
    ['2026-01-15T12:00:00.1', '2026-01-15T12:00:00.100'],
    ['2026-01-15T12:00:00.999999999', '2026-01-15T12:00:00.999'],
    ['2026-01-15T12:00:00,5', '2026-01-15T12:00:00.500'],
    ['2026-01-15T12:00', '2026-01-15T12:00:00'],
    ['2026-01-15 12:00:00', '2026-01-15T12:00:00'],
    ['2026-01-15', '2026-01-15T00:00:00'],
    ['2026-12-31T23:59:60', '2026-12-31T23:59:59'],
    ['0001-01-01T00:00:00', '0001-01-01T00:00:00'],
  ])('%s is a local time, for any zone', (text, local) => {
    for (const name of ['UTC', 'Europe/Berlin', 'Pacific/Kiritimati']) {
      expect(parseLocal(text, createTimeZone(name))).toBe(at(local))
    }
  })

  test.each([2023, 2024])('of %i each day that there is, and no other', (year) => {
    const two = (number: number): string => String(number).padStart(2, '0')
    for (let month = 1; month <= 12; month += 1) {
      const days = new Date(Date.UTC(year, month, 0)).getUTCDate()
      for (let day = 1; day <= 31; day += 1) {
        const text = `${year}-${two(month)}-${two(day)}T12:30:15.250`
        const local = parseLocal(text, utc)
        expect(local, text).toBe(day <= days ? Date.parse(`${text}Z`) : undefined)
        if (local !== undefined) expect(`${formatLocalSecond((local - 250) / 1000)}.250`).toBe(text)
      }
    }
  })

  test.each(['2026-07-15T10:00:00Z', '2026-07-15 12:00:00+02:00', '20260715T100000Z'])(
    '%s names its offset and is taken at its word',
    (text) => {
      const zone = createTimeZone('America/New_York')
      expect(parseLocal(text, zone)).toBe(at('2026-07-15T06:00:00'))
    },
  )

  test.each([
    ...[undefined, 1_768_478_400_000, '', '2026-02-30T00:00:00', '2026-01-15T12:00:00+99:00'],
    '2026-01-15T12:00:00' + '0'.repeat(60),
    // Four digits are a year; what lies beyond them would lead out of what an instant can be.
    ...['+010000-01-01T00:00:00', '+275760-09-13T00:00:00Z', '-000001-12-31T00:00:00'],
  ])('%j is no date-time', (text) => {
    expect(parseLocal(text, utc)).toBeUndefined()
    expect(parseLocal(text, createTimeZone('Europe/Berlin'))).toBeUndefined()
  })
})

test.each([
  ['after both', '2026-10-25T02:30:00', '2026-10-25T01:30:00'],
  ['at the later one', '2026-10-25T01:30:00', '2026-10-25T01:30:00'],
  ['just before the later one', '2026-10-25T01:29:59', '2026-10-25T00:30:00'],
  ['before both: the earlier is the least wrong', '2026-10-24T23:30:00', '2026-10-25T00:30:00'],
])('laterReadingNotAfter a time %s', (_, now, reading) => {
  const zone = createTimeZone('Europe/Berlin')
  expect(laterReadingNotAfter(zone, at('2026-10-25T02:30:00'), at(now))).toBe(at(reading))
})
