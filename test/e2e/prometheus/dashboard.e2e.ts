// The dashboard's queries with one leader and two standbys: each panel shows the leader's numbers, once.
import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { own } from './series.ts'
import { fillIn, panelsOf, readDashboard } from '../../repository/dashboard.ts'
import { makeFolder } from '../../support/process.ts'
import { promtool } from './promtool.ts'
import { healthySeries, ofTarget, standbySeries } from './scenario.ts'

const minutes = 60
const constant = (value: number): string => `${value}x${minutes}`
/** What every instance exports besides that no alert asks for. */
const common = {
  [`${own}platform_request_rate_limit`]: constant(20),
  [`${own}recovery_target_seconds`]: constant(3600),
}
const leader = {
  ...healthySeries(minutes),
  ...common,
  [`${own}leader`]: constant(1),
  [`${own}failed_webhooks{decision="due"}`]: constant(7),
  [`${own}failed_webhooks{decision="exhausted"}`]: constant(3),
  [`${own}oldest_failed_event_timestamp_seconds`]: constant(600),
  [`${own}gates{gate="paused"}`]: constant(1),
  [`${own}gates{gate="circuit"}`]: constant(0),
}
const standby = { ...standbySeries(minutes), ...common, [`${own}gates{gate="not-leader"}`]: constant(1) }

/** Panel, query by its legend, and the values by label at minute 30 (1,800 s), as promtool writes them. */
const expected: [panel: string, legend: string, samples: { labels: string; value: number }[]][] = [
  ['Missing', 'missing', [{ labels: '{}', value: 7 }]],
  ['Oldest missing event', 'age', [{ labels: '{}', value: 1200 }]],
  ['Oldest missing event', 'target', [{ labels: '{}', value: 3600 }]],
  ['Exhausted', 'exhausted', [{ labels: '{}', value: 3 }]],
  ['Last complete sweep', 'ago', [{ labels: '{}', value: 0 }]],
  [
    'Circuits',
    '{{state}}',
    [
      { labels: '{state="closed"}', value: 2 },
      { labels: '{state="half-open"}', value: 0 },
      { labels: '{state="open"}', value: 0 },
    ],
  ],
  ['Why nothing goes out', '{{gate}}', [{ labels: '{gate="paused"}', value: 1 }]],
  ['Rate limit and throttle', 'calls allowed', [{ labels: '{}', value: 20 }]],
  ['Awaiting and in flight', 'paused', [{ labels: '{}', value: 0 }]],
  [
    'Working instances',
    '{{instance}}',
    [
      { labels: '{instance="a"}', value: 1 },
      { labels: '{instance="b"}', value: 0 },
      { labels: '{instance="c"}', value: 0 },
      { labels: '{instance="alone"}', value: 1 },
    ],
  ],
]

/** The query of a panel, for the instances that match. */
function queryOf(panel: string, legend: string, instances: string): string {
  const targets = panelsOf(readDashboard().panels).find(({ title }) => title === panel)?.targets ?? []
  const target = targets.find(({ legendFormat }) => legendFormat === legend)
  if (target === undefined) throw new Error(`the dashboard has no query ${panel}: ${legend}`)
  return fillIn(target.expr.replaceAll('instance=~"$instance"', `instance=~"${instances}"`), '5m')
}

async function play(samplesOf: typeof expected): Promise<{ code: number; output: string }> {
  const job = 'webhooks/webhook-reconciler'
  const text = {
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: [
          ...ofTarget(leader, job, 'a'),
          ...ofTarget(standby, job, 'b'),
          ...ofTarget(standby, job, 'c'),
          ...ofTarget({ ...healthySeries(minutes), ...common }, job, 'alone'),
        ],
        promql_expr_test: samplesOf.map(([panel, legend, samples]) => ({
          expr: queryOf(panel, legend, panel === 'Working instances' ? '.*' : 'a|b|c'),
          eval_time: '30m',
          exp_samples: samples,
        })),
      },
    ],
  }
  await using folder = await makeFolder()
  return await promtool(['test', 'rules', await folder.write('dashboard.yaml', stringify(text, { lineWidth: 0 }))])
}

test('shows what the leader knows, and how many calls it may make', async () => {
  expect(await play(expected)).toEqual({ code: 0, output: expect.stringMatching(/\n\s*SUCCESS\s*$/) as string })
})

test('another number is found out', async () => {
  const { code, output } = await play([['Missing', 'missing', [{ labels: '{}', value: 21 }]]])
  expect(code).not.toBe(0)
  expect(output).toContain('FAILED')
})
