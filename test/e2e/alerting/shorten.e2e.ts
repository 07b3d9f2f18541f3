// The shortened rules are the shipped ones in all but their times. Runs with `npm test`.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { promtool } from '../prometheus/promtool.ts'
import { makeFolder } from '../../support/process.ts'
import { durationMs, shortenExpression, shortenRules } from './shorten.ts'

const shipped = readFileSync(join(import.meta.dirname, '../../../config/prometheus/alerts.yaml'), 'utf8')
const shortening = { factor: 10, leastMs: 2000 }

test.each([
  ['increase(things_total[10m]) > 0', 'increase(things_total[60000ms]) > 0'],
  ['avg_over_time((things > bool 0)[15m:1m]) > 0.5', 'avg_over_time((things > bool 0)[90000ms:6000ms]) > 0.5'],
  ['things > (things{kind="a"} offset 1h30m)', 'things > (things{kind="a"} offset 540000ms)'],
  ['rate(things_total[5s])', 'rate(things_total[2000ms])'],
  ['things{text="[10m] offset 1h"} < 30 * 86400', 'things{text="[10m] offset 1h"} < 30 * 86400'],
])('%s', (expr, expected) => {
  expect(shortenExpression(expr, shortening)).toBe(expected)
})

test('what is no duration is refused', () => {
  for (const text of ['', '5', '5m ', '5x', 'm5']) expect(() => durationMs(text), text).toThrow(/no duration/)
})

/** Every duration of a rules file in its order, in ms. Names and texts for people are no part of it. */
function timesOf(text: string): number[] {
  const rules = text.replace(/^ *(?:summary|description|runbook_url|- record|#).*$/gm, '')
  return [...rules.matchAll(/(?<![\w.])(?:\d+(?:ms|[smhdwy]))+(?!\w)/g)].map(([duration]) => durationMs(duration))
}

test('the shipped rules: every time is shortened, nothing else is changed, and promtool takes them', async () => {
  const shortened = shortenRules(shipped, { factor: 10, leastMs: 1 })
  const times = timesOf(shipped)
  expect(times.length).toBeGreaterThan(40)
  expect(timesOf(shortened)).toEqual(times.map((ms) => ms / 10))
  const unchanged = shortenRules(shipped, { factor: 1, leastMs: 1 })
  const spaceless = (text: string): string => text.replaceAll(/\d+ms|[\s\\]/g, '')
  expect(spaceless(shortened)).toBe(spaceless(unchanged))

  await using folder = await makeFolder()
  const { code, output } = await promtool(['check', 'rules', await folder.write('rules.yaml', shortened)])
  expect(code, output).toBe(0)
})
