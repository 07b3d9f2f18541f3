// A course of events for promtool: what a healthy daemon exports, what is otherwise, and which alerts fire when.
import { createRules, ofTarget as labelled, shippedRulesFile } from '../../support/promql/rules.ts'
import { leader, own } from './series.ts'

/** Values by minute, in promtool's notation (`0+60x100`, `1x30 0x100`, `_x10`), by series without the labels of the target. */
export type Series = Readonly<Record<string, string>>

export interface Input {
  /** With all its labels. */
  series: string
  values: string
}

export interface Scenario {
  /** Besides, or in the place of, those of a healthy daemon; undefined: this series is not there. */
  series: Readonly<Record<string, string | undefined>>
  /** Without: nothing but `series`, as of a target that is not there. */
  healthy?: boolean
  /** A second target that is well, at the instance `b`. */
  neighbour?: boolean
  /** A target that is well in a job of its own. */
  otherJob?: boolean
  /** Instances that share a lease with the first one, from `d` on: what each exports besides a healthy standby, or in its place. */
  replicas?: readonly Readonly<Record<string, string | undefined>>[]
  /** The scrape job of all targets. Default: `webhook-reconciler`. */
  job?: string
  /** Besides, a target of another program in the same job, which is down from the start. */
  stranger?: boolean
  /** Minutes, and the alerts that fire by then, without their prefix, each as often as there are targets with it; no other does. */
  firing: Readonly<Record<number, readonly string[]>>
}

/** By what happens. */
export type Scenarios = Readonly<Record<string, Scenario>>

export const alertPrefix = 'WebhookReconciler'

/** What a daemon that is well exports for so many minutes; sweeps every minute, a token every half hour. */
export function healthySeries(minutes: number): Series {
  const constant = (value: number): string => `${value}x${minutes}`
  const rising = (from: number, by: number): string => `${from}+${by}x${minutes}`
  return {
    up: constant(1),
    process_start_time_seconds: constant(0),
    [`${own}build_info{version="1",node_version="v26"}`]: constant(1),
    [`${own}clock_timestamp_seconds`]: rising(0, 60),
    [`${own}progress_due_timestamp_seconds`]: rising(180, 60),
    [`${own}last_complete_sweep_timestamp_seconds`]: rising(0, 60),
    [`${own}last_incomplete_sweep_timestamp_seconds`]: constant(0),
    [`${own}oldest_failed_event_timestamp_seconds`]: constant(0),
    [`${own}failed_webhooks{decision="exhausted"}`]: constant(0),
    [`${own}failed_webhooks{decision="due"}`]: constant(0),
    [`${own}expiring_webhooks{decision="due"}`]: constant(0),
    [`${own}expiring_webhooks{decision="blocked"}`]: constant(0),
    [`${own}expiring_webhooks{decision="exhausted"}`]: constant(0),
    [`${own}expired_webhooks_total`]: constant(0),
    [`${own}stuck_processing_webhooks`]: constant(0),
    [`${own}subscriptions{receiver="taking"}`]: constant(2),
    [`${own}subscriptions{receiver="failing"}`]: constant(0),
    [`${own}subscriptions{receiver="suspected"}`]: constant(0),
    [`${own}outcomes_total{outcome="recovered"}`]: constant(0),
    [`${own}outcomes_total{outcome="failed-again"}`]: constant(0),
    [`${own}outcomes_total{outcome="unknown"}`]: constant(0),
    [`${own}access_token_expiry_timestamp_seconds`]: rising(3600, 60),
    [`${own}access_token_refreshes_total{result="ok"}`]: `1x30 2x30 3x30 4x${minutes}`,
    [`${own}access_token_refreshes_total{result="rejected"}`]: constant(0),
    [`${own}access_token_refreshes_total{result="transient"}`]: constant(0),
    [`${own}platform_requests_total{operation="list",reason="ok"}`]: rising(0, 3),
    [`${own}platform_requests_total{operation="list",reason="unauthorized"}`]: constant(0),
    [`${own}platform_requests_total{operation="list",reason="throttled"}`]: constant(0),
    [`${own}platform_requests_total{operation="list",reason="server-error"}`]: constant(0),
    [`${own}platform_requests_total{operation="retry",reason="ok"}`]: constant(0),
    [`${own}platform_requests_total{operation="retry",reason="forbidden"}`]: constant(0),
    [`${own}throttled_until_timestamp_seconds`]: constant(0),
    [`${own}clock_skew_seconds{origin="auth"}`]: constant(0.2),
    [`${own}clock_skew_seconds{origin="api"}`]: constant(-0.3),
    [`${own}platform_time_offset_seconds`]: constant(0.5),
    [`${own}unreadable_records`]: constant(0),
    [`${own}unexpected_records_total{kind="time"}`]: constant(0),
    [`${own}unexpected_records_total{kind="status"}`]: constant(0),
    [`${own}gates{gate="paused"}`]: constant(0),
  }
}

