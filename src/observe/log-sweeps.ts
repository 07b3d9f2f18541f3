// Tells what sweeps saw as log lines: what changed once, what goes on in the sweep's own line, and never more than a few lines a sweep.
import type { Clock } from '../runtime/clock.ts'
import type { LogMessage } from './log-events.ts'
import type { LogFields, Log } from './log.ts'
import type { Reason } from '../platform/http.ts'
import { tlsAdvice } from '../platform/tls-advice.ts'
import type { SweeperFact, SweepKind, SweepReport } from '../reconcile/sweep/sweep-report.ts'

type FactOf<Type extends SweeperFact['type']> = Extract<SweeperFact, { type: Type }>

export interface SweepNarrator {
  tell(fact: SweeperFact): void
  /** Counts what has happened, for the next full sweep's line. */
  note(what: Noted, by?: number): void
  /** How far an attempt of ours lies outside the time in which it was made. */
  tellOffset(offsetMs: number): void
}

/** What is counted from one full sweep to the next, in the order in which its line tells it. */
const notable = [
  'retries',
  'accepted',
  'recovered',
  'failedAgain',
  'unknown',
  'lapsed',
  'circuitsOpened',
  'circuitsClosed',
] as const
export type Noted = (typeof notable)[number]
type Since = Record<Noted, number>

/** Told also when there was none of it. */
const alwaysTold: ReadonlySet<string> = new Set<Noted>(['retries', 'accepted', 'recovered', 'failedAgain'])

/** Ids that are told as unreadable one by one. */
const mostUnreadableTold = 1_000
/** Parts of the window that are told as left out, until a full sweep leaves none out. */
const mostSkippedTold = 20
/** A warning that did not come for so long is given anew when it does. */
const forgottenAfterMs = 3_600_000
/** Attempt times that are off by more mean another zone. */
const wrongZoneMs = 600_000

/** What a person can look at when the list can't be had. The token's own failures bring their advice along. */
const adviceByReason: Readonly<Partial<Record<Reason, string>>> = {
  connection: 'nothing answers there: check platform.baseUrl and the network path',
  timeout: 'no whole answer within platform.requestTimeout: check the network path, or allow more time',
  redirect: 'redirects are not followed: check platform.baseUrl',
  'not-found': 'check the path in platform.baseUrl: /webhooks is asked for below it',
  'invalid-body': 'check platform.baseUrl, and that no login page or proxy answers in its place',
  unauthorized: 'the platform refuses the tokens that it issues: ask its operator, or check platform.baseUrl',
  forbidden: "have the platform's operator give the service account access to the webhooks",
}
const generalAdvice = "if it lasts, ask the platform's operator"

function adviceFor({ code, reason }: Pick<NonNullable<SweepReport['failure']>, 'code' | 'reason'>): string {
  return reason === 'tls' ? tlsAdvice(code) : (adviceByReason[reason] ?? generalAdvice)
}

function nothing(): Since {
  return Object.fromEntries(notable.map((what) => [what, 0])) as Since
}

