// The registry: every metric is there from the start, named as Prometheus wants it, with labels that can't grow.
import { aStatusState } from '../../support/status.ts'
import { describe, expect, test } from 'vitest'
import { processMetricNames } from '../../../src/observe/process-metrics.ts'
import { createMetrics, type Metrics } from '../../../src/observe/registry.ts'
import { metricDefinitions, metricPrefix, type MetricDefinition } from '../../../src/observe/metrics.ts'
import { parseExposition, type Family } from '../../support/exposition.ts'

const definitions = Object.entries<MetricDefinition>(metricDefinitions)

async function families(metrics: Metrics): Promise<Map<string, Family>> {
  return parseExposition(await metrics.text())
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
    if (definition.presence === 'when-set') expect(values).toEqual([])
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

  test('each registry is its own: two in one process do not meet', async () => {
    const [one, other] = [createMetrics({ processMetrics: true }), createMetrics({ processMetrics: true })]
    one.add('sweeps_total', { kind: 'full', result: 'complete' })
    expect([...(await familyOf(one, 'sweeps_total')).samples.values()]).toContain(1)
    expect([...(await familyOf(other, 'sweeps_total')).samples.values()]).not.toContain(1)
  })
})

describe('names and labels', () => {
  test.each(definitions)('%s follows the naming rules', (name, { type, help, labels = {} }) => {
    expect(metricPrefix + name).toMatch(/^webhook_reconciler_[a-z]+(?:_[a-z]+)*$/)
    expect(name.endsWith('_total')).toBe(type === 'counter')
    if (type === 'histogram') expect(name).toMatch(/_seconds$/)
    // Times and durations are in seconds, and say so.
    if (/timestamp|duration|skew|offset|target|estimated/.test(name)) expect(name).toMatch(/_seconds$/)
    expect(help).toMatch(/^[A-Z].*\.$/)
    for (const label of Object.keys(labels)) expect(label).toMatch(/^[a-z]+(?:_[a-z]+)*$/)
  })

  test.each(definitions)('%s has a bounded number of series', (name, definition) => {
    for (const [label, values] of Object.entries(definition.labels ?? {})) {
      expect(new Set(values).size, label).toBe(values.length)
      // Neither the versions nor the lease change while the process lives.
      if (!['build_info', 'leader'].includes(name)) expect(values.length, label).toBeGreaterThan(0)
      for (const value of values) expect(value).toMatch(/^[a-z]+(?:-[a-z]+)*$/)
    }
    // 4 operations with 15 reasons are the most.
    expect(combinations(definition)).toBeLessThanOrEqual(60)
  })
})

describe('histograms', () => {
  test.each(definitions.filter(([, { type }]) => type === 'histogram'))(
    '%s has rising buckets',
    (_, { buckets = [] }) => {
      expect(buckets.length).toBeGreaterThan(5)
      expect([...new Set(buckets)].toSorted((a, b) => a - b)).toEqual(buckets)
    },
  )

  test.each([
    ['recovery_duration_seconds', 60, 7 * 86_400],
    ['retry_to_outcome_seconds', 0.1, 3_600],
  ] as const)('%s reaches from %d to %d seconds', (name, from, to) => {
    const { buckets } = metricDefinitions[name]
    expect([buckets.at(0), buckets.at(-1)]).toEqual([from, to])
  })
})

describe('writing', () => {
  test('counts up, sets, and measures', async () => {
    const metrics = createMetrics({ processMetrics: false })
    metrics.add('retries_total', { result: 'accepted' })
    metrics.add('retries_total', { result: 'accepted' }, 4)
    metrics.add('unreadable_records_total', {}, 0)
    metrics.show(aStatusState({ stuckProcessing: 7, skewMs: { auth: 0, api: -1500 } }))
    metrics.observe('sweep_duration_seconds', 61, { kind: 'full' })
    const text = await metrics.text()
    for (const line of [
      'retries_total{result="accepted"} 5',
      'unreadable_records_total 0',
      'stuck_processing_webhooks 7',
      'clock_skew_seconds{origin="api"} -1.5',
      'sweep_duration_seconds_bucket{le="60",kind="full"} 0',
      'sweep_duration_seconds_bucket{le="300",kind="full"} 1',
      'sweep_duration_seconds_sum{kind="full"} 61',
    ]) {
      expect(text).toContain(`\n${metricPrefix}${line}\n`)
    }
  })

  test('a version with odd characters is still one line', async () => {
    const build = { instance_name: 'a', version: '1.0.0-"x"\n\\', node_version: 'v26' }
    const metrics = createMetrics({ processMetrics: false, build })
    expect([...(await familyOf(metrics, 'build_info')).samples.values()]).toEqual([1])
  })
})
