// One set of names: what the daemon exports, what the documents name, and what alert rules and dashboard ask for.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { processMetricNames } from '../../src/observe/process-metrics.ts'
import { metricDefinitions, metricPrefix, type MetricDefinition } from '../../src/observe/metrics.ts'

const root = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const dashboardFile = 'config/grafana/dashboard.json'
const documents = [
  'README.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
]

const definitions = Object.entries<MetricDefinition>(metricDefinitions)
const exported = new Set<string>([...definitions.map(([name]) => metricPrefix + name), ...processMetricNames])
const histograms = new Set([
  ...definitions.filter(([, { type }]) => type === 'histogram').map(([name]) => metricPrefix + name),
  'nodejs_gc_duration_seconds',
])

interface Asked {
  name: string
  /** The label matchers behind it, as written. */
  matchers: string
}

/** The metrics of a query: ours, and those of the process. Names of recording rules have a colon. */
function metricsOf(query: string): Asked[] {
  return [...query.matchAll(/(?<![\w:])((?:webhook_reconciler|process|nodejs)_\w+)(?![\w:])(?:\{([^}]*)\})?/g)].map(
    ([, name = '', matchers = '']) => ({ name, matchers }),
  )
}

/** The family that has this series. */
function familyOf(name: string): string {
  const family = name.replace(/_(?:bucket|sum|count)$/, '')
  return histograms.has(family) ? family : name
}

/** What is wrong with a query: names that are not exported, labels and values that no series has. */
function problemsOf(query: string): string[] {
  return metricsOf(query).flatMap(({ name, matchers }) => {
    const family = familyOf(name)
    if (!exported.has(family)) return [`${name} is not exported`]
    const own = definitions.find(([known]) => metricPrefix + known === family)?.[1]
    if (own === undefined) return []
    return [...matchers.matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g)].flatMap(
      ([, label = '', operator = '', text = '']) => {
        if (label === 'job' || label === 'instance' || label === 'le') return []
        const values = own.labels?.[label]
        if (values === undefined) return [`${name} has no label ${label}`]
        const asked = operator.includes('~') ? text.split('|') : [text]
        return asked.filter((value) => !values.includes(value)).map((value) => `${name} has no ${label} "${value}"`)
      },
    )
  })
}

const { groups } = parse(read('config/prometheus/alerts.yaml')) as {
  groups: { rules: { alert?: string; record?: string; expr: string }[] }[]
}
const rules = groups.flatMap((group) => group.rules)
const recorded = new Set(rules.flatMap(({ record }) => (record === undefined ? [] : [record])))

function unknownRecordings(query: string): string[] {
  const names = [...query.matchAll(/(?<!\w)webhook_reconciler:[\w:]+/g)].map(([name]) => name)
  return names.filter((name) => !recorded.has(name)).map((name) => `${name} is not recorded`)
}

test('a wrong query would be found out', () => {
  const wrong = [
    'sum(webhook_reconciler_sweep_total)',
    'webhook_reconciler_circuits{stat="open"}',
    'webhook_reconciler_circuits{state=~"open|ajar"}',
    'rate(webhook_reconciler_awaiting_webhooks_count[5m])',
    'nodejs_eventloop_lag_seconds',
  ]
  for (const query of wrong) expect(problemsOf(query), query).toHaveLength(1)
  expect(unknownRecordings('webhook_reconciler:nothing > 0')).toHaveLength(1)
  expect(problemsOf('rate(webhook_reconciler_sweep_duration_seconds_bucket{kind="full",le="5"}[5m])')).toEqual([])
})

test.each(rules.map((rule) => [rule.alert ?? rule.record ?? '', rule.expr] as const))('rule %s', (_name, expr) => {
  expect([...problemsOf(expr), ...unknownRecordings(expr)]).toEqual([])
})

describe('the documents', () => {
  const page = read('docs/metrics.md')

  test.each(documents)('%s names no metric that there is not', (file) => {
    const prose = read(file).replace(/<!-- generated: metrics -->[^]*?<!-- \/generated -->/, '')
    expect([...problemsOf(prose), ...unknownRecordings(prose)]).toEqual([])
  })

  test('every recording rule is explained', () => {
    for (const record of recorded) expect(page).toContain(`\`${record}\``)
  })
})

interface Panel {
  title?: string
  panels?: Panel[]
  targets?: { expr?: string }[]
}

function queriesOf(panels: readonly Panel[]): string[] {
  return panels.flatMap(({ targets = [], panels: inner = [] }) => [
    ...targets.flatMap(({ expr }) => (expr === undefined ? [] : [expr])),
    ...queriesOf(inner),
  ])
}

test('dashboard', () => {
  const { panels } = JSON.parse(read(dashboardFile)) as { panels: Panel[] }
  const queries = queriesOf(panels)
  expect(queries.length).toBeGreaterThan(5)
  for (const query of queries) expect([...problemsOf(query), ...unknownRecordings(query)], query).toEqual([])
})