function fieldsOf(report: SweepReport): LogFields {
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

/**
 * What makes two failures the same. The token's message quotes the other side, which may say it anew each time; a network
 * that is down says so by one code and then by another, but each code of TLS needs another remedy.
 */
function keyOf({ failure }: SweepReport): string {
  if (failure?.reason === 'tls') return `${failure.stage} tls ${failure.code}`
  const isVague = failure?.stage === 'token' || failure?.code !== undefined
  return isVague ? `${failure?.stage} ${failure?.reason}` : `${failure?.reason} ${failure?.message}`
}

export function createSweepNarrator(log: Log, clock: Pick<Clock, 'monotonic'>): SweepNarrator {
  /** Kinds of sweep that fail at present, and why. */
  const troubles = new Map<SweepKind, string>()
  let failures = 0
  const unreadableTold = new Set<string>()
  const skippedTold = new Set<string>()
  /** Warnings that need to be given once, and when they last came up, on the monotonic clock. */
  const warned = new Map<string, number>()
  let since = nothing()
  let isLosing = false
  let listed = -1
  /** How far the attempt that was seen last was off. */
  let lastOffsetMs = 0

  function warnOnce(type: string, message: LogMessage, fields: LogFields): void {
    const now = clock.monotonic()
    const isKnown = now - (warned.get(type) ?? -Infinity) < forgottenAfterMs
    if (isKnown) log.debug(message, fields)
    else log.warn(message, fields)
    warned.set(type, now)
  }

  /** A repeated identical failure is told once, and its count when it is over. */
  function tellFailure(report: SweepReport): void {
    const { failure, kind } = report
    const key = keyOf(report)
    const isKnown = [...troubles.values()].includes(key)
    troubles.set(kind, key)
    failures += 1
    if (isKnown) {
      log.debug('sweep failed again', { ...fieldsOf(report), reason: failure?.reason })
      return
    }
    log.error('sweep failed, trying again', {
      ...fieldsOf(report),
      stage: failure?.stage,
      reason: failure?.reason,
      problem: failure?.message,
      ...(failure?.stage === 'list' && { advice: adviceFor(failure) }),
    })
  }

  function tellFull(report: SweepReport): void {
    const noted = Object.entries(since)
    const didSomething =
      noted.some(([, count]) => count > 0) || report.listed !== listed || report.result !== 'complete'
    const shown = noted.filter(([what, count]) => count > 0 || alwaysTold.has(what))
    const fields = { ...fieldsOf(report), ...Object.fromEntries(shown) }
    if (didSomething) log.info('full sweep', fields)
    else log.debug('full sweep', fields)
    isLosing = since.lapsed > 0
    since = nothing()
    listed = report.listed
    if (report.skippedSlices === 0) skippedTold.clear()
  }

  function tellSweep(report: SweepReport): void {
    if (report.result === 'failed') {
      tellFailure(report)
      return
    }
    const wasTrouble = troubles.size > 0
    troubles.delete(report.kind)
    // A full sweep begins with what a recent one sees; while nothing has to rest, no recent one comes.
    if (report.kind === 'full') troubles.delete('recent')
    if (wasTrouble && troubles.size === 0) {
      log.info('sweeps work again', { sweepId: report.id, failures })
      failures = 0
    }
    if (report.kind === 'full') tellFull(report)
    else log.debug('recent sweep', fieldsOf(report))
  }

  function tellSkipped({ sweepId, span, reason }: FactOf<'slice-skipped'>): void {
    const key = `${span.from} ${span.to} ${reason}`
    const fields = {
      sweepId,
      seconds: span.to - span.from,
      from: new Date(span.from * 1000).toISOString().slice(0, 19),
      reason,
    }
    const message = 'a part of the window cannot be listed, it is left out'
    if (skippedTold.has(key) || skippedTold.size >= mostSkippedTold) log.debug(message, fields)
    else log.warn(message, fields)
    if (skippedTold.size < mostSkippedTold) skippedTold.add(key)
  }

  function tellUnreadable({ rows, sweepId }: FactOf<'unreadable'>): void {
    for (const row of rows) {
      if (unreadableTold.size >= mostUnreadableTold) return
      const key = row.id ?? `without id: ${row.field}`
      if (unreadableTold.has(key)) continue
      unreadableTold.add(key)
      log.warn('a listed record cannot be read, it is passed over', { sweepId, webhookId: row.id, field: row.field })
      if (unreadableTold.size < mostUnreadableTold) continue
      log.warn('too many records cannot be read to tell them one by one: see the metric unreadable_records_total', {
        sweepId,
      })
    }
  }

  function note(what: Noted, by = 1): void {
    since[what] += by
  }

  function tellLapsed({ records }: FactOf<'lapsed'>): void {
    const message = 'failed records have left the window, nobody retries them any more: see window.lookback'
    if (isLosing) log.debug(message, { records })
    else log.warn(message, { records })
    isLosing = true
    note('lapsed', records)
  }

  /** A wrong zone moves every attempt; a single one may have been made by somebody else: two in a row are told. */
  function tellOffset(offsetMs: number): void {
    const min = Math.min(Math.abs(offsetMs), lastOffsetMs)
    lastOffsetMs = Math.abs(offsetMs)
    if (min <= wrongZoneMs) return
    warnOnce('time-offset', 'attempt times do not fit: is platform.timeZone right?', {
      offsetSeconds: Math.round(min / 1000),
    })
  }

  return {
    note,
    tellOffset,
    tell(fact) {
      switch (fact.type) {
        case 'sweep':
          tellSweep(fact.report)
          return
        case 'slice-skipped':
          tellSkipped(fact)
          return
        case 'unreadable':
          tellUnreadable(fact)
          return
        case 'unexpected':
          warnOnce(fact.type, 'the platform lists records that were not asked for, they are not retried', {
            sweepId: fact.sweepId,
            wrongTime: fact.time,
            wrongStatus: fact.status,
          })
          return
        case 'early-at-limit':
          warnOnce(
            fact.type,
            'records younger than ten minutes are at the attempt limit: does the platform retry by itself?',
            { sweepId: fact.sweepId, records: fact.records },
          )
          return
        case 'lapsed':
          tellLapsed(fact)
          return
        case 'tick-skipped':
          return
        default:
          fact satisfies never
      }
    },
  }
}
