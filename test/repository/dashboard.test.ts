// The dashboard keeps the rules that make it work in anybody's Grafana: no data source of its own, every panel described and measured.
import { describe, expect, test } from 'vitest'
import { fillIn, panelsOf, readDashboard, type Dashboard, type GridPosition, type Panel } from './dashboard.ts'

const source = { type: 'prometheus', uid: '${datasource}' }
const columns = 24

function overlap(a: GridPosition, b: GridPosition): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
}

/** Values of this property anywhere in the document, with the path to each. */
function everywhere(value: unknown, name: string, path = ''): [string, unknown][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]): [string, unknown][] => [
    ...(key === name ? [[`${path}.${key}`, inner] as [string, unknown]] : []),
    ...everywhere(inner, name, `${path}.${key}`),
  ])
}

function problemsOfQuery({ expr }: { expr: string }): string[] {
  const selectors = [...expr.matchAll(/\b(?:webhook_reconciler|process|nodejs)[\w:]*(\{[^}]*\})?/g)]
  return [
    ...(selectors.length === 0 ? ['a query asks for no metric'] : []),
    ...selectors.flatMap(([found, matchers = '']) =>
      matchers.includes('job=~"$job"') && matchers.includes('instance=~"$instance"')
        ? []
        : [`${found} is not limited to $job and $instance`],
    ),
    ...[...expr.matchAll(/\[([^\]]*)\]/g)].flatMap(([, range]) =>
      range === '$__rate_interval' ? [] : [`the range ${range ?? ''} is not $__rate_interval`],
    ),
    ...(fillIn(expr, '1m').includes('$') ? ['a query has an unknown variable'] : []),
  ]
}

function problemsOfPanel({ title = '', description = '', fieldConfig, targets = [] }: Panel): string[] {
  const refIds = targets.map(({ refId }) => refId)
  return [
    ...(title.trim() === '' ? ['no title'] : []),
    ...(/\w.*\.$/.test(description) ? [] : ['no description']),
    ...((fieldConfig?.defaults.unit ?? '') === '' ? ['no unit'] : []),
    ...(targets.length === 0 ? ['no query'] : []),
    ...(new Set(refIds).size === refIds.length ? [] : ['two queries with the same refId']),
    ...targets.flatMap(({ legendFormat = '' }) => (legendFormat === '' ? ['a query without a legend'] : [])),
    ...targets.flatMap(problemsOfQuery),
  ]
}

function problemsOfGrid(panels: readonly Panel[]): string[] {
  const ids = panels.map(({ id }) => id)
  return [
    ...(new Set(ids).size === ids.length ? [] : ['two panels with the same id']),
    ...panels.flatMap(({ title = '', gridPos: { x, w, h } }) =>
      x >= 0 && w > 0 && h > 0 && x + w <= columns ? [] : [`${title} does not lie in the grid`],
    ),
    ...panels.flatMap((a, index) =>
      panels
        .slice(index + 1)
        .flatMap((b) => (overlap(a.gridPos, b.gridPos) ? [`${a.title ?? ''} overlaps ${b.title ?? ''}`] : [])),
    ),
  ]
}

/** Every `datasource` but the variable's own list goes by the one variable. */
function problemsOfSource(dashboard: Dashboard): string[] {
  const variables = dashboard.templating.list.filter(({ type }) => type === 'datasource')
  return [
    ...(variables.length === 1 && variables[0]?.name === 'datasource' ? [] : ['not one variable "datasource"']),
    ...everywhere(dashboard, 'datasource').flatMap(([path, value]) =>
      JSON.stringify(value) === JSON.stringify(source) ? [] : [`${path} is not \${datasource}`],
    ),
    ...panelsOf(dashboard.panels).flatMap(({ title = '', datasource, targets = [] }) =>
      [datasource, ...targets.map((target) => target.datasource)].some((one) => one === undefined)
        ? [`${title} has no data source`]
        : [],
    ),
  ]
}

