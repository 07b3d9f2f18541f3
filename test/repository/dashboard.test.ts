// The dashboard keeps the rules that make it work in anybody's Grafana: no data source of its own, every panel described and measured.
import { expect, test } from 'vitest'
import { fillIn, panelsOf, readDashboard, type Dashboard, type Panel } from './dashboard.ts'

const source = { type: 'prometheus', uid: '${datasource}' }

/** Values of this property anywhere in the document. */
function everywhere(value: unknown, name: string): unknown[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) => [
    ...(key === name ? [inner] : []),
    ...everywhere(inner, name),
  ])
}

function problemsOfQuery({ expr }: { expr: string }): string[] {
  const selectors = [...expr.matchAll(/\b(webhook_reconciler|process|nodejs|ALERTS)[\w:]*(?:\{([^}]*)\})?/g)]
  // An alert of a target that vanished has no instance.
  const isLimited = selectors.every(
    ([, metric, matchers = '']) =>
      matchers.includes('job=~"$job"') && (metric === 'ALERTS' || matchers.includes('instance=~"$instance"')),
  )
  return [
    ...(selectors.length === 0 ? ['no metric'] : []),
    ...(isLimited ? [] : ['not limited to $job and $instance']),
    ...(/\[(?!\$__rate_interval\])/.test(expr) ? ['a range that is not $__rate_interval'] : []),
    ...(fillIn(expr, '1m').includes('$') ? ['an unknown variable'] : []),
  ]
}

function problemsOfPanel({ datasource, title = '', description = '', fieldConfig, targets = [] }: Panel): string[] {
  return [
    ...(title.trim() === '' ? ['no title'] : []),
    ...(/\w.*\.$/.test(description) ? [] : ['no description']),
    ...((fieldConfig?.defaults.unit ?? '') === '' ? ['no unit'] : []),
    ...(targets.length === 0 ? ['no query'] : []),
    ...(targets.some(({ legendFormat = '' }) => legendFormat === '') ? ['a query without a legend'] : []),
    ...([{ datasource }, ...targets].some((one) => one.datasource === undefined) ? ['no data source'] : []),
    ...targets.flatMap(problemsOfQuery),
  ]
}

function problemsOf(dashboard: Dashboard): string[] {
  const foreign = everywhere(dashboard, 'datasource').filter((one) => JSON.stringify(one) !== JSON.stringify(source))
  const panels = panelsOf(dashboard.panels)
  return [
    ...foreign.map((one) => `a data source of its own: ${JSON.stringify(one)}`),
    ...(new Set(panels.map(({ id }) => id)).size === panels.length ? [] : ['two panels with the same id']),
    ...dashboard.annotations.list.flatMap((one) => problemsOfQuery(one).map((problem) => `${one.name}: ${problem}`)),
    ...panels.flatMap((panel) => problemsOfPanel(panel).map((problem) => `${panel.title ?? panel.id}: ${problem}`)),
  ]
}

test('keeps the rules', () => {
  expect(problemsOf(readDashboard())).toEqual([])
})

test('asks by data source, job, name and instance, each of the last three any number at once', () => {
  const many = { type: 'query', multi: true, includeAll: true }
  const { list } = readDashboard().templating
  expect(list).toMatchObject([
    { name: 'datasource', type: 'datasource' },
    { name: 'job', ...many, allValue: '.*' },
    { name: 'name', ...many, allValue: '.*' },
    { name: 'instance', ...many },
    { name: 'runbook', type: 'query' },
  ])
  // All instances are those of the chosen names.
  expect(list[3]).not.toHaveProperty('allValue')
})

test.each<[problem: string, breakIt: (panel: Panel) => unknown]>([
  ['no title', (panel) => (panel.title = '')],
  ['no description', (panel) => delete panel.description],
  ['no unit', (panel) => delete panel.fieldConfig?.defaults.unit],
  ['no query', (panel) => (panel.targets = [])],
  ['no data source', (panel) => delete panel.datasource],
  ['a data source of its own', (panel) => (panel.datasource = { type: 'prometheus', uid: 'PBFA97CFB590B2093' })],
  ['two panels with the same id', (panel) => (panel.id = 10)],
])('a dashboard that breaks a rule is found out: %s', (problem, breakIt) => {
  const changed = readDashboard()
  for (const panel of panelsOf(changed.panels).slice(0, 2)) breakIt(panel)
  expect(problemsOf(changed).join('\n')).toContain(problem)
})

test.each([
  ['not limited', 'sum(webhook_reconciler_circuits)'],
  ['a range that is not $__rate_interval', 'rate(process_cpu_seconds_total{job=~"$job",instance=~"$instance"}[5m])'],
  ['an unknown variable', 'webhook_reconciler_circuits{job=~"$job",instance=~"$instance"} > $limit'],
])('a query that breaks a rule is found out: %s', (problem, expr) => {
  expect(problemsOfQuery({ expr })).toEqual([expect.stringContaining(problem)])
})
