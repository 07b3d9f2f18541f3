// `npm run generate` writes derived files: from the schema config/default.yaml, config/schema.json and the tables of docs/,
// from config/prometheus the PrometheusRule, from config/grafana a ConfigMap, and the list of names that follow SemVer.
// With --check it writes nothing, and fails with the names of stale files.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Scalar, stringify } from 'yaml'
import { z } from 'zod'
import type { Key } from '../src/config/key.ts'
import { keys, schema } from '../src/config/schema.ts'
import { logEvents, type LogEvent } from '../src/observe/log/log-events.ts'
import { ruleTable } from '../src/reconcile/reasons.ts'
import { gateNames, gateTable } from '../src/reconcile/retry/gates.ts'
import { metricDefinitions, metricPrefix, type MetricDefinition } from '../src/observe/metrics.ts'
import { renderPublicApi, typesOf } from './public-api.ts'

const rulesFile = 'config/prometheus/alerts.yaml'
const dashboardFile = 'config/grafana/dashboard.json'

/** A generated file, or part of one. */
export interface Target {
  /** Path from the repository's root. */
  file: string
  /** The new text of the file, given the current one (undefined: no such file), or a problem. */
  render(current: string | undefined): { text: string } | { problem: string }
}

/** A completely generated file. */
export function wholeFile(file: string, text: () => string): Target {
  return { file, render: () => ({ text: text() }) }
}

/** The part of a Markdown file between the marks `<!-- generated: name -->` and `<!-- /generated -->`. */
export function markdownPart(file: string, name: string, text: () => string): Target {
  const [begin, end] = [`<!-- generated: ${name} -->`, '<!-- /generated -->']
  return {
    file,
    render(current) {
      if (current === undefined) return { problem: 'there is no such file' }
      const from = current.indexOf(begin)
      const to = current.indexOf(end, from)
      if (from < 0 || to < 0)
        return { problem: `the marks ${begin} and ${end} are missing: put them where the table belongs` }
      const [head, tail] = [current.slice(0, from + begin.length), current.slice(to)]
      return { text: `${head}\n<!-- prettier-ignore-start -->\n\n${text()}\n<!-- prettier-ignore-end -->\n${tail}` }
    },
  }
}

/** A Markdown table, one line per row. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`
  return line(head) + line(head.map(() => '---')) + rows.map(line).join('')
}

function configurationTable(): string {
  const names = (key: Key): string => {
    const variables = [key.environment, ...(key.fileTwin === undefined ? [] : [key.fileTwin])]
    return [key.key, ...variables].map((name) => `\`${name}\``).join('<br>')
  }
  const standard = (key: Key): string => {
    if (key.required) return 'required'
    if (key.default === undefined) return 'unset'
    return key.default.startsWith('the ') ? key.default : `\`${key.default}\``
  }
  const rows = keys.map((key) => [names(key), key.type, standard(key), key.explanation])
  return markdownTable(['Key and variable', 'Type', 'Default', 'Meaning'], rows)
}

/** A key with its default as YAML; commented out without one. */
function yamlEntry(key: Key, indent: string): string {
  const name = key.key.slice(key.key.lastIndexOf('.') + 1)
  const standing = key.required ? '; required' : key.fallback === undefined ? '' : `; default: the ${key.fallback}`
  const comment = `${indent}# ${key.explanation} (${key.type}${standing})\n`
  if (key.defaultValue === undefined) return `${comment}${indent}# ${name}:\n`
  const value = stringify(key.defaultValue, { defaultStringType: Scalar.PLAIN, singleQuote: true, lineWidth: 0 })
  return `${comment}${indent}${name}: ${value}`
}

function defaultYaml(): string {
  let text = '# Every key with its default. Generated from src/config/schema.ts by `npm run generate`; do not edit.\n'
  text += '# Durations: a whole number and one unit (ms, s, m, h, d). Keys without a default are commented out.\n'
  let open: string[] = []
  for (const key of keys) {
    const sections = key.key.split('.').slice(0, -1)
    for (const [depth, section] of sections.entries()) {
      if (open.slice(0, depth + 1).join('.') === sections.slice(0, depth + 1).join('.')) continue
      text += `${depth === 0 ? '\n' : ''}${'  '.repeat(depth)}${section}:\n`
    }
    open = sections
    text += yamlEntry(key, '  '.repeat(sections.length))
  }
  return text
}

interface JsonSchema {
  type?: string | string[]
  properties?: Record<string, JsonSchema>
  required?: string[]
  description?: string
}

/** For editors: a file may omit keys that the environment sets, and a section may be empty. */
function forFiles(node: JsonSchema, path: string): JsonSchema {
  const rest = { ...node }
  delete rest.required
  if (node.properties === undefined) {
    const key = keys.find((candidate) => candidate.key === path)
    return { description: key === undefined ? '' : `${key.explanation} (${key.type})`, ...rest }
  }
  const properties = Object.entries(node.properties).map(([name, part]) => [
    name,
    forFiles(part, path === '' ? name : `${path}.${name}`),
  ])
  return { ...rest, type: ['object', 'null'], properties: Object.fromEntries(properties) as Record<string, JsonSchema> }
}

function jsonSchema(): string {
  const title = 'Configuration of the webhook reconciler'
  const whole = forFiles(z.toJSONSchema(schema, { io: 'input', target: 'draft-7' }) as JsonSchema, '')
  return `${JSON.stringify({ title, ...whole }, null, 2)}\n`
}

