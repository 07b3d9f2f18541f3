// The registry: every metric is there from the start, named as Prometheus wants it, with labels that can't grow.
import { describe, expect, test } from 'vitest'
import { processMetricNames } from '../../../src/observe/process-metrics.ts'
import { createMetrics, type Metrics } from '../../../src/observe/registry.ts'
import { metricDefinitions, metricPrefix, type MetricDefinition } from '../../../src/observe/metrics.ts'
import { parseExposition, type Family } from '../../support/samples.ts'
import { aStatusState } from '../../support/status.ts'

const empty = aStatusState({ now: 0, rateLimit: 0, rateMaximum: 0 })
const definitions = Object.entries<MetricDefinition>(metricDefinitions)

async function families(metrics: Metrics): Promise<Map<string, Family>> {
  return parseExposition(await metrics.text(empty))
}

async function familyOf(metrics: Metrics, name: string): Promise<Family> {
  const family = (await families(metrics)).get(metricPrefix + name)
  expect(family).toBeDefined()
  return family ?? { type: '', help: '', samples: new Map() }
}

function combinations(definition: MetricDefinition): number {
  return Object.values(definition.labels ?? {}).reduce((product, values) => product * values.length, 1)
}

describe('at the start', () => {
  test.each(definitions)('%s has its help, its type and all its series', async (name, definition) => {
    const { type, help, samples } = await familyOf(createMetrics({ processMetrics: false }), name)
    expect({ type, help }).toEqual({ type: definition.type, help: definition.help })
    const values = [...samples.values()]
    if (definition.read !== undefined && definition.read(empty) === undefined) expect(values).toEqual([])
    else if (definition.type === 'histogram') {
      const buckets = (definition.buckets?.length ?? 0) + 1
      expect(values).toHaveLength(combinations(definition) * (buckets + 2))
    } else expect(values).toHaveLength(combinations(definition))
    expect(values.every((value) => value === 0)).toBe(true)
  })

  test('nothing else is there but what was asked for', async () => {
    const own = await families(createMetrics({ processMetrics: false }))
    expect([...own.keys()]).toEqual(definitions.map(([name]) => metricPrefix + name))
    const all = await families(createMetrics({ processMetrics: true }))
    expect([...all.keys()].slice(own.size)).toEqual(processMetricNames)
  })
})

test.each(definitions)('%s follows the naming rules, and has a bounded number of series', (name, definition) => {
  const { buckets = [], help, labels = {}, type } = definition
  expect(metricPrefix + name).toMatch(/^webhook_reconciler_[a-z]+(?:_[a-z]+)*$/)
  expect(name.endsWith('_total')).toBe(type === 'counter')
  // Times and durations are in seconds, and say so.
  if (type === 'histogram' || /timestamp|duration|skew|offset|target|estimated/.test(name))
    expect(name).toMatch(/_seconds$/)
  expect(help).toMatch(/^[A-Z].*\.$/)
  // None is too wide for a quantile, none without use.
  const ratios = buckets.slice(1).map((bucket, index) => bucket / (buckets[index] ?? NaN))
  for (const ratio of ratios) expect(ratio).toSatisfy((value: number) => value > 1.7 && value <= 5)
  for (const [label, values] of Object.entries(labels)) {
    expect(label).toMatch(/^[a-z]+(?:_[a-z]+)*$/)
    expect(new Set(values).size, label).toBe(values.length)
    for (const value of values) expect(value).toMatch(/^[a-z]+(?:-[a-z]+)*$/)
  }
  // 4 operations with 15 reasons are the most.
  expect(combinations(definition)).toBeLessThanOrEqual(80)
})

test('a recovery is measured from a minute to a week, an outcome from 100 ms to an hour; each counts from its bucket on', async () => {
  const metrics = createMetrics({ processMetrics: false })
  metrics.observe('sweep_duration_seconds', 61, { kind: 'full' })
  const buckets = (await familyOf(metrics, 'sweep_duration_seconds')).samples
  const bucket = (le: number): number | undefined =>
    buckets.get(`${metricPrefix}sweep_duration_seconds_bucket{le="${le}",kind="full"}`)
  expect([bucket(60), bucket(300)]).toEqual([0, 1])
  const edges = (name: 'recovery_duration_seconds' | 'retry_to_outcome_seconds'): (number | undefined)[] =>
    [0, -1].map((index) => metricDefinitions[name].buckets.at(index))
  expect(edges('recovery_duration_seconds')).toEqual([60, 7 * 86_400])
  expect(edges('retry_to_outcome_seconds')).toEqual([0.1, 3_600])
})
