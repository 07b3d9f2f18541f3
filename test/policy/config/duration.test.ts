import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { formatDuration, parseDuration } from '../../../src/config/duration.ts'

describe('parseDuration', () => {
  test.each([
    ['0s', 0],
    ['1ms', 1],
    ['500ms', 500],
    ['30s', 30_000],
    ['5m', 300_000],
    ['6h', 21_600_000],
    ['3d', 259_200_000],
    ['007d', 604_800_000],
    ['90s', 90_000],
  ])('%s is %i ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  test.each([
    '',
    ' ',
    '30',
    '0',
    's',
    '-1s',
    '+1s',
    '1.5s',
    '1,5s',
    '1e3s',
    '0x1s',
    '1h30m',
    '1 s',
    ' 1s',
    '1s ',
    '1s\n',
    '1S',
    '1H',
    '1min',
    '1sec',
    '1w',
    '1y',
    '1M',
    'Infinitys',
    'NaNs',
    '١s',
    '1000000000000ms1',
    '9999999999999s',
    'P1D',
    'PT1S',
    '1µs',
    '1us',
    'null',
  ])('%j is none', (text) => {
    expect(parseDuration(text)).toBeUndefined()
  })
})

describe('formatDuration', () => {
  test.each([
    [0, '0s'],
    [1, '1ms'],
    [1500, '1500ms'],
    [90_000, '90s'],
    [3_600_000, '1h'],
    [604_800_000, '7d'],
  ])('%i ms is %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text)
  })

  test('is read back as the same number', () => {
    fc.assert(fc.property(fc.nat({ max: 10 ** 11 }), (ms) => parseDuration(formatDuration(ms)) === ms))
  })
})