function metricsTable(): string {
  const labels = ({ buckets, labels: own }: MetricDefinition): string =>
    Object.entries<readonly unknown[]>({ ...own, ...(buckets && { le: buckets }) })
      .map(([label, values]) => (values.length === 0 ? `\`${label}\`` : `\`${label}\`: ${values.join(', ')}`))
      .join('<br>')
  const rows = Object.entries<MetricDefinition>(metricDefinitions).map(([name, definition]) => [
    `\`${metricPrefix}${name}\``,
    definition.type,
    labels(definition),
    definition.help,
  ])
  return markdownTable(['Metric', 'Type', 'Labels', 'Meaning'], rows)
}

function rulesTable(): string {
  return markdownTable(
    ['Rule', 'Sentence'],
    Object.entries(ruleTable).map(([rule, sentence]) => [`\`${rule}\``, sentence]),
  )
}

function gatesTable(): string {
  const rows = gateNames.map((gate) => {
    const { advice, blocks, reason } = gateTable[gate]
    return [`\`${gate}\``, blocks === 'everything' ? 'everything' : 'a subscription', reason, advice]
  })
  return markdownTable(['Gate', 'Blocks', 'Why', 'What to do'], rows)
}

/** The fields of each log event, from its type. */
export function logFields(): ReadonlyMap<string, readonly string[]> {
  const file = 'src/observe/log/log-events.ts'
  const { checker, exported } = typesOf([file])
  return new Map(
    exported(file, 'LogFields')
      .getProperties()
      .map((event) => [
        event.name,
        checker
          .getTypeOfSymbol(event)
          .getProperties()
          .map(({ name }) => name)
          .sort(),
      ]),
  )
}

function logEventsTable(): string {
  const fields = logFields()
  const rows = Object.entries<LogEvent>(logEvents).map(([id, [levels, message, meaning]]) => [
    `\`${id}\``,
    levels.join(', '),
    message,
    (fields.get(id) ?? []).map((field) => `\`${field}\``).join(', '),
    meaning,
  ])
  return markdownTable(['Event', 'Level', 'Message', 'Fields', 'Meaning'], rows)
}

/** The alert rules as an object of the Prometheus Operator: the file indented, so that its comments stay. */
function prometheusRule(): string {
  const rules = readFileSync(join(import.meta.dirname, '..', rulesFile), 'utf8')
  const head = [
    `# Generated from ${rulesFile} by \`npm run generate\`; do not edit.`,
    'apiVersion: monitoring.coreos.com/v1',
    'kind: PrometheusRule',
    'metadata:',
    '  name: webhook-reconciler',
    'spec:',
  ]
  return `${head.join('\n')}\n${rules.replaceAll(/^(?=.)/gm, '  ')}`
}

/** The dashboard for the sidecar of Grafana's Helm chart, which loads each ConfigMap with this label. */
function dashboardConfigMap(): string {
  const dashboard: unknown = JSON.parse(readFileSync(join(import.meta.dirname, '..', dashboardFile), 'utf8'))
  const configMap = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'webhook-reconciler-dashboard', labels: { grafana_dashboard: '1' } },
    data: { 'webhook-reconciler.json': JSON.stringify(dashboard) },
  }
  const head = `# Generated from ${dashboardFile} by \`npm run generate\`; do not edit.`
  return `${head}\n${stringify(configMap, { defaultStringType: Scalar.QUOTE_SINGLE, defaultKeyType: Scalar.PLAIN, lineWidth: 0 })}`
}

/** Everything that is generated. */
export const targets: readonly Target[] = [
  wholeFile('config/default.yaml', defaultYaml),
  wholeFile('config/schema.json', jsonSchema),
  wholeFile('config/kubernetes/monitoring/prometheus-rule.yaml', prometheusRule),
  wholeFile('config/kubernetes/monitoring/dashboard.yaml', dashboardConfigMap),
  markdownPart('docs/configuration.md', 'configuration', configurationTable),
  markdownPart('docs/metrics.md', 'metrics', metricsTable),
  markdownPart('docs/status.md', 'gates', gatesTable),
  markdownPart('docs/commands.md', 'rules', rulesTable),
  markdownPart('docs/log.md', 'log events', logEventsTable),
  {
    file: 'docs/public-api.txt',
    render: (current = '') =>
      renderPublicApi(current, readFileSync(join(import.meta.dirname, '../CHANGELOG.md'), 'utf8')),
  },
]

/** The generator's view of files. */
export interface Files {
  /** Undefined if there is no such file. */
  read(file: string): string | undefined
  write(file: string, text: string): void
}

/**
 * Updates the targets, or with `check` only compares them.
 * @returns one line for each target that was written, is stale or cannot be generated, and whether all are current
 */
export function generate(list: readonly Target[], files: Files, check: boolean): { ok: boolean; lines: string[] } {
  const lines: string[] = []
  let ok = true
  for (const target of list) {
    const current = files.read(target.file)
    const result = target.render(current)
    if ('problem' in result) {
      ok = ok && !check
      lines.push(`${target.file}: unchanged: ${result.problem}`)
    } else if (result.text !== current) {
      ok = ok && !check
      lines.push(check ? `${target.file} is stale: run npm run generate` : `${target.file} written`)
      if (!check) files.write(target.file, result.text)
    }
  }
  return { ok, lines }
}

/** Files below the repository's root. */
function filesOf(root: string): Files {
  return {
    read(file) {
      try {
        return readFileSync(join(root, file), 'utf8')
      } catch (error) {
        if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
        throw error
      }
    },
    write: (file, text) => writeFileSync(join(root, file), text),
  }
}

if (import.meta.main) {
  const { ok, lines } = generate(targets, filesOf(join(import.meta.dirname, '..')), process.argv.includes('--check'))
  for (const line of lines) process.stdout.write(`${line}\n`)
  process.exitCode = ok ? 0 : 1
}
