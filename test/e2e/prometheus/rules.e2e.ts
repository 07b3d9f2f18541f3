// The alert rules in Prometheus' own hands: promtool plays each scenario, and says which alerts fire.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { makeFolder } from '../../support/process.ts'
import { promtool, type Ran } from './promtool.ts'
import { alertPrefix, toTestFile, type Scenario } from './scenario.ts'
import { scenarios } from './scenarios.ts'

const root = join(import.meta.dirname, '../../..')
const rulesFile = join(root, 'config/prometheus/alerts.yaml')

/** Template of the runbook's address: the label of one recording rule. */
const runbookAddress = '{{ with query "webhook_reconciler:runbook_info" }}{{ . | first | label "url" }}{{ end }}'

interface Rule {
  alert?: string
  record?: string
  expr: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
}

const rules = (parse(readFileSync(rulesFile, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
)
const alerts = rules.flatMap((rule) => (rule.alert === undefined ? [] : [{ ...rule, alert: rule.alert }]))

/** Plays scenarios in one run: what promtool wrote of each, by its position. */
async function play(played: readonly Scenario[], extra: readonly string[] = []): Promise<Ran & { of: string[] }> {
  await using folder = await makeFolder()
  const files = await Promise.all(
    played.map((scenario, index) => folder.write(`${index}.yaml`, toTestFile(scenario, rulesFile))),
  )
  for (const [index, text] of extra.entries()) files.push(await folder.write(`extra-${index}.yaml`, text))
  const ran = await promtool(['test', 'rules', ...files])
  const parts = ran.output.split(/^Unit Testing: +/m)
  return { ...ran, of: files.map((file) => parts.find((part) => part.startsWith(`${file}\n`)) ?? 'not run') }
}

describe('every alert', () => {
  let ran: Awaited<ReturnType<typeof play>>

  beforeAll(async () => {
    ran = await play(scenarios)
  })

  test.each(scenarios.map(({ name }, index) => [name, index] as const))('%s', (_name, index) => {
    expect(ran.of[index]).toMatch(/\n\s*SUCCESS\s*$/)
  })

  test('fires in some scenario, and resolves or stays quiet at another time of the same one', () => {
    for (const { alert } of alerts) {
      const name = alert.replace(alertPrefix, '')
      const moved = scenarios.filter(({ firing }) => {
        const seen = Object.values(firing).map((fired) => fired.includes(name))
        return seen.includes(true) && seen.includes(false)
      })
      expect(
        moved.map((scenario) => scenario.name),
        alert,
      ).not.toEqual([])
    }
  })
})

test('a scenario whose alerts are others is found out', async () => {
  const wrong = [
    { name: 'one that does not fire', series: {}, firing: { 60: ['Paused'] } },
    { name: 'one that is not expected', series: { webhook_reconciler_paused: '1x500' }, firing: { 100: [] } },
  ]
  const { code, of } = await play(wrong)
  expect(code).not.toBe(0)
  for (const part of of) expect(part).toContain('FAILED')
})

test('the recording rules', async () => {
  const bucket = (le: string, values: string): { series: string; values: string } => ({
    series: `webhook_reconciler_recovery_duration_seconds_bucket{instance="a",le="${le}"}`,
    values,
  })
  const series = (outcome: string, values: string): { series: string; values: string } => ({
    series: `webhook_reconciler_outcomes_total{instance="a",outcome="${outcome}"}`,
    values,
  })
  const expected = (expr: string, minute: number, value?: number): object => ({
    expr,
    eval_time: `${minute}m`,
    exp_samples:
      value === undefined ? [] : [{ labels: `${expr.startsWith('round') ? '' : expr}{instance="a"}`, value }],
  })
  const [ratio, p50, p95] = [
    'recovery_ratio:1h',
    'recovery_duration_seconds:p50_1h',
    'recovery_duration_seconds:p95_1h',
  ].map((name) => `webhook_reconciler:${name}`)
  const text = {
    rule_files: [rulesFile],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: [
          // Nothing for two hours, then for every three that recover one fails again.
          series('recovered', '0x120 0+3x120'),
          series('failed-again', '0x120 0+1x120'),
          series('unknown', '0x120 0+9x120'),
          bucket('60', '0x120 0+1x120'),
          bucket('300', '0x120 0+2x120'),
          bucket('+Inf', '0x120 0+2x120'),
        ],
        promql_expr_test: [
          ...[ratio, p50, p95].map((expr) => expected(expr ?? '', 100)),
          expected(ratio ?? '', 220, 0.75),
          expected(p50 ?? '', 220, 60),
          expected(`round(${p95 ?? ''}, 0.1)`, 220, 276),
        ],
      },
    ],
  }
  const { of } = await play([], [JSON.stringify(text)])
  expect(of[0]).toMatch(/\n\s*SUCCESS\s*$/)
})

