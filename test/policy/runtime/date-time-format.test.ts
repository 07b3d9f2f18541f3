// The bundle's stand-in for Intl in UTC: node-cron reads from it what it would read from Intl.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { dateTimeFormat } from '../../../tools/bundle/date-time-format.ts'

/** As node-cron asks for them. */
const ofDate: Intl.DateTimeFormatOptions = {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  weekday: 'short',
  hour12: false,
}
const ofOffset: Intl.DateTimeFormatOptions = { timeZoneName: 'shortOffset' }

type Formatter = ReturnType<typeof dateTimeFormat>

/** What node-cron makes of the parts: it reads numbers as numbers, and hour 24 as 0. */
function read(formatter: Formatter, date: Date, types: readonly string[]): unknown[] {
  const parts = new Map(formatter.formatToParts(date).map(({ type, value }) => [type as string, value]))
  return types.map((type) => {
    const value = parts.get(type) ?? ''
    if (!/^\d+$/.test(value)) return value
    return type === 'hour' ? Number(value) % 24 : Number(value)
  })
}

describe('dateTimeFormat', () => {
  test('in UTC, the same as Intl', () => {
    const timeZone = 'UTC'
    const formatters = [ofDate, ofOffset].map((options) => ({
      ours: dateTimeFormat('en-US', { ...options, timeZone }),
      theirs: new Intl.DateTimeFormat('en-US', { ...options, timeZone }),
    }))
    const types = [['year', 'month', 'day', 'hour', 'minute', 'second', 'weekday'], ['timeZoneName']]
    const instants = fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true })
    const examples = ['2024-02-29T00:00:00Z', '2026-12-31T23:59:59.999Z', '2027-01-01T00:00:00Z']
    fc.assert(
      fc.property(instants, (date) => {
        for (const [index, { ours, theirs }] of formatters.entries()) {
          expect(read(ours, date, types[index] ?? [])).toEqual(read(theirs, date, types[index] ?? []))
        }
      }),
      { examples: examples.map((text) => [new Date(text)]) },
    )
  })

  test('in another zone it is Intl', () => {
    expect(dateTimeFormat('en-US', { ...ofDate, timeZone: 'Asia/Kolkata' })).toBeInstanceOf(Intl.DateTimeFormat)
  })
})
