// Logs events: changes of state and full sweeps that did something at info and above, repetitions and single records at debug.
import type { Clock } from '../../runtime/clock.ts'
import type { TelemetryEvent } from '../events.ts'
import type { LogEventFields } from './log-events.ts'
import type { Log } from './log.ts'
import { createCondition, createLimit } from './repetition.ts'
import type { RetryEvent } from '../../reconcile/retry/dispatcher.ts'
import { sentenceOf } from '../../reconcile/reasons.ts'
import type { OutcomeEvent } from '../../reconcile/confirm/outcomes.ts'
import type { Outcome } from '../../reconcile/confirm/evidence.ts'
import type { SkippedSlice } from '../../reconcile/sweep/sweep.ts'
import type { SweepReport } from '../../reconcile/sweep/sweep-report.ts'

export interface LogReporter {
  observe(event: TelemetryEvent): void
}

type FactOf<Type extends TelemetryEvent['type']> = Extract<TelemetryEvent, { type: Type }>
type TokenRefreshed = FactOf<'token-refreshed'>

/** A larger offset of attempt times means a wrong time zone. */
const wrongZoneMs = 600_000
/** One full sweep in this time is logged at info, even when it shows nothing new. */
const signOfLifeMs = 900_000
/** A warning that has not occurred for this long is logged again when it does. */
const forgottenAfterMs = 3_600_000

/**
 * Key by which two failures count as the same. Messages of the token quote the identity host and may differ each time, and
 * a network that is down shows varying codes. Each TLS code needs another remedy, so it is part of the key.
 */
function causeOf({ failure }: SweepReport): string {
  if (failure?.reason === 'tls') return `${failure.stage} tls ${failure.code}`
  const isVague = failure?.stage === 'token' || failure?.code !== undefined
  return isVague ? `${failure?.stage} ${failure?.reason}` : `${failure?.reason} ${failure?.message}`
}

function sweepFields(
  report: SweepReport,
): Omit<LogEventFields['sweep_failed'], 'stage' | 'reason' | 'problem' | 'advice'> {
  return {
    sweepId: report.id,
    kind: report.kind,
    result: report.result,
    seconds: Math.round(report.seconds * 1000) / 1000,
    slices: report.slices,
    listed: report.listed,
    ...Object.fromEntries(Object.entries(report.failed ?? {}).filter(([, count]) => count > 0)),
    ...(report.continued && { continued: true }),
    ...(report.incompleteSlices > 0 && { incompleteSlices: report.incompleteSlices }),
    ...(report.skippedSlices > 0 && { skippedSlices: report.skippedSlices }),
  }
}

/** `from`: local time of the platform. */
export function sliceFields({ reason, span }: SkippedSlice): { seconds: number; from: string; reason: string } {
  const from = new Date(span.from * 1000).toISOString().slice(0, 19)
  return { seconds: span.to - span.from, from, reason }
}

type CountFields = Record<AlwaysCount | OptionalCount, number>

/** Counted from one full sweep to the next. The first four are logged even when they are 0. */
function nothingSince(): CountFields {
  return {
    retries: 0,
    accepted: 0,
    recovered: 0,
    failedAgain: 0,
    unknown: 0,
    expired: 0,
    circuitsOpened: 0,
    circuitsClosed: 0,
  }
}
const optionalCounts = ['unknown', 'expired', 'circuitsOpened', 'circuitsClosed'] as const
type OptionalCount = (typeof optionalCounts)[number]
type AlwaysCount = 'retries' | 'accepted' | 'recovered' | 'failedAgain'

const countedAs = {
  recovered: 'recovered',
  'failed-again': 'failedAgain',
  unknown: 'unknown',
} as const satisfies Record<Outcome, string>

