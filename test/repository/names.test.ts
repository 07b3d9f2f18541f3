// One set of names: what the daemon exports, what the documents name, and what alert rules and dashboard ask for.
import { expect, test } from 'vitest'
import { processMetricNames } from '../../src/observe/process-metrics.ts'
import { metricDefinitions, metricPrefix, type MetricDefinition } from '../../src/observe/metrics.ts'
import { readShippedRules } from '../support/promql/rules.ts'
import { panelsOf, readDashboard } from './dashboard.ts'
import { filesIn, read } from './texts.ts'

const definitions = new Map(
  Object.entries<MetricDefinition>(metricDefinitions).map(([name, definition]) => [metricPrefix + name, definition]),
)
const exported = new Set<string>([...definitions.keys(), ...processMetricNames])

const rules = readShippedRules(read('config/prometheus/alerts.yaml'))
const recorded = new Set(rules.flatMap(({ record }) => record ?? []))

/** The family that has this series. */
function familyOf(name: string): string {
  const family = name.replace(/_(?:bucket|sum|count)$/, '')
  const isHistogram = definitions.get(family)?.type === 'histogram'
  return isHistogram ? family : name
}

/** Labels that no series of this metric has, and values that they do not take. */
function problemsOfLabels(name: string, matchers: string): string[] {
  const own = definitions.get(familyOf(name))
  if (own === undefined) return []
  return [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"/g)].flatMap(([, label = '', values = '']) => {
    if (label === 'job' || label === 'instance' || label === 'le') return []
    const known = own.labels?.[label]
    if (known === undefined) return [`${name} has no label ${label}`]
    // Its values come at run time.
    if (known.length === 0) return []
    return values.split('|').flatMap((value) => (known.includes(value) ? [] : [`${name} has no ${label} "${value}"`]))
  })
}

/** What is wrong with a query: names that are not exported or recorded, labels and values that no series has. */
function problemsOf(query: string): string[] {
  const names = /(?<![\w:])((?:webhook_reconciler|process|nodejs)[_:][\w:]+)(?:\{([^}]*)\})?/g
  return [...query.matchAll(names)].flatMap(([, name = '', matchers = '']) => {
    if (name.includes(':')) return recorded.has(name) ? [] : [`${name} is not recorded`]
    return exported.has(familyOf(name)) ? problemsOfLabels(name, matchers) : [`${name} is not exported`]
  })
}

test.each([
  'sum(webhook_reconciler_sweep_total)',
  'webhook_reconciler_circuits{stat="open"}',
  'webhook_reconciler_circuits{state=~"open|ajar"}',
  'rate(webhook_reconciler_awaiting_webhooks_count[5m])',
  'nodejs_eventloop_lag_seconds',
  'webhook_reconciler:nothing > 0',
])('a wrong query is found out: %s', (query) => {
  expect(problemsOf(query)).toHaveLength(1)
})

test.each(rules.map((rule) => [rule.alert ?? rule.record ?? '', rule.expr]))('rule %s', (_name, expr) => {
  expect(problemsOf(expr)).toEqual([])
})

test.each(['README.md', ...filesIn('docs', ['.md'])])('%s names no metric that there is not', (file) => {
  expect(problemsOf(read(file).replace(/<!-- generated: metrics -->[^]*?<!-- \/generated -->/, ''))).toEqual([])
})

test('every recording rule is explained', () => {
  for (const record of recorded) expect(read('docs/metrics.md')).toContain(`\`${record}\``)
})

test('dashboard', () => {
  const queries = panelsOf(readDashboard().panels).flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  expect(queries.length).toBeGreaterThan(5)
  expect(queries.flatMap(problemsOf)).toEqual([])
})
