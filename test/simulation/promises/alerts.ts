// The oracle of the alerts: the shipped rules over what each minute's scrape gives, against the world. It outlives the daemon's processes, as Prometheus does. @see docs/metrics.md
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import { metricPrefix } from '../../../src/observe/metrics.ts'
import { createRules, ofTarget } from '../../support/promql/rules.ts'
import { identityFaults } from '../fault-kinds.ts'
import type { SimulatedRecord } from '../platform.ts'
import { looksFailed } from '../scenario.ts'
import { createStreaks } from '../streaks.ts'
import type { Tally } from '../tally.ts'
import { clocksOf, type World } from '../world.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** What stops all for 15 minutes is critical by then. */
const pageMs = 20 * minuteMs
/** Trouble that is over by then ends without a person. */
const healMs = 10 * minuteMs
/** What needs a person is said by then. */
const warnMs = 30 * minuteMs
const target = 'job="webhook-reconciler",instance="a"'
const nameOf = (series: string): string => ofTarget(metricPrefix + series, target)

export interface AlertsWatch {
  fact(fact: TelemetryEvent): void
  /** Of a process that was started then, ms since the start; undefined while there is none. */
  scraped(process: { metrics: ReadonlyMap<string, number>; startedAt: number } | undefined): void
}

export interface AlertsOptions extends World {
  /** Of the present process. */
  tries: (id: string) => number
  exercise: Tally['exercise']
  violate: (what: string) => void
}

