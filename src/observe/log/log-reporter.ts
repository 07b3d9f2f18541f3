// Logs events: state changes and full sweeps with news at info or above, repetitions and single records at debug.
import type { Clock } from '../../runtime/clock.ts'
import type { FactOf, TelemetryEvent } from '../events.ts'
import { nothingSince, type LogFields } from './log-events.ts'
import type { Incident } from '../incident.ts'
import type { Log } from './log.ts'
import { createCondition } from './repetition.ts'
import { formatLocalSecond } from '../../platform/time-zone.ts'
import { problemOf, type CallFailure } from '../../reconcile/platform-trouble.ts'
import { sentenceOf } from '../../reconcile/reasons.ts'
import type { Outcome } from '../../reconcile/confirm/evidence.ts'
import type { SkippedSlice } from '../../reconcile/sweep/sweep.ts'
import type { SweepReport } from '../../reconcile/sweep/sweep-report.ts'

export interface LogReporter {
  observe(event: TelemetryEvent): void
  /** Logs the start or end of an incident, or its state at the end of the process or its lead. */
  incident(what: 'started' | 'ended' | 'open', incident: Incident): void
}

/** Every such interval, one full sweep is logged at info even without news. */
const signOfLifeMs = 900_000
/** A continuing failure is logged again after this time; the next one occurs at most 5 min later. */
const againMs = 600_000
/** A warning that did not occur for this long is logged again. */
const forgottenAfterMs = 3_600_000

/**
 * Key that identifies a failure. Token messages quote the identity host and may vary, as do the error codes of a dead network.
 * Each TLS code needs another remedy, so it is part of the key.
 */
function causeOf({ code, message, reason, stage }: CallFailure): string {
  if (reason === 'tls') return `${stage} tls ${code}`
  return stage === 'token' || code !== undefined ? `${stage} ${reason}` : `${reason} ${message}`
}

/** `from`: local time of the platform. */
function sliceFields({ failure, span }: SkippedSlice): LogFields['slice_skipped'] {
  const reason = failure?.reason ?? 'too-many-records'
  return { seconds: span.to - span.from, from: formatLocalSecond(span.from), reason }
}

function withoutZeros<Fields extends object>(fields: Fields): Partial<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== 0)) as Partial<Fields>
}

const countedAs = {
  recovered: 'recovered',
  'failed-again': 'failedAgain',
  unknown: 'unknown',
} as const satisfies Record<Outcome, string>