function problemsOf(dashboard: Dashboard): string[] {
  return [
    ...problemsOfSource(dashboard),
    ...problemsOfGrid(dashboard.panels),
    ...panelsOf(dashboard.panels).flatMap((panel) =>
      problemsOfPanel(panel).map((problem) => `${panel.title ?? panel.id}: ${problem}`),
    ),
  ]
}

const dashboard = readDashboard()

test('keeps the rules', () => {
  expect(problemsOf(dashboard)).toEqual([])
})

test('asks by data source, job and instance, each of the last two any number at once', () => {
  expect(dashboard.templating.list.map(({ name, type }) => [name, type])).toEqual([
    ['datasource', 'datasource'],
    ['job', 'query'],
    ['instance', 'query'],
  ])
  for (const variable of dashboard.templating.list.slice(1)) {
    expect(variable).toMatchObject({ multi: true, includeAll: true, allValue: '.*' })
  }
})

/** The panels below each row, by the row's title. */
function rowsOf({ panels }: Dashboard): Record<string, string[]> {
  const rows: Record<string, string[]> = {}
  let current: string[] = []
  for (const { type, title = '' } of [...panels].sort((a, b) => a.gridPos.y - b.gridPos.y)) {
    if (type === 'row') rows[title] = current = []
    else current.push(title)
  }
  return rows
}

test('is anyone hurt comes first, then the flow, the platform and the process', () => {
  const rows = rowsOf(dashboard)
  expect(Object.keys(rows)).toEqual(['Is anyone hurt?', 'Flow', 'Platform', 'Process', 'Instances'])
  expect(rows['Is anyone hurt?']).toEqual(
    expect.arrayContaining([
      'Oldest missing event',
      'Backlog by decision',
      'Why nothing goes out',
      'Expiring, not exhausted',
      'Last complete sweep',
      'Access token',
    ]),
  )
  expect(rows['Flow']).toEqual(
    expect.arrayContaining([
      'Retried, recovered, failed again',
      'Time to recover',
      'Estimated time until drained',
      'Circuits',
    ]),
  )
  expect(rows['Platform']).toEqual(expect.arrayContaining(['Latency', 'Calls by reason', 'Rate limit and throttle']))
})

describe('a dashboard that breaks a rule is found out', () => {
  /** The first panel that is no row. */
  function firstOf({ panels }: Dashboard): Panel {
    const [panel] = panelsOf(panels)
    if (panel === undefined) throw new Error('the dashboard has no panels')
    return panel
  }
  function changeQuery(panel: Panel, change: (expr: string) => string): void {
    for (const target of panel.targets ?? []) target.expr = change(target.expr)
  }
  const broken: Record<string, (panel: Panel, all: Dashboard) => void> = {
    'no title': (panel) => (panel.title = ''),
    'no description': (panel) => delete panel.description,
    'no unit': (panel) => delete panel.fieldConfig?.defaults.unit,
    'no query': (panel) => (panel.targets = []),
    'not limited': (panel) => {
      changeQuery(panel, (expr) => expr.replaceAll('job=~"$job",', ''))
    },
    'is not $__rate_interval': (panel) => {
      changeQuery(panel, (expr) => `rate(${expr}[5m])`)
    },
    'unknown variable': (panel) => {
      changeQuery(panel, (expr) => `${expr} > $limit`)
    },
    'is not ${datasource}': (panel) => (panel.datasource = { type: 'prometheus', uid: 'PBFA97CFB590B2093' }),
    'no data source': (panel) => delete panel.datasource,
    'not one variable': (_panel, all) => all.templating.list.shift(),
    'same id': (panel) => (panel.id = 10),
    overlaps: (panel) => (panel.gridPos.w += 1),
    'not lie in the grid': (panel) => (panel.gridPos.x = 23),
  }

  test.each(Object.entries(broken))('%s', (problem, breakIt) => {
    const changed = readDashboard()
    breakIt(firstOf(changed), changed)
    expect(problemsOf(changed).join('\n')).toContain(problem)
  })
})