export function createAlertsWatch(options: AlertsOptions): AlertsWatch {
  const { config, exercise, expectations, platform, scenario, timeline, tries, violate } = options
  const rules = createRules()
  /** By the series as the daemon names it. */
  const labelled = new Map<string, string>()
  const streaks = createStreaks(options)
  let startedAt = -1
  /** Since when records are open without a break, ms since the start. */
  let openSince: number | undefined
  /** The last complete full sweep began then: a record that the platform retried by itself is unknown until the next one. */
  let fullSince = -Infinity
  /** Since when each thing that needs a person is so, ms since the start. */
  let needed = new Map<string, number>()

  /** What the daemon owes its recovery. */
  function isOpen(record: SimulatedRecord): boolean {
    const { attempts, eventAt, id, plan, status } = record
    if (status === 'successful' || plan.unreadable !== undefined || plan.aheadMs !== undefined) return false
    if (!expectations.isSelected(record) || expectations.isExhausted({ attempts, tries: tries(id) })) return false
    return (
      !expectations.isExpired(record, platform.now(), 0) && eventAt < platform.now() - config.window.settle - minuteMs
    )
  }

  /** Since when nothing at all could be recovered, ms since the start; undefined while something can. */
  function stoppedSince(open: readonly SimulatedRecord[]): number | undefined {
    const now = timeline.now()
    const causes = scenario.faults.flatMap(({ from, kind, on, share, to }) => {
      const isHard = ![
        'slow',
        'odd-date',
        'bad-span',
        'health-404',
        'throttled',
        'overloaded',
        'ignored',
        'barred',
      ].includes(kind)
      if (share < 1 || from > now || to <= now || !isHard || on === 'list') return []
      return [identityFaults.has(kind) ? from + 1000 * scenario.habits.tokenLifeSeconds : from]
    })
    const dead = open.map((record) => streaks.deadSince(record, 'surely'))
    // Others that take what is sent show that not everything is stopped.
    const isAll = scenario.subscriptions.every((receiver) => platform.outageAt(receiver, now) !== undefined)
    const since = Math.min(...causes, isAll && dead.length > 0 ? Math.max(...dead) : Infinity)
    return since <= now ? since : undefined
  }

  function checkPaged(open: readonly SimulatedRecord[], critical: readonly string[]): void {
    const since = stoppedSince(open)
    if (since === undefined || openSince === undefined || startedAt < 0) return
    const stoppedFor = timeline.now() - Math.max(since, openSince, startedAt)
    if (stoppedFor <= pageMs) return
    exercise('what stops all for a quarter of an hour pages')
    if (critical.length === 0)
      violate(`no alert is critical, though nothing could be recovered for ${Math.round(stoppedFor / minuteMs)} min`)
  }

  /** Prometheus has the right time, up to a suspend of the host. */
  const prometheusNow = (): number => scenario.startAt + timeline.now()
  const { hostNow, identityNow } = clocksOf(scenario, timeline)
  const clocksApart = (): number => Math.max(...[platform.now(), identityNow()].map((now) => Math.abs(hostNow() - now)))

  /** In seconds that cannot be listed, or beside them. */
  const isInBadSpan = ({ eventAt }: SimulatedRecord): boolean =>
    scenario.faults.some(
      (fault) => fault.kind === 'bad-span' && Math.abs(scenario.startAt + (fault.eventAt ?? 0) - eventAt) < minuteMs,
    )

  /** What needs a person, and for which things, each with the alerts of which one has to say it. */
  function needs(open: readonly SimulatedRecord[]): [need: string, things: string[], alerts: RegExp][] {
    const once = (isNeeded: boolean): string[] => (isNeeded ? [''] : [])
    const isCertificateEnding = scenario.certificates
      .filter(({ at }) => at <= timeline.now())
      .slice(-1)
      .some(({ notAfter }) => notAfter < prometheusNow() + 29 * 24 * hourMs)
    const unreadable = [...platform.records.values()].filter((record) => {
      const { plan, status } = record
      if (status !== 'failed' || plan.unreadable === undefined || isInBadSpan(record)) return false
      return !expectations.isExpired(record, platform.now(), 0) && !expectations.isUnlisted(record, platform.now())
    })
    const readable = [...platform.records.values()].filter(
      ({ plan, status }) => status !== 'successful' && plan.unreadable === undefined,
    ).length
    const ahead = [...platform.records.values()].filter(
      ({ changedAt, plan, status }) =>
        status === 'failed' && plan.aheadMs !== undefined && changedAt < fullSince - scenario.habits.lagMs,
    )
    // Beside unreadable rows, too. By then a full sweep has met it.
    const isUnlistable = (scenario.habits.listsFor ?? Infinity) < config.window.lookback
    const hasSwept = timeline.now() - startedAt > 15 * minuteMs
    const dead = open.filter((record) => streaks.deadSince(record, 'probably') <= timeline.now())
    const old = open.filter(
      ({ changedAt, eventAt }) => changedAt < fullSince && eventAt < prometheusNow() - hourMs - 10_000,
    )
    return [
      ['a dead receiver', dead.map(({ subscriptionId }) => subscriptionId), /./],
      ['rows that cannot be read', unreadable.map(({ id }) => id), /^UnreadableRecords$/],
      [
        'more of them than of others',
        once(unreadable.length >= 10 && unreadable.length > readable),
        /^ManyUnreadable$/,
      ],
      [
        'a part that cannot be listed',
        once(isUnlistable && hasSwept),
        /^(SweepIncomplete|SweepStalled|NoAccessToken|ClientAuthenticationRejected)$/,
      ],
      ['clocks that are apart', once(Math.abs(hostNow() - platform.now()) > 70_000), /^ClockSkew$/],
      ['failures ahead of the clock', ahead.map(({ id }) => id), /^(FailedAhead|TimeZoneWrong)$/],
      ['a certificate that ends', once(isCertificateEnding), /^ClientCertificateExpiring$/],
      ['records of an hour ago', old.map(({ id }) => id), /./],
    ]
  }

  function checkWarned(open: readonly SimulatedRecord[], firing: readonly string[]): void {
    const before = needed
    needed = new Map()
    for (const [need, things, alerts] of startedAt < 0 ? [] : needs(open)) {
      const keys = things.map((thing) => `${need} ${thing}`)
      for (const key of keys) needed.set(key, before.get(key) ?? timeline.now())
      const since = Math.max(startedAt, Math.min(...keys.map((key) => needed.get(key) ?? Infinity)))
      if (timeline.now() - since <= warnMs) continue
      exercise('what needs a person is a warning')
      if (!firing.some((name) => alerts.test(name)))
        violate(
          `says nothing of ${need}, for ${Math.round((timeline.now() - since) / minuteMs)} min; fires: ${firing.join()}`,
        )
    }
  }

  /** True where the world itself has what the alert says, and no time mends it. */
  function isLasting(alert: string): boolean {
    const { certificates, env, faults, habits, lives, platformJumps, receivers, records } = scenario
    const isSetBack = platformJumps.some(({ ms }) => ms < 0)
    const failsSome = receivers.some(({ failsFirst, flaky }) => failsFirst !== undefined || flaky >= 0.2)
    const hasRefused = records.some(({ kind }) => kind !== 'plain') || failsSome
    switch (alert) {
      case 'Expired':
      case 'Expiring':
        return config.window.lookback < 24 * hourMs
      case 'ClockSkew':
        return clocksApart() > 40_000
      case 'ClientCertificateExpiring':
        return certificates.length > 0
      case 'OldestFailedTooOld':
        return true
      case 'RetriesRefused':
        // A record that is gone, said without a code, is all that is left.
        return !habits.missingHasCode && records.some(({ kind }) => kind === 'missing')
      case 'RetriesFailing':
      case 'RetriesNotAccepted':
      case 'RetriesUnattempted':
      case 'ExhaustedRising':
        return hasRefused
      case 'ReceiverFailing':
      case 'AllReceiversFailing':
        // An attempt that is under way reads as one that has failed; and an event ahead of a clock that was set back is no probe.
        // With such a backoff, no record may be due for a probe.
        return (
          hasRefused ||
          looksFailed(habits) ||
          isSetBack ||
          ('RECONCILER_RETRY_BACKOFF_MAX' in env && config.retry.backoff.max >= healMs)
        )
      case 'UnreadableRecords':
      case 'ManyUnreadable':
        return records.some(({ unreadable }) => unreadable !== undefined)
      case 'UnexpectedRecords':
        return habits.boundsLater !== undefined
      case 'FailedAhead':
        // A clock that is set back leaves its events ahead.
        return records.some(({ aheadMs }) => aheadMs !== undefined) || isSetBack
      case 'StuckProcessing':
        // After a clock was set forward, what is processing looks old until the next full sweep.
        return platformJumps.length > 0
      case 'SweepIncomplete':
        // A part that can't be listed rests for up to an hour. Large rows take long, and a total that lags behind counts those that have gone.
        return (
          (habits.listsAtOnce ?? habits.listsFor) !== undefined ||
          faults.some(({ kind }) => kind === 'bad-span') ||
          // Without a total, the last page that comes again may be one of more.
          (habits.pages?.behind === 'again' && habits.pages.totals === 'none') ||
          (habits.lagMs > 0 && habits.rowBytes >= 100_000)
        )
      case 'Throttled':
        // The last pause may go on for five minutes.
        return habits.limits.length > 0 || faults.some(({ kind, on }) => kind === 'throttled' && on === 'list')
      case 'CrashLooping':
        return lives.length > 1
      case 'Unprocessed':
      case 'ManyUnprocessed':
      case 'BooksStale':
        return 'RECONCILER_LEDGER_URL' in env
      default:
        return false
    }
  }

  function checkQuiet(firing: readonly string[]): void {
    if (scenario.calmAt > healMs) return
    exercise('what heals by itself within ten minutes fires nothing')
    for (const alert of firing)
      if (!isLasting(alert)) violate(`${alert} fires, though all trouble is over within ten minutes`)
  }

  return {
    fact(fact) {
      streaks.note(fact)
      if (fact.type !== 'sweep') return
      const { kind, result, seconds } = fact.report
      if (kind === 'full' && result === 'complete') fullSince = timeline.now() - 1000 * seconds
    },
    scraped(process) {
      if (process?.startedAt !== startedAt) {
        if (startedAt >= 0) streaks.forget()
        startedAt = process?.startedAt ?? -1
        fullSince = -Infinity
      }
      const samples = [...(process?.metrics ?? [])].map(
        ([series, value]) => [labelled.getOrInsertComputed(series, nameOf), value] as const,
      )
      const own: [string, number][] = [[`up{${target}}`, process === undefined ? 0 : 1]]
      if (process !== undefined)
        own.push([`process_start_time_seconds{${target}}`, (scenario.startAt + startedAt) / 1000])
      const alerts = rules.scrape(prometheusNow(), [...samples, ...own])
      const names = (severity: string): string[] =>
        alerts
          .filter((alert) => severity === '' || alert['severity'] === severity)
          .map(({ alertname = '' }) => alertname.replace('WebhookReconciler', ''))
      const open = [...platform.records.values()].filter(isOpen)
      openSince = open.length === 0 ? undefined : (openSince ?? timeline.now())
      checkPaged(open, names('critical'))
      checkWarned(open, names(''))
      checkQuiet(names(''))
    },
  }
}
