// The alert rules: our own evaluator, by which the simulation judges them, plays each scenario; promtool says the same of series that are drawn.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { createSequence } from '../../../sandbox/records/hash.ts'
import { makeFolder } from '../../support/process.ts'
import { readShippedRules, shippedRulesFile as rulesFile } from '../../support/promql/rules.ts'
import { promtool, success, unitTests } from './promtool.ts'
import { alertPrefix, expectedAt, firingOf, ofTarget, testFile, toInput, type Input } from './scenario.ts'
import { scenarios } from './scenarios.ts'
import { own } from './series.ts'

const shipped = readFileSync(rulesFile, 'utf8')
const rules = readShippedRules(shipped)
const alerts = rules.flatMap((rule) => (rule.alert === undefined ? [] : [{ ...rule, alert: rule.alert }]))

/** Every series of every scenario, each at random: it stays as it is for a while, and then moves, or is gone. */
function drawn(seed: number, minutes: number): Input[] {
  const sequence = createSequence(seed)
  const { pick } = sequence
  const names = new Set(
    Object.values(scenarios).flatMap((scenario) => toInput(scenario).input.map(({ series }) => series)),
  )
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

test.each(Object.entries(scenarios))('%s', (_name, scenario) => {
  const firing = firingOf(toInput(scenario))
  for (const [minute, alerts] of Object.entries(scenario.firing))
    expect(firing[Number(minute)], `minute ${minute}`).toEqual([...alerts].sort())
})

test('every alert fires in some scenario, and resolves or stays quiet at another time of the same one', () => {
  for (const { alert } of alerts) {
    const name = alert.replace(alertPrefix, '')
    const moved = Object.values(scenarios).filter(({ firing }) => {
      const seen = Object.values(firing).map((fired) => fired.includes(name))
      return seen.includes(true) && seen.includes(false)
    })
    expect(moved, alert).not.toEqual([])
  }
})

test('promtool says the same of series that are drawn', async () => {
  const minutes = 240
  const files = Array.from({ length: 2 }, (_, seed) => {
    const input = drawn(seed + 1, minutes)
    const firing = firingOf({ input, minutes })
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

test('promtool finds out a scenario whose alerts are others', async () => {
  for (const [series, firing] of [
    ['1x0', ['Paused']],
    ['1x500', []],
  ] as const) {
    const input = ofTarget({ [`${own}gates{gate="paused"}`]: series }, 'j', 'a')
    const [told] = await unitTests(testFile(input, { promql_expr_test: [expectedAt(100, firing)] }))
    expect(told).toContain('FAILED')
  }
})

test('what the documents have Prometheus or a collector scrape is understood', async () => {
  const text = readFileSync(join(import.meta.dirname, '../../../docs/metrics.md'), 'utf8')
  const [prometheus, collector] = Array.from(text.matchAll(/```yaml\n([^]*?)```/g), ([, block = '']) => block)
  const { exporters, receivers, service } = parse(collector ?? '') as {
    exporters: object
    receivers: { prometheus: { config: object } }
    service: { pipelines: object }
  }
  expect(service.pipelines).toEqual({
    metrics: { receivers: Object.keys(receivers), exporters: Object.keys(exporters) },
  })
  await using folder = await makeFolder()
  await folder.write('alerts.yaml', shipped)
  for (const part of [prometheus ?? '', JSON.stringify(receivers.prometheus.config)]) {
    const file = await folder.write('prometheus.yaml', part)
    expect(promtool(['check', 'config', file])).toMatchObject({ code: 0 })
  }
})

test('the recording rules', async () => {
  const bucket = (le: string): string => `webhook_reconciler_recovery_duration_seconds_bucket{le="${le}"}`
  const outcomes = (outcome: string): string => `webhook_reconciler_outcomes_total{outcome="${outcome}"}`
  // Nothing for two hours, then for every three that recover one fails again.
  const series = {
    [outcomes('recovered')]: '0x120 0+3x120',
    [outcomes('failed-again')]: '0x120 0+1x120',
    [outcomes('unknown')]: '0x120 0+9x120',
    [bucket('60')]: '0x120 0+1x120',
    [bucket('300')]: '0x120 0+2x120',
    [bucket('+Inf')]: '0x120 0+2x120',
  }
  const expected = Object.entries({
    'recovered_outcomes:ratio_1h': 0.75,
    'recovery_duration_seconds:p50_1h': 60,
    'recovery_duration_seconds:p95_1h': 276,
  }).flatMap(([name, value]) => {
    const expr = `round(job_instance:webhook_reconciler_${name}, 0.01)`
    const labels = '{job="j",instance="a"}'
    return [
      { expr, eval_time: '100m', exp_samples: [] },
      { expr, eval_time: '220m', exp_samples: [{ labels, value }] },
    ]
  })
  const [told] = await unitTests(testFile(ofTarget(series, 'j', 'a'), { promql_expr_test: expected }))
  expect(told).toMatch(success)
})

test('Prometheus takes the configuration of config/compose, with the rules', async () => {
  await using folder = await makeFolder()
  const config = readFileSync(join(rulesFile, '../../compose/prometheus.yaml'), 'utf8')
  const file = await folder.write('prometheus.yaml', config.replace('/etc/prometheus/alerts.yaml', rulesFile))
  expect(promtool(['check', 'config', file])).toMatchObject({
    code: 0,
    output: expect.stringContaining('SUCCESS') as string,
  })
})

test("the runbook's address stands in one line of the file, and an alert names it", async () => {
  const lines = shipped.split('\n').filter((line) => line.trim().startsWith('url: '))
  expect(lines.map((line) => line.trim())).toEqual(['url: docs/runbook.md'])
  const own = 'https://git.example.com/webhook-reconciler/runbook.md'
  await using folder = await makeFolder()
  const file = await folder.write('alerts.yaml', shipped.replace('url: docs/runbook.md', `url: ${own}`))
  const paused = alerts.find(({ alert }) => alert === 'WebhookReconcilerPaused')?.annotations
  // promtool compares all annotations.
  const annotations = {
    summary: paused?.['summary']?.replace('{{ $labels.instance }}', 'a'),
    description: paused?.['description'],
    runbook_url: `${own}#webhookreconcilerpaused`,
  }
  const alert = {
    exp_labels: { severity: 'warning', gate: 'paused', job: 'j', instance: 'a' },
    exp_annotations: annotations,
  }
  const expected = [{ eval_time: '200m', alertname: 'WebhookReconcilerPaused', exp_alerts: [alert] }]
  const series = { webhook_reconciler_build_info: '1x200', 'webhook_reconciler_gates{gate="paused"}': '1x200' }
  const [told] = await unitTests(testFile(ofTarget(series, 'j', 'a'), { alert_rule_test: expected }, file))
  expect(told).toMatch(success)
})
