// The simulation judges alerts by an evaluator of its own: here promtool holds that it says the same of the shipped rules, minute by minute.
import { expect, test } from 'vitest'
import { createSequence } from '../../../sandbox/records/hash.ts'
import { createRules } from '../../support/promql/rules.ts'
import { success, unitTests } from './promtool.ts'
import { alertPrefix, expectedAt, testFile, toInput } from './scenario.ts'
import { scenarios } from './scenarios.ts'

/** Values by minute; undefined: the series is not there. */
type Values = readonly (number | undefined)[]

/** promtool's notation: `0+60x100`, `1x30`, `_x10`, `stale`. */
function expand(notation: string): Values {
  return notation.split(/\s+/).flatMap((part): Values => {
    const [, from = '', by = '0', times] = /^(_|stale|-?[\d.]+)([+-][\d.]+)?(?:x(\d+))?$/.exec(part) ?? []
    if (from === '_') return Array.from({ length: Number(times ?? 1) }, () => undefined)
    if (from === 'stale') return [undefined]
    return Array.from({ length: Number(times ?? 0) + 1 }, (_, index) => Number(from) + index * Number(by))
  })
}

interface Input {
  series: string
  values: string
}

/** The alerts that fire at each minute by our own evaluator, as often as there are targets with each. */
function firingOf(input: readonly Input[], minutes: number): readonly (readonly string[])[] {
  const rules = createRules()
  const all = input.map(({ series, values }) => [series, expand(values)] as const)
  return Array.from({ length: minutes }, (_, minute) => {
    const now = all.flatMap(([series, values]) => {
      const value = values[minute]
      return value === undefined ? [] : [[series, value] as const]
    })
    const alerts = rules.scrape(minute * 60_000, now)
    return alerts.map(({ alertname = '' }) => alertname.replace(alertPrefix, '')).sort()
  })
}

/** Every series of every scenario, each at random: it stays as it is for a while, and then moves, or is gone. */
function drawn(seed: number, minutes: number): Input[] {
  const sequence = createSequence(seed)
  const { pick } = sequence
  const names = new Set(scenarios.flatMap((scenario) => toInput(scenario).input.map(({ series }) => series)))
  return [...names].map((series) => {
    const values: (number | 'stale')[] = []
    let value: number = pick([0, 1])
    while (values.length < minutes) {
      const [length, isGone, step] = [1 + sequence.below(60), sequence.next() < 0.08, pick([0, 0, 1, 7])]
      if (series.includes('_total')) value = sequence.next() < 0.1 ? 0 : value
      else if (series.includes('timestamp'))
        value = pick([0, Math.max(0, 60 * values.length + pick([-9000, -4000, 200, 1_000_000]))])
      else value = pick([0, 0, 1, 3, 20, -700, 0.5])
      const by = series.includes('_total') ? step : series.includes('timestamp') && value > 0 ? 60 * pick([0, 1]) : 0
      for (let index = 0; index < length; index += 1) {
        values.push(isGone ? 'stale' : value)
        value += by
      }
    }
    return { series, values: values.slice(0, minutes).join(' ') }
  })
}

test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))('%s', (_name, scenario) => {
  const { input, minutes } = toInput(scenario)
  const firing = firingOf(input, minutes)
  for (const [minute, alerts] of Object.entries(scenario.firing))
    expect(firing[Number(minute)], `minute ${minute}`).toEqual([...alerts].sort())
})

test('promtool says the same of series that are drawn', async () => {
  const minutes = 240
  const files = Array.from({ length: 6 }, (_, seed) => {
    const input = drawn(seed + 1, minutes)
    const firing = firingOf(input, minutes)
    // Before and after each change: promtool takes long for each question.
    const isNews = (minute: number): boolean => String(firing[minute]) !== String(firing[minute - 1])
    const asked = firing.flatMap((alerts, minute) =>
      isNews(minute) || isNews(minute + 1) ? [[minute, alerts] as const] : [],
    )
    return testFile(input, { promql_expr_test: asked.map(([minute, alerts]) => expectedAt(minute, alerts)) })
  })
  const told = await unitTests(...files)
  expect(told.filter((text) => !success.test(text))).toEqual([])
})
