// Prometheus and Alertmanager as they are deployed, on free ports of this host, with all that they write in a temporary folder.
import { stringify } from 'yaml'
import { makeFolder } from '../../support/process.ts'
import { startPager, type Notice } from './pager.ts'
import { freePort } from '../../bench/process-figures.ts'
import { startService } from './process.ts'

export interface Target {
  instance: string
  port: number
}

export interface MonitoringOptions {
  /** What Prometheus scrapes, as the job webhook-reconciler. */
  targets: readonly Target[]
  /** Text of the rules file. */
  rules: string
  /** Between two scrapes, and between two evaluations of the rules. */
  intervalMs: number
}

export interface Series {
  labels: Readonly<Record<string, string>>
  value: number
}

export interface Monitoring extends AsyncDisposable {
  /** Series of an instant query, now. @throws Error when Prometheus refuses the query */
  query(expr: string): Promise<Series[]>
  /** What arrived from Alertmanager, in order; of one instance, if it is named. */
  notices(instance?: string): Notice[]
}

interface Answered {
  status: string
  error?: string
  data?: { resultType: string; result: unknown }
}

interface VectorSample {
  metric: Readonly<Record<string, string>>
  value: readonly [number, string]
}

/** Numbers as Prometheus writes them: +Inf and -Inf besides the usual ones. */
function toNumber(text: string): number {
  return Number(text.replace('Inf', 'Infinity'))
}

async function ask(origin: string, expr: string): Promise<Series[]> {
  const answer = await fetch(`${origin}/api/v1/query?${new URLSearchParams({ query: expr }).toString()}`)
  const { data, error } = (await answer.json()) as Answered
  if (data === undefined) throw new Error(`Prometheus refuses ${expr}: ${error ?? answer.status}`)
  if (data.resultType === 'scalar') {
    const [, value] = data.result as VectorSample['value']
    return [{ labels: {}, value: toNumber(value) }]
  }
  return (data.result as VectorSample[]).map(({ metric, value: [, value] }) => ({
    labels: metric,
    value: toNumber(value),
  }))
}

/** Each alert for itself, and at once: what is waited for here is the alert, not a summary of several. */
function alertmanagerConfig(pagerUrl: string): string {
  return stringify({
    route: { receiver: 'pager', group_by: ['...'], group_wait: '0s', group_interval: '1s', repeat_interval: '24h' },
    receivers: [{ name: 'pager', webhook_configs: [{ url: pagerUrl, send_resolved: true }] }],
  })
}

function prometheusConfig({ targets, intervalMs }: MonitoringOptions, rulesFile: string, alerts: string): string {
  const interval = `${intervalMs}ms`
  return stringify({
    global: { scrape_interval: interval, scrape_timeout: interval, evaluation_interval: interval },
    rule_files: [rulesFile],
    alerting: { alertmanagers: [{ static_configs: [{ targets: [alerts] }] }] },
    scrape_configs: [
      {
        job_name: 'webhook-reconciler',
        static_configs: targets.map(({ instance, port }) => ({ targets: [`127.0.0.1:${port}`], labels: { instance } })),
      },
    ],
  })
}

/** Starts both, with a pager at their end; all of it ends when the handle is let go of. */
export async function startMonitoring(options: MonitoringOptions): Promise<Monitoring> {
  await using parts = new AsyncDisposableStack()
  const folder = parts.use(await makeFolder())
  const pager = parts.use(await startPager())

  const alerts = `127.0.0.1:${await freePort()}`
  parts.use(
    await startService({
      program: 'prometheus-alertmanager',
      packageName: 'prometheus-alertmanager',
      args: [
        `--config.file=${await folder.write('alertmanager.yaml', alertmanagerConfig(pager.url))}`,
        `--storage.path=${folder.path}/alertmanager`,
        `--web.listen-address=${alerts}`,
        '--cluster.listen-address=',
      ],
      readyUrl: `http://${alerts}/-/ready`,
    }),
  )

  const address = `127.0.0.1:${await freePort()}`
  const rulesFile = await folder.write('rules.yaml', options.rules)
  const config = await folder.write('prometheus.yaml', prometheusConfig(options, rulesFile, alerts))
  parts.use(
    await startService({
      program: 'prometheus',
      packageName: 'prometheus',
      args: [
        `--config.file=${config}`,
        `--storage.tsdb.path=${folder.path}/prometheus`,
        `--web.listen-address=${address}`,
      ],
      readyUrl: `http://${address}/-/ready`,
    }),
  )

  const kept = parts.move()
  return {
    query: (expr) => ask(`http://${address}`, expr),
    notices: pager.notices,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}