/** `identity`: this instance as a holder of the lease. */
export function createLogReporter(log: Log, clock: Pick<Clock, 'monotonic'>, identity = ''): LogReporter {
  const sweepFailure = createCondition(clock, { againMs })
  const tokenFailure = createCondition(clock, { againMs })
  const noLease = createCondition(clock, { againMs })
  const noBooks = createCondition(clock, { againMs })
  const noKey = createCondition(clock)
  const skipped = createCondition(clock)
  const expiry = createCondition(clock)
  const unreadable = createCondition(clock, { quietMs: forgottenAfterMs })
  const openCircuits = new Set<string>()
  let since = { ...nothingSince }
  let listed = -1
  let sweepLoggedAt = -Infinity
  let hadToken = false

  function logRetry({ response, ...event }: FactOf<'retry'>): void {
    const { found, lost, problem, reason, result, status } = response
    since.retries += 1
    if (result === 'accepted') since.accepted += 1
    log.event('retry_answered', {
      ...event,
      explanation: sentenceOf(event.why),
      ...{ result, reason, status, problem, found, lost },
    })
  }

  function logOutcome(event: FactOf<'outcome'>): void {
    since[countedAs[event.outcome]] += 1
    log.event('retry_outcome', event)
  }

  function logCircuit(event: FactOf<'circuit'>): void {
    const { subscriptionId, to } = event
    if (to === 'open') {
      const isNew = !openCircuits.has(subscriptionId)
      openCircuits.add(subscriptionId)
      since.circuitsOpened += Number(isNew)
      log.event('circuit_opened', event, isNew ? 'warn' : 'debug')
    }
    if (to === 'closed') {
      const wasOpen = openCircuits.delete(subscriptionId)
      since.circuitsClosed += Number(wasOpen)
      log.event('circuit_closed', event, wasOpen ? 'info' : 'debug')
    }
  }

  function logToken(event: FactOf<'token-refreshed'>): void {
    if (event.result === 'ok') {
      const failures = tokenFailure.ends() || undefined
      log.event('token_obtained', { ...event, failures }, hadToken && failures === undefined ? 'debug' : 'info')
      hadToken = true
      return
    }
    const tlsCode = event.reason === 'tls' ? event.code : undefined
    const isNew = tokenFailure.begins([event.result, event.reason, event.oauthError, tlsCode].join(' '))
    const fields = { ...event, ...tokenFailure.soFar() }
    if (event.result === 'rejected') log.event('token_rejected', fields, isNew ? 'error' : 'debug')
    else log.event('token_unavailable', fields, isNew ? 'warn' : 'debug')
  }

  function logSweep({ report }: FactOf<'sweep'>): void {
    const { failed, failure, ...own } = report
    if (failure !== undefined) {
      const { message, ...why } = failure
      const isNew = sweepFailure.begins(causeOf(failure))
      const fields = { ...withoutZeros(own), ...why, ...sweepFailure.soFar(), problem: problemOf({ ...why, message }) }
      log.event('sweep_failed', fields, isNew ? 'error' : 'debug')
    } else if (own.kind === 'full') logFullSweep({ ...own, ...failed })
  }

  function logFullSweep(sweep: Omit<SweepReport, 'failed' | 'failure'>): void {
    const failures = sweepFailure.ends() || undefined
    const hasWork = failures !== undefined || Object.values(since).some((n) => n > 0)
    const isNews = hasWork || sweep.listed !== listed || sweep.result !== 'complete'
    const isSaid = isNews || clock.monotonic() - sweepLoggedAt >= signOfLifeMs
    if (isSaid) sweepLoggedAt = clock.monotonic()
    log.event('full_sweep_completed', withoutZeros({ ...sweep, ...since, failures }), isSaid ? 'info' : 'debug')
    if (since.expired === 0) expiry.ends()
    if (sweep.skippedSlices === 0) skipped.ends()
    since = { ...nothingSince }
    listed = sweep.listed
  }

  function logSkipped({ sweepId, ...slice }: FactOf<'slice-skipped'>): void {
    const fields = sliceFields(slice)
    const isNew = skipped.begins(Object.values(fields).join(' '))
    log.event('slice_skipped', { sweepId, ...fields }, isNew ? 'warn' : 'debug')
  }

  function logUnreadable({ rows, sweepId }: FactOf<'unreadable'>): void {
    for (const { field, id } of rows) {
      const isNew = unreadable.begins(id ?? `without id: ${field}`)
      log.event('record_unreadable', { sweepId, webhookId: id, field }, isNew ? 'warn' : 'debug')
    }
  }

  function logOperator(event: FactOf<'operator'>): void {
    if (event.command === 'probe') return log.event('operator_probed', event)
    if (event.command === 'retry') return log.event('retry_job_started', event)
    if (event.command === 'retry-ended') return log.event('retry_job_ended', event)
    const until = event.until === undefined ? undefined : new Date(event.until).toISOString()
    const name = event.command === 'pause' ? 'operator_paused' : 'operator_resumed'
    log.event(name, { ...event, until }, event.changed ? 'info' : 'debug')
  }

  function logIncident(what: 'started' | 'ended' | 'open', incident: Incident): void {
    const { begunBefore, oldestEvent, peak } = incident
    if (what === 'started') log.event('incident_started', { begunBefore, oldestEvent, peak })
    else log.event(`incident_${what}`, incident)
  }

  function logLedger({ problem, result }: FactOf<'ledger'>): void {
    if (problem !== undefined) {
      const isNew = noBooks.begins(result)
      return log.event('ledger_unusable', { problem, result, ...noBooks.soFar() }, isNew ? 'warn' : 'debug')
    }
    const failures = noBooks.ends()
    if (failures > 0) log.event('ledger_usable', { failures })
  }

  function logHour(event: FactOf<'hour-compared'>): void {
    const isNews = event.unprocessed > 0 || (event.withoutKey > 0 && noKey.begins())
    log.event('hour_compared', event, isNews ? 'warn' : 'debug')
  }

  function logNoLease(event: FactOf<'lease-unavailable'>): void {
    const isNew = noLease.begins(event.reason)
    log.event('lease_unavailable', { ...event, ...noLease.soFar() }, isNew ? 'warn' : 'debug')
  }

  /** Forgets what earlier terms logged: another instance has worked since. */
  function logLeading(event: FactOf<'leading'>): void {
    for (const condition of [sweepFailure, skipped, expiry, noBooks, noKey]) condition.ends()
    openCircuits.clear()
    since = { ...nothingSince }
    log.event('leading', { ...event, identity })
  }

  return {
    incident: logIncident,
    observe(event) {
      switch (event.type) {
        case 'retry':
          return logRetry(event)
        case 'outcome':
          return logOutcome(event)
        case 'circuit':
          return logCircuit(event)
        case 'receiver':
          if (event.up) return log.event('receiver_up', { detail: event.detail })
          return log.event('receiver_down', { detail: event.detail, advice: event.advice })
        case 'operator':
          return logOperator(event)
        case 'token-refreshed':
          return logToken(event)
        case 'token-scope-missing':
          return log.event('token_scope_missing', event)
        case 'credential-reloaded':
          return log.event('credential_reloaded', event)
        case 'credential-reload-failed':
          return log.event('credential_reload_failed', event)
        case 'trouble':
          if (event.trouble === undefined) return log.event('platform_available', {})
          return log.event('platform_unavailable', { cause: event.trouble, ...event.call })
        case 'sweep':
          return logSweep(event)
        case 'slice-skipped':
          return logSkipped(event)
        case 'unreadable':
          return logUnreadable(event)
        case 'expired':
          since.expired += event.records
          return log.event('records_expired', event, expiry.begins() ? 'warn' : 'debug')
        case 'returned':
          return log.event('records_returned', event)
        case 'ledger':
          return logLedger(event)
        case 'hour-compared':
          return logHour(event)
        case 'leading':
          return logLeading(event)
        case 'standing-by':
          return log.event('standing_by', event, ['released', 'seen'].includes(event.cause) ? 'info' : 'warn')
        case 'lease-unavailable':
          return logNoLease(event)
        case 'lease-available':
          return log.event('lease_available', { failures: noLease.ends() })
        case 'token-request':
        case 'platform-request':
        case 'unexpected':
          return
        default:
          event satisfies never
      }
    },
  }
}
