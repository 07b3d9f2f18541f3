// The dashboard's queries: with one leader and two standbys each shows the leader's numbers, once; and a daemon at work gives each of them data.
import { expect, test } from 'vitest'
import { own } from './series.ts'
import { fillIn, panelsOf, readDashboard } from '../../repository/dashboard.ts'
import { promtool, success, unitTests, type Ran } from './promtool.ts'
import { startRecording } from './recording.ts'
import { healthySeries, ofTarget, standbySeries, testFile } from './scenario.ts'

const minutes = 60
const constant = (value: number): string => `${value}x${minutes}`
/** What every instance exports besides that no alert asks for. */
const common = { [`${own}platform_request_limit_per_second`]: constant(20) }
const leader = {
  ...healthySeries(minutes),
  ...common,
  [`${own}leader`]: constant(1),
  [`${own}missing_webhooks{subscription="eu"}`]: constant(7),
  [`${own}missing_webhooks{subscription="other"}`]: constant(3),
  [`${own}failed_webhooks{decision="exhausted"}`]: constant(3),
  [`${own}oldest_failed_event_timestamp_seconds`]: constant(600),
  [`${own}gates{gate="paused"}`]: constant(1),
  [`${own}gates{gate="circuit"}`]: constant(0),
  [`${own}circuits{state="closed"}`]: constant(2),
  [`${own}circuits{state="half-open"}`]: constant(0),
  [`${own}circuits{state="open"}`]: constant(0),
}
const standby = { ...standbySeries(minutes), ...common, [`${own}gates{gate="not-leader"}`]: constant(1) }

/** Panel, query by its legend, and the values by label at minute 30 (1,800 s). */
const expected: [panel: string, legend: string, values: Readonly<Record<string, number>>][] = [
  ['Missing', 'missing', { '{}': 10 }],
  ['Missing, by subscription', '{{subscription}}', { '{subscription="eu"}': 7, '{subscription="other"}': 3 }],
  ['Oldest missing event', 'age', { '{}': 1200 }],
  ['Exhausted', 'exhausted', { '{}': 3 }],
  ['Last complete sweep', 'ago', { '{}': 0 }],
  ['Circuits', '{{state}}', { '{state="closed"}': 2, '{state="half-open"}': 0, '{state="open"}': 0 }],
  ['Shut gates', '{{gate}}', { '{gate="paused"}': 1 }],
  ['Rate limit and throttle', 'calls allowed', { '{}': 20 }],
  [
    'Working instances',
    '{{instance}}',
    { '{instance="a"}': 1, '{instance="b"}': 0, '{instance="c"}': 0, '{instance="alone"}': 1 },
  ],
]

const panels = panelsOf(readDashboard().panels)

/** The query of a panel, for the instances that match. */
function queryOf(panel: string, legend: string, instances: string): string {
  const targets = panels.find(({ title }) => title === panel)?.targets ?? []
  const target = targets.find(({ legendFormat }) => legendFormat === legend)
  if (target === undefined) throw new Error(`the dashboard has no query ${panel}: ${legend}`)
  return fillIn(target.expr.replaceAll('instance=~"$instance"', `instance=~"${instances}"`), '5m')
}

test('shows what the leader knows, and how many calls it may make', async () => {
  const job = 'webhooks/webhook-reconciler'
  const input = [
    ...ofTarget(leader, job, 'a'),
    ...ofTarget(standby, job, 'b'),
    ...ofTarget(standby, job, 'c'),
    ...ofTarget({ ...healthySeries(minutes), ...common }, job, 'alone'),
  ]
  const samples = expected.map(([panel, legend, values]) => ({
    expr: queryOf(panel, legend, panel === 'Working instances' ? '.*' : 'a|b|c'),
    eval_time: '30m',
    exp_samples: Object.entries(values).map(([labels, value]) => ({ labels, value })),
  }))
  const [told] = await unitTests(testFile(input, { promql_expr_test: samples }))
  expect(told).toMatch(success)
})

test('promtool takes the metrics, and every query returns data while records are missing, or once they were recovered', async () => {
  await using recording = await startRecording()
  const { sandbox } = recording
  await recording.start({
    RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiverHealthUrl,
    RECONCILER_LEDGER_URL: sandbox.ledgerUrl,
  })
  const check = async (): Promise<Ran> => promtool(['check', 'metrics'], await recording.exposition())
  expect(await check()).toEqual({ code: 0, output: '' })
  sandbox.receiver.down()
  await recording.pass(5)
  recording.fail(30)
  await recording.pass(3)
  sandbox.receiver.up()
  await recording.pass(6)
  expect(sandbox.counts().successful).toBe(30)
  expect(await check()).toEqual({ code: 0, output: '' })
  const exprs = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  const queries = exprs.filter((expr) => !expr.includes('ALERTS')).map((expr) => fillIn(expr, '5m'))
  expect(queries.length).toBeGreaterThan(25)
  // A quantile of nothing is NaN, which is no data, and equals nothing.
  const samples = queries.map((query) => ({
    expr: `count(count_over_time(((${query}) == (${query}))[13m:1m])) > bool 0`,
    eval_time: '13m',
    exp_samples: [{ labels: '{}', value: 1 }],
  }))
  const input = ofTarget(recording.series(), 'webhook-reconciler', 'a')
  const [told] = await unitTests(testFile(input, { promql_expr_test: samples }))
  expect(told).toMatch(success)
})
