// Zone-less date-times: daylight saving, odd offsets, and every way of writing fractions.
import { expect, test } from 'vitest'
import { createZone, localText, parseLocalSeconds } from '../../../sandbox/records/zone.ts'

test.each([
  ['UTC', '2025-03-04T05:06:07.008Z', '2025-03-04T05:06:07.008000'],
  ['Europe/Berlin', '2025-01-01T00:00:00Z', '2025-01-01T01:00:00.000000'],
  ['Europe/Berlin', '2025-03-30T00:59:59.999Z', '2025-03-30T01:59:59.999000'],
  ['Europe/Berlin', '2025-03-30T01:00:00Z', '2025-03-30T03:00:00.000000'],
  ['Europe/Berlin', '2025-10-26T00:30:00Z', '2025-10-26T02:30:00.000000'],
  ['Europe/Berlin', '2025-10-26T01:30:00Z', '2025-10-26T02:30:00.000000'],
  ['Asia/Kolkata', '2025-06-01T20:00:00Z', '2025-06-02T01:30:00.000000'],
  ['America/New_York', '2025-11-02T06:00:00Z', '2025-11-02T01:00:00.000000'],
  ['Pacific/Apia', '2011-12-30T10:30:00Z', '2011-12-31T00:30:00.000000'],
])('%s at %s reads %s', (name, instant, text) => {
  expect(localText(createZone(name).local(Date.parse(instant)), 'micro')).toBe(text)
})

test('one zone answers in any order of instants', () => {
  const zone = createZone('Europe/Berlin')
  const hour = 3_600_000
  const change = Date.parse('2025-03-30T01:00:00Z')
  const offsets = [change, change - 1, change + hour, change - hour, change].map((at) => zone.local(at) / 1000 - at)
  expect(offsets).toEqual([2 * hour, hour, 2 * hour, hour, 2 * hour])
})

test('a zone that is not known is refused', () => {
  expect(() => createZone('Mars/Olympus')).toThrow(RangeError)
})

test.each([
  [123_456, 'micro', '.123456'],
  [0, 'micro', '.000000'],
  [123_456, 'nano', '.123456000'],
  [123_000, 'grouped', '.123'],
  [123_450, 'grouped', '.123450'],
  [0, 'grouped', ''],
  [120_000, 'trimmed', '.12'],
  [1, 'trimmed', '.000001'],
  [0, 'trimmed', ''],
] as const)('%d microseconds written %s end with "%s"', (micros, fraction, end) => {
  const second = Date.parse('2025-03-04T05:06:07Z') * 1000
  expect(localText(second + micros, fraction)).toBe(`2025-03-04T05:06:07${end}`)
})

test('microseconds given as fractions of milliseconds survive', () => {
  const at = Date.parse('2025-03-04T05:06:07Z')
  for (const micros of [1, 999, 123_457, 999_999]) {
    expect(createZone('UTC').local(at + micros / 1000)).toBe(at * 1000 + micros)
  }
})

test.each([
  ['2025-03-04T05:06:07', Date.parse('2025-03-04T05:06:07Z') * 1000],
  ['2024-02-29T00:00:00', Date.parse('2024-02-29T00:00:00Z') * 1000],
  ['2025-02-29T00:00:00', undefined],
  ['2025-02-30T00:00:00', undefined],
  ['2025-13-01T00:00:00', undefined],
  ['2025-03-04T24:00:00', undefined],
  ['2025-03-04T05:06', undefined],
  ['2025-03-04T05:06:07.5', undefined],
  ['2025-03-04T05:06:07Z', undefined],
  ['2025-03-04 05:06:07', undefined],
  ['', undefined],
])('the parameter "%s" reads %s', (text, micros) => {
  expect(parseLocalSeconds(text)).toBe(micros)
})
