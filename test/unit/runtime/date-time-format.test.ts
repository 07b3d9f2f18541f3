// The bundle's stand-in for Intl in UTC: node-cron reads from it what it would read from Intl.
import fc from 'fast-check'
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

test('in UTC, each part is that of Intl', () => {
  const ours = dateTimeFormat('en-US', { timeZone: 'UTC' })
  const theirs = [ofDate, ofOffset].map((options) => new Intl.DateTimeFormat('en-US', { ...options, timeZone: 'UTC' }))
  const dates = fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true })
  const examples = ['2024-02-29T00:00:00Z', '2026-12-31T23:59:59.999Z', '2027-01-01T00:00:00Z']
  fc.assert(
    fc.property(dates, (date) => {
      const parts = Object.fromEntries(ours.formatToParts(date).map((part) => [part.type, read(part)]))
      const expected = theirs
        .flatMap((formatter) => formatter.formatToParts(date))
        .filter(({ type }) => type !== 'literal')
      expect(parts).toEqual(Object.fromEntries(expected.map((part) => [part.type, read(part)])))
    }),
    { examples: examples.map((text) => [new Date(text)]) },
  )
})

test('in another zone it is Intl', () => {
  expect(dateTimeFormat('en-US', { timeZone: 'Asia/Kolkata' })).toBeInstanceOf(Intl.DateTimeFormat)
})