/** What an instance exports for so many minutes while another one holds the lease: it lists and retries nothing. */
export function standbySeries(minutes: number): Series {
  return {
    ...healthySeries(minutes),
    [leader]: `0x${minutes}`,
    [`${own}last_complete_sweep_timestamp_seconds`]: `0x${minutes}`,
    [`${own}progress_due_timestamp_seconds`]: `60+60x${minutes}`,
    [`${own}subscriptions{receiver="taking"}`]: `0x${minutes}`,
    [`${own}platform_requests_total{operation="list",reason="ok"}`]: `0x${minutes}`,
  }
}

/** The series of one target, with its labels. */
export function ofTarget(series: Scenario['series'], job: string, instance: string): Input[] {
  const target = `job="${job}",instance="${instance}"`
  return Object.entries(series).flatMap(([name, values]) =>
    values === undefined ? [] : [{ series: labelled(name, target), values }],
  )
}

/** A file for `promtool test rules`: these series each minute, and what is expected of them. */
export function testFile(input: readonly object[], expected: object, rules = shippedRulesFile): object {
  return {
    rule_files: [rules],
    evaluation_interval: '1m',
    tests: [{ interval: '1m', input_series: input, ...expected }],
  }
}

/** Series of all targets, and how many minutes are looked at. */
export function toInput(scenario: Scenario): { input: Input[]; minutes: number } {
  const { series, healthy = true, neighbour = false, otherJob = false, replicas = [], firing } = scenario
  const { job = 'webhook-reconciler', stranger = false } = scenario
  const minutes = Math.max(...Object.keys(firing).map(Number)) + 1
  const well = healthySeries(minutes)
  const input = [
    ...ofTarget({ ...(healthy && well), ...series }, job, 'a'),
    ...(neighbour ? ofTarget(well, job, 'b') : []),
    ...(otherJob ? ofTarget(well, 'webhook-reconciler-uk', 'a') : []),
    ...replicas.flatMap((other, index) => ofTarget({ ...standbySeries(minutes), ...other }, job, 'def'.charAt(index))),
    ...(stranger ? ofTarget({ up: `0x${minutes}` }, job, 'c') : []),
  ]
  return { input, minutes }
}

/** These alerts fire at a minute, and no others. */
export function expectedAt(minute: number, alerts: readonly string[]): object {
  return {
    expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
    eval_time: `${minute}m`,
    exp_samples: [...new Set(alerts)].map((alert) => ({
      labels: `{alertname="${alertPrefix}${alert}"}`,
      value: alerts.filter((other) => other === alert).length,
    })),
  }
}

/** promtool's notation, as values by minute; undefined: the series is not there. */
function expand(notation: string): readonly (number | undefined)[] {
  return notation.split(/\s+/).flatMap((part) => {
    const [, from = '', by = '0', times] = /^(_|stale|[^_x+]+?)([+-][\d.]+)?(?:x(\d+))?$/.exec(part) ?? []
    if (from === 'stale') return [undefined]
    if (from === '_') return Array.from({ length: Number(times ?? 1) }, () => undefined)
    const first = from === 'Inf' ? Infinity : Number(from)
    return Array.from({ length: Number(times ?? 0) + 1 }, (_, index) => first + index * Number(by))
  })
}

/** The alerts that fire at each minute by our own evaluator, as often as there are targets with each. */
export function firingOf({ input, minutes }: ReturnType<typeof toInput>): readonly (readonly string[])[] {
  const rules = createRules()
  const all = input.map(({ series, values }) => [series, expand(values)] as const)
  return Array.from({ length: minutes }, (_, minute) => {
    const now = all.flatMap(([series, values]) => {
      const value = values[minute]
      return value === undefined ? [] : [[series, value] as const]
    })
    const alerts = rules.scrape(minute * 60_000, now)
    return alerts.map(({ alertname = '' }) => alertname.replace(alertPrefix, '')).sort()
  })
}