describe("the runbook's address", () => {
  const shipped = readFileSync(rulesFile, 'utf8')
  const own = 'https://git.example.com/webhook-reconciler/runbook.md'
  const paused = alerts.find(({ alert }) => alert === 'WebhookReconcilerPaused')?.annotations

  /** Plays a pause by the rules of a file; promtool compares all annotations of its alert. */
  async function playPause(file: string, runbook: string): Promise<string> {
    const text = {
      rule_files: [file],
      evaluation_interval: '1m',
      tests: [
        {
          interval: '1m',
          input_series: [
            { series: 'webhook_reconciler_build_info{job="j",instance="a"}', values: '1x200' },
            { series: 'webhook_reconciler_paused{job="j",instance="a"}', values: '1x200' },
          ],
          alert_rule_test: [
            {
              eval_time: '200m',
              alertname: 'WebhookReconcilerPaused',
              exp_alerts: [
                {
                  exp_labels: { severity: 'warning', job: 'j', instance: 'a' },
                  exp_annotations: {
                    summary: paused?.['summary']?.replace('{{ $labels.instance }}', 'a'),
                    description: paused?.['description'],
                    runbook_url: runbook,
                  },
                },
              ],
            },
          ],
        },
      ],
    }
    const { of } = await play([], [JSON.stringify(text)])
    return of[0] ?? ''
  }

  test('as shipped is the runbook of this repository', async () => {
    expect(await playPause(rulesFile, 'docs/runbook.md#webhookreconcilerpaused')).toMatch(/\n\s*SUCCESS\s*$/)
  })

  test('stands in one line of the file', async () => {
    const lines = shipped.split('\n').filter((line) => line.trim().startsWith('url: '))
    expect(lines.map((line) => line.trim())).toEqual(['url: docs/runbook.md'])
    await using folder = await makeFolder()
    const file = await folder.write('alerts.yaml', shipped.replace('url: docs/runbook.md', `url: ${own}`))
    expect(await playPause(file, `${own}#webhookreconcilerpaused`)).toMatch(/\n\s*SUCCESS\s*$/)
  })
})

describe('the file', () => {
  test.each(alerts)(
    '$alert says what it means, what to do, and where to read more',
    ({ alert, labels, annotations }) => {
      expect(alert).toMatch(/^WebhookReconciler[A-Z]/)
      expect(['critical', 'warning']).toContain(labels?.['severity'])
      const { summary = '', description = '', runbook_url: runbook, ...others } = annotations ?? {}
      expect(others).toEqual({})
      expect(summary).not.toMatch(/\.$/)
      expect(description).toMatch(/\.$/)
      expect(description.length).toBeGreaterThan(60)
      expect(runbook).toBe(`${runbookAddress}#${alert.toLowerCase()}`)
      const book = readFileSync(join(root, 'docs/runbook.md'), 'utf8')
      const [, section = ''] = book.split(`\n## ${alert}\n`)
      const [text = ''] = section.split(/\n#+ /)
      for (const part of ['**Meaning**', '**Diagnosis**', '**Mitigation**']) expect(text, alert).toContain(part)
    },
  )

  test('has each alert once, and the runbook no others', () => {
    const names = alerts.map(({ alert }) => alert)
    expect(new Set(names).size).toBe(names.length)
    const book = readFileSync(join(root, 'docs/runbook.md'), 'utf8')
    const sections = [...book.matchAll(/^## (WebhookReconciler\w+)$/gm)].map(([, name]) => name)
    expect(sections).toEqual(names)
  })

  test('joins targets by job and instance only', () => {
    for (const { expr } of rules) {
      // `on ()` compares no target with another: it says only whether there is any. Some instances of a job share a lease.
      for (const [, labels, other] of expr.matchAll(/\bon ?\(([^)]*)\)(?:[\s(]*(\w+))?/g)) {
        expect(
          other === 'webhook_reconciler_leader' ? ['job, lease', 'job, instance'] : ['job, instance', ''],
        ).toContain(labels)
      }
      // What a target has besides (pod, namespace) is kept, so that the page says where. That none leads is about no target.
      expect(expr.replace('sum by (job, lease) (webhook_reconciler_leader)', '')).not.toMatch(/\bby ?\(/)
    }
  })
})