/** `identity`: of this instance as a holder of the lease. */
export function createLogReporter(log: Log, clock: Pick<Clock, 'monotonic'>, identity = ''): LogReporter {
  const sweepFailure = createCondition(clock)
  const tokenFailure = createCondition(clock)
  const skipped = createCondition(clock)
  const expiry = createCondition(clock)
  const noLease = createCondition(clock)
  const unreadable = createCondition(clock, forgottenAfterMs)
  const unexpected = createCondition(clock, forgottenAfterMs)
  const earlyAtLimit = createCondition(clock, forgottenAfterMs)
  const wrongZone = createCondition(clock, forgottenAfterMs)
  const limits = {
    opened: createLimit(clock),
    closed: createLimit(clock),
    skipped: createLimit(clock),
    unreadable: createLimit(clock),
  }
  /** Circuits that opened and are not closed yet; true when that was logged above debug. */
  const openCircuits = new Map<string, boolean>()
  let since = nothingSince()
  let listed = -1
  let sweepLoggedAt = -Infinity
  let hadToken = false
  /** Offset of the last attempt seen. */
  let lastOffsetMs = 0

  function logRetry({ answer, ...event }: RetryEvent): void {
    if (!answer.sent) return
    since.retries += 1
    if (answer.result === 'accepted') since.accepted += 1
    log.event('retry_answered', {
      webhookId: event.id,
      eventId: event.eventId,
      subscriptionId: event.subscriptionId,
      eventType: event.eventType,
      why: event.because,
      explanation: sentenceOf(event.because),
      result: answer.result,
      reason: answer.reason,
      found: answer.found,
    })
  }

  function logOutcome(event: OutcomeEvent): void {
    since[countedAs[event.outcome]] += 1
    if (event.timeOffsetMs !== undefined) logOffset(event.timeOffsetMs)
    log.event('retry_outcome', {
      webhookId: event.id,
      eventId: event.eventId,
      subscriptionId: event.subscriptionId,
      eventType: event.eventType,
      outcome: event.outcome,
      sinceEventMs: Math.round(event.sinceEventMs),
      sinceRetryMs: Math.round(event.sinceRetryMs),
      responseStatusCode: event.responseStatusCode ?? undefined,
    })
  }

  function logCircuit({ type: _, pauseMs: exactMs, subscriptionId, to, ...judgement }: FactOf<'circuit'>): void {
    if (to === 'open') {
      const isFirst = !openCircuits.has(subscriptionId)
      const { passes, suppressed } = isFirst ? limits.opened() : { passes: false, suppressed: undefined }
      if (isFirst) {
        openCircuits.set(subscriptionId, passes)
        since.circuitsOpened += 1
      }
      const pauseMs = exactMs === undefined ? undefined : Math.round(exactMs)
      const responseStatusCode = judgement.responseStatusCode ?? undefined
      const fields = { subscriptionId, pauseMs, ...judgement, responseStatusCode, suppressed }
      log.event('circuit_opened', fields, passes ? 'warn' : 'debug')
    }
    if (to === 'closed') {
      const { passes, suppressed } =
        openCircuits.get(subscriptionId) === true ? limits.closed() : { passes: false, suppressed: undefined }
      log.event('circuit_closed', { subscriptionId, suppressed }, passes ? 'info' : 'debug')
      if (openCircuits.delete(subscriptionId)) since.circuitsClosed += 1
    }
  }

  function logToken(event: Extract<TokenRefreshed, { result: 'success' }>): void {
    const { expiresInSeconds } = event
    const failures = tokenFailure.ends() || undefined
    log.event('token_obtained', { expiresInSeconds, failures }, hadToken && failures === undefined ? 'debug' : 'info')
    hadToken = true
  }

  function logNoToken(event: Exclude<TokenRefreshed, { result: 'success' }>): void {
    const tlsCode = event.reason === 'tls' ? event.transportCode : undefined
    const isNew = tokenFailure.begins([event.result, event.reason, event.oauthError, tlsCode].join(' '))
    const fields = {
      result: event.result,
      reason: event.reason,
      oauthError: event.oauthError,
      description: event.description,
      code: event.transportCode,
      retryInMs: Math.round(event.retryInMs),
      tokenHeld: event.tokenHeld,
    }
    if (event.result === 'rejected') log.event('token_rejected', fields, isNew ? 'error' : 'debug')
    else log.event('token_unavailable', fields, isNew ? 'warn' : 'debug')
  }

  function logFailedSweep(report: SweepReport): void {
    const { failure } = report
    const isNew = sweepFailure.begins(causeOf(report))
    const fields = {
      ...sweepFields(report),
      stage: failure?.stage,
      reason: failure?.reason,
      problem: failure?.message,
      advice: failure?.advice,
    }
    log.event('sweep_failed', fields, isNew ? 'error' : 'debug')
  }

  function logFullSweep(report: SweepReport): void {
    const failures = sweepFailure.ends() || undefined
    const hasWork = failures !== undefined || Object.values(since).some((n) => n > 0)
    const isNews = hasWork || report.listed !== listed || report.result !== 'complete'
    const isSignOfLife = clock.monotonic() - sweepLoggedAt >= signOfLifeMs
    if (isNews || isSignOfLife) sweepLoggedAt = clock.monotonic()
    const { retries, accepted, recovered, failedAgain } = since
    const counts: Pick<CountFields, AlwaysCount> & Partial<CountFields> = { retries, accepted, recovered, failedAgain }
    for (const name of optionalCounts) if (since[name] > 0) counts[name] = since[name]
    log.event(
      'full_sweep_completed',
      { ...sweepFields(report), ...counts, failures },
      isNews || isSignOfLife ? 'info' : 'debug',
    )
    if (since.expired === 0) expiry.ends()
    if (report.skippedSlices === 0) skipped.ends()
    since = nothingSince()
    listed = report.listed
  }

  function logSweep(report: SweepReport): void {
    if (report.result === 'failed') logFailedSweep(report)
    else if (report.kind === 'full') logFullSweep(report)
  }

  function logSkipped({ sweepId, span, reason }: FactOf<'slice-skipped'>): void {
    const isNew = skipped.begins(`${span.from} ${span.to} ${reason}`)
    const { passes, suppressed } = isNew ? limits.skipped() : { passes: false, suppressed: undefined }
    const fields = { sweepId, ...sliceFields({ span, reason }), suppressed }
    log.event('slice_skipped', fields, passes ? 'warn' : 'debug')
  }

  function logUnreadable({ rows, sweepId }: FactOf<'unreadable'>): void {
    for (const { field, id } of rows) {
      const isNew = unreadable.begins(id ?? `without id: ${field}`)
      const { passes, suppressed } = isNew ? limits.unreadable() : { passes: false, suppressed: undefined }
      log.event('record_unreadable', { sweepId, webhookId: id, field, suppressed }, passes ? 'warn' : 'debug')
    }
  }

  function logExpired({ records }: FactOf<'expired'>): void {
    log.event('records_expired', { records }, expiry.begins() ? 'warn' : 'debug')
    since.expired += records
  }

  /** A wrong zone shifts every attempt, while a single one may be caused by another client: logs two in a row. */
  function logOffset(offsetMs: number): void {
    const smallerMs = Math.min(Math.abs(offsetMs), lastOffsetMs)
    lastOffsetMs = Math.abs(offsetMs)
    if (smallerMs <= wrongZoneMs) return
    const fields = { offsetSeconds: Math.round(smallerMs / 1000) }
    log.event('platform_time_offset', fields, wrongZone.begins() ? 'warn' : 'debug')
  }

  function logTrouble({ trouble }: FactOf<'trouble'>): void {
    if (trouble === undefined) log.event('platform_available', {})
    else log.event('platform_unavailable', { cause: trouble })
  }

  function logOperator(event: FactOf<'operator'>): void {
    if (event.command === 'probe') log.event('operator_probed', { circuits: event.circuits })
    else if (event.changed)
      log.event(event.command === 'pause' ? 'operator_paused' : 'operator_resumed', { via: event.via })
  }

  /** What earlier terms have logged is forgotten: another instance has worked since. */
  function logLeading({ transitions }: FactOf<'leading'>): void {
    for (const condition of [sweepFailure, skipped, expiry]) condition.ends()
    openCircuits.clear()
    since = nothingSince()
    log.event('leading', { identity, transitions })
  }

  function logStandingBy({ cause, leader, problem }: FactOf<'standing-by'>): void {
    log.event('standing_by', { cause, leader, problem }, cause === 'released' || cause === 'seen' ? 'info' : 'warn')
  }

  function logNoLease({ problem, reason }: FactOf<'lease-unavailable'>): void {
    log.event('lease_unavailable', { reason, problem }, noLease.begins(reason) ? 'warn' : 'debug')
  }

  return {
    observe(event) {
      switch (event.type) {
        case 'retry':
          return logRetry(event)
        case 'outcome':
          return logOutcome(event)
        case 'circuit':
          return logCircuit(event)
        case 'receiver':
          return log.event(event.up ? 'receiver_up' : 'receiver_down', { detail: event.detail })
        case 'operator':
          return logOperator(event)
        case 'token-refreshed':
          return event.result === 'success' ? logToken(event) : logNoToken(event)
        case 'token-scope-missing':
          return log.event('token_scope_missing', { requested: event.requested, granted: event.granted })
        case 'credential-reloaded':
          return log.event('credential_reloaded', {
            file: event.file,
            fingerprint: event.fingerprint,
            bits: event.bits,
          })
        case 'credential-reload-failed':
          return log.event('credential_reload_failed', { file: event.file, problem: event.problem })
        case 'trouble':
          return logTrouble(event)
        case 'sweep':
          return logSweep(event.report)
        case 'slice-skipped':
          return logSkipped(event)
        case 'unreadable':
          return logUnreadable(event)
        case 'unexpected': {
          const fields = { sweepId: event.sweepId, wrongTime: event.time, wrongStatus: event.status }
          return log.event('records_unexpected', fields, unexpected.begins() ? 'warn' : 'debug')
        }
        case 'early-at-limit': {
          const fields = { sweepId: event.sweepId, records: event.records }
          return log.event('attempt_limit_early', fields, earlyAtLimit.begins() ? 'warn' : 'debug')
        }
        case 'expired':
          return logExpired(event)
        case 'leading':
          return logLeading(event)
        case 'standing-by':
          return logStandingBy(event)
        case 'lease-unavailable':
          return logNoLease(event)
        case 'lease-available':
          return log.event('lease_available', { failures: noLease.ends() })
        case 'token-request':
        case 'platform-request':
          return
        default:
          event satisfies never
      }
    },
  }
}
