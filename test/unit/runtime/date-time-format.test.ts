// The bundle's stand-in for Intl in UTC: node-cron reads from it what it would read from Intl.
import { expect, test } from 'vitest'
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

/** What node-cron makes of a part: it reads numbers as numbers, and hour 24 as 0. */
function read({ type, value }: Intl.DateTimeFormatPart): unknown {
  if (!/^\d+$/.test(value)) return value
  return type === 'hour' ? Number(value) % 24 : Number(value)
}

test.each(['1970-01-01T00:00:00Z', '2024-02-29T00:00:00Z', '2026-12-31T23:59:59.999Z', '2027-01-01T09:08:07Z'])(
  'of %s in UTC, each part is that of Intl',
  (text) => {
    const parts = dateTimeFormat('en-US', { timeZone: 'UTC' }).formatToParts(new Date(text))
    const expected = [ofDate, ofOffset]
      .flatMap((options) =>
        new Intl.DateTimeFormat('en-US', { ...options, timeZone: 'UTC' }).formatToParts(new Date(text)),
      )
      .filter(({ type }) => type !== 'literal')
    const byType = (all: Intl.DateTimeFormatPart[]): unknown =>
      Object.fromEntries(all.map((part) => [part.type, read(part)]))
    expect(byType(parts)).toEqual(byType(expected))
  },
)

test('another zone is a bug', () => {
  expect(() => dateTimeFormat('en-US', { timeZone: 'Asia/Kolkata' })).toThrow('knows UTC alone')
})
