// Durations as people write them, and back.
import { expect, test } from 'vitest'
import { formatDuration, parseDuration } from '../../../src/config/duration.ts'

const written = {
  '0s': 0,
  '500ms': 500,
  '1500ms': 1500,
  '30s': 30_000,
  '5m': 300_000,
  '6h': 21_600_000,
  '7d': 604_800_000,
}

test.each(Object.entries(written))('%s is %i ms', (text, ms) => {
  expect(parseDuration(text)).toBe(ms)
  expect(formatDuration(ms)).toBe(text)
})

test.each([
  ...['', '30', 's', '-1s', '1.5s', '1h30m', '1 s', ' 1s', '1s\n', '1H', '1w', '1us', '1e3s', '0x1s', '١s'],
  ...['Infinitys', '1000000000000ms1', '9999999999999s', 'PT1S'],
])('%j is none', (text) => {
  expect(parseDuration(text)).toBeUndefined()
})
