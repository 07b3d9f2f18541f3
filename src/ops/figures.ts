// The figures of /status for page and terminal: missing and recovered deliveries, the estimated end, and the age of the data.
import { describeGate, reasonOf, type Gate } from '../reconcile/retry/gates.ts'
import { maxUnsweptMs } from '../reconcile/sweep/sweep-report.ts'
import { count, counted } from '../runtime/counted.ts'
import { decisionLines } from './cause-columns.ts'
import type { CauseStatus } from './causes.ts'
import type { GateStatus, StatusFacts } from './status-document.ts'
import { clockTime, fromNow, span, subscriptionName } from './words.ts'

const [minuteMs, dayMs] = [60_000, 24 * 3_600_000]

/** Missing deliveries that are retried. */
export const openOf = ({ expired, failed, missing }: StatusFacts): number => missing - failed.exhausted - expired

/** True when the last sweep of any kind failed: newer failures are unknown. */
export function isLastSweepFailed({ sweeps }: StatusFacts): boolean {
  return sweeps[0]?.result === 'failed'
}

/** Time since a sweep of any kind ended, or since the first could begin. */
export function unsweptMs({ lastFullSweep, leadership, now, startedAt, sweeps: [last] }: StatusFacts): number {
  return now.getTime() - (last?.endedAt ?? lastFullSweep ?? leadership?.since ?? startedAt).getTime()
}

/** After this long without a sweep, some failures may be uncounted. */
const staleMs = 120_000

/** True while more may be missing than is known: during a full sweep, without a recent sweep, with a full backlog, or with future events. */
function isPartlyKnown(status: StatusFacts): boolean {
  const { aheadOfClock, causes, fullSweepUnderWay, missing } = status
  return (
    aheadOfClock > 0 || (missing > 0 && (fullSweepUnderWay || unsweptMs(status) > staleMs || causes.onlyCounted > 0))
  )
}

/** Includes deliveries of events ahead of the platform's clock. */
const knownMissing = ({ aheadOfClock, missing }: StatusFacts): number => missing + aheadOfClock

export const isZoneWrong = ({ drain }: StatusFacts): boolean => drain.limitedBy === 'zone'

/**
 * True when the last full sweep saw the whole window, and the last sweep of any kind everything it listed. Otherwise more may
 * be missing than counted.
 */
export function isWholeKnown(status: StatusFacts): boolean {
  const { sweeps, unlisted, unreadable } = status
  const [last] = sweeps
  if ((last !== undefined && last.result !== 'complete') || unreadable !== null || unlisted !== null) return false
  if (isZoneWrong(status) || isPartlyKnown(status)) return false
  return sawWindow(status)
}

export function sawWindow({ lastCompleteSweep, lastFullSweep }: StatusFacts): boolean {
  return lastFullSweep !== null && lastCompleteSweep !== null && lastCompleteSweep >= lastFullSweep
}

/** How long repeatedly rejected records are retried. */
function untilWhen({ causes, firstExpiry, now }: StatusFacts): string {
  const limits = causes.list.map(({ firstExhausted }) => firstExhausted?.getTime() ?? Infinity)
  const expiry = firstExpiry?.getTime() ?? Infinity
  const limit = Math.min(...limits, expiry)
  const end = limit < expiry ? 'reaches retry.maxAttempts' : 'leaves the window'
  const first = limit === Infinity ? '' : `, the first ${fromNow(new Date(limit), now)}`
  return `Each is retried until it arrives or ${end}${first}.`
}

/** A sentence on repeatedly rejected records: how the receiver responds to them. */
export function refusedText(records: number, causes: readonly CauseStatus[]): string {
  const refusing = causes.filter(({ refusedAgain }) => refusedAgain > 0)
  const codes = new Set(refusing.map(({ responseStatusCode }) => responseStatusCode))
  const isSilent = codes.size === 1 && codes.has(null)
  // Only the largest causes are listed: without one of them, the responses are unknown.
  const isMixed = codes.size === 0 || codes.has(null)
  const does = isSilent ? 'does not respond to' : isMixed ? 'keeps failing' : 'keeps rejecting'
  return `The receiver ${does} ${counted(records, 'delivery', 'deliveries')}.`
}

/** A sentence on deliveries whose retries have no effect on the platform. */
export const unattemptedText = ({ unattempted }: Pick<StatusFacts, 'unattempted'>): string =>
  `The platform shows no attempt after the last three retries of ${counted(unattempted, 'delivery', 'deliveries')}.`

/** True where the daemon rejects commands that retry. */
export const isDisabled = ({ gates }: Pick<StatusFacts, 'gates'>): boolean =>
  gates.some(({ gate }) => gate === 'disabled')

/** The platform's time, by which event times and those of single records are given. */
export const platformNow = ({ clock, now }: Pick<StatusFacts, 'clock' | 'now'>): Date =>
  new Date(now.getTime() + 1000 * clock.skewSeconds.api)

/** Why the end is unknown. */
function unknownEnd(status: StatusFacts): string {
  const { circuits, drain, failed, mended, refusedAgain, subscriptions: names } = status
  // Failures before the receiver recovered do not affect the remaining records.
  const isOver = drain.limitedBy === 'failing' && mended !== null && mended.records === failed['backing-off']
  switch (isOver ? 'backoff' : drain.limitedBy) {
    case 'gate':
      return 'Retries are blocked.'
    case 'paused': {
      const { pausedDeliveries } = status
      return `${counted(pausedDeliveries, 'delivery waits', 'deliveries wait')} for the end of an operator's pause.`
    }
    case 'throttled':
      return `The platform limits the retries of ${counted(status.throttled?.deliveries ?? 0, 'delivery', 'deliveries')} alone.`
    case 'circuit': {
      const [only] = circuits.list
      const whom =
        circuits.notClosed === 1 && only !== undefined
          ? `subscription ${subscriptionName(only.subscriptionId, names)}`
          : counted(circuits.notClosed, 'subscription')
      return `${counted(circuits.deliveries, 'delivery waits', 'deliveries wait')} for ${whom}.`
    }
    case 'refused':
      return `${refusedText(refusedAgain, status.causes.list)} ${untilWhen(status)}`
    case 'unattempted':
      return unattemptedText(status)
    case 'unproven':
      return `The outcome of ${counted(status.unproven, 'retry', 'retries')} is unknown.`
    case 'zone':
      return 'Fix platform.timeZone and restart the daemon first.'
    case 'outcomes':
      return `${counted(failed.awaiting, 'retry awaits its outcome', 'retries await their outcomes')}.`
    case 'pace':
      return drain.recoveredPerMinute > 0
        ? 'The pace has not been steady for two minutes.'
        : 'Nothing recovered in the last minute.'
    case 'failing':
      return `${Math.round(100 * drain.failedShare)} % of the recent retries failed again.`
    case 'backoff':
      return status.lastBackoff === null
        ? 'Some deliveries are only counted.'
        : `Not before ${clockTime(status.lastBackoff, status.now)}, when the last backoff ends.`
  }
}

/** The number of missing deliveries (`7,000`, `at least 12`, `none known`), and their decisions. */
export function missingOf(status: StatusFacts): readonly [number: string, parts: string[]] {
  const { aheadOfClock, causes, expired, failed, lastFullSweep, missing } = status
  const others = [
    ...(causes.onlyCounted > 0 ? [`${count(causes.onlyCounted)} only counted`] : []),
    ...(expired > 0 ? [`${count(expired)} expired`] : []),
    ...(aheadOfClock > 0 ? [`${count(aheadOfClock)} ahead of the clock`] : []),
  ]
  const parts = [...decisionLines({ ...failed, excluded: 0 }, others.length > 0), ...others]
  if (isWholeKnown(status)) return [count(missing), parts]
  if (knownMissing(status) > 0) return [`at least ${count(knownMissing(status))}`, parts]
  return [lastFullSweep === null ? 'not known yet' : 'none known', parts]
}

/** True for trouble whose end only a retry could show, while there is none to send. */
export function isPast({ call, gate, opensInSeconds }: GateStatus, status: StatusFacts): boolean {
  const isOfRetries = gate === 'unauthorized' || gate === 'intercepted'
  return isOfRetries && opensInSeconds === null && call?.operation !== 'list' && openOf(status) === 0
}

/** Gates that block all retries and probes. */
function blockersOf(status: StatusFacts): Gate[] {
  const { gates, now, tokenExpires, tokenTrouble } = status
  const shut = gates.filter((one) => !isPast(one, status)).map(({ gate }) => gate)
  const lacksToken = tokenTrouble !== null && (tokenExpires === null || tokenExpires <= now)
  const all = new Set<Gate>([...(lacksToken ? (['no-token'] as const) : []), ...shut])
  return [...all].filter((gate) => describeGate(gate).blocks === 'everything')
}

/** Reasons that block all retries and probes, in words. */
export const blockedBy = (status: StatusFacts): string[] => blockersOf(status).map(reasonOf)

/** True while a fault blocks all retries. */
export const isBroken = (status: StatusFacts): boolean =>
  blockersOf(status).some((gate) => describeGate(gate).level === 'trouble')

/** True when no sweep has ended for longer than any rests: newer failures are unknown. */
export const isUnseen = (status: StatusFacts): boolean => unsweptMs(status) > maxUnsweptMs

/** True if the whole window is known as of a recent sweep, and no fault prevents the next one. */
export const isUpToDate = (status: StatusFacts): boolean =>
  isWholeKnown(status) && !isUnseen(status) && !isBroken(status)

/** There may be newer failures that no sweep has seen yet: after recent ones, or with a long `window.settle`. */
function isUnsettled({ incident, now, recovered, seenUntil }: StatusFacts): boolean {
  const isWithin = (at: Date | null): boolean => at !== null && now.getTime() - at.getTime() < unsettledMs
  return isWithin(recovered.lastAt) || incident?.endedAt === null || !isWithin(seenUntil ?? now)
}

const eventsUntil = (status: StatusFacts): string =>
  countedUntil(status, ' of events')
    .map((until) => `${until} UTC`)
    .join('')

/** The next sweep shows newer failures. */
const newerText = (status: StatusFacts): string =>
  `Nothing is missing${eventsUntil(status)}; newer failures are not known yet.`

const unsettledMs = 300_000

/** After this long without an arrival, and twice the usual interval, none arrive now. */
const arrivingMs = 15_000

/** The number of recovered deliveries, since when, and the time of the last; while they arrive, their pace. */
export function recoveredOf(status: StatusFacts): {
  total: string
  since: string
  atPace: string | undefined
} {
  const { drain, failed, missing, now, recovered, startedAt } = status
  const uptime = now.getTime() - startedAt.getTime()
  const since = uptime < dayMs ? `in the ${span(uptime)} since the start` : 'in the last 24 h'
  const last = recovered.lastAt === null ? '' : `; the last ${fromNow(recovered.lastAt, now)}`
  const perMinute = drain.recoveredPerMinute
  const quietMs = now.getTime() - (recovered.lastAt?.getTime() ?? 0)
  const maxQuietMs = Math.min(minuteMs, Math.max(arrivingMs, (2 * minuteMs) / perMinute))
  // Records that still back off do not arrive at an earlier pace.
  const isLeft = perMinute <= missing || failed['backing-off'] < missing
  const isArriving = missing > 0 && isLeft && drain.limitedBy !== 'gate' && quietMs < maxQuietMs
  return {
    total: count(recovered.lastDay),
    since: `${since}${last}`,
    atPace: isArriving ? `${count(perMinute < 10 ? perMinute : Math.round(perMinute))} a minute` : undefined,
  }
}

/** The event time up to which failures are counted, with a prefix; empty if unknown. */
export function countedUntil(status: StatusFacts, words: string): string[] {
  const { now, seenUntil } = status
  return seenUntil === null || isZoneWrong(status) ? [] : [`${words} up to ${clockTime(seenUntil, now)}`]
}

/** When the last full sweep ended, and what it counted. */
export function seenText(status: StatusFacts): string {
  const { books, lastFullSweep, now } = status
  if (lastFullSweep === null) return 'none yet'
  const next = status.fullSweepUnderWay && status.missing > 0 ? ['the next one is under way'] : []
  const compared = books === null ? [] : [`ledger compared up to ${clockTime(books.comparedUntil, now)}`]
  return [fromNow(lastFullSweep, now), ...next, ...countedUntil(status, 'newest events'), ...compared].join(', ')
}

/** The estimated end of recovery, and its basis. */
export function doneOf(status: StatusFacts): readonly [end: string, basis: string] {
  const { aheadOfClock, beyondWindow, books, drain, lastFullSweep, missing, now, stuckProcessing, tokenTrouble } =
    status
  if (lastFullSweep === null) return ['Not known yet', 'No full sweep has ended.']
  if (missing === 0) {
    if (books !== null && books.unprocessed.total > 0) return ['Never', 'Unprocessed deliveries cannot be retried.']
    if (stuckProcessing > 0) return ['Unknown', 'The platform is still processing some.']
    if (isUpToDate(status) && beyondWindow > 0)
      return ['Never', 'Deliveries older than window.lookback are not retried.']
    if (isWholeKnown(status) && !isUpToDate(status)) return ['Unknown', newerText(status)]
    if (isWholeKnown(status) && tokenTrouble !== null)
      return ['Unknown', 'Newer failures are not known once the token has expired.']
    if (isWholeKnown(status))
      return ['Now', isUnsettled(status) ? 'All that is known has arrived.' : 'Everything has arrived.']
    if (isLastSweepFailed(status)) return ['Unknown', 'Sweeps fail.']
    if (aheadOfClock > 0) return ['Unknown', `${count(aheadOfClock)} are retried when their event times have come.`]
    if (!isZoneWrong(status)) return ['Unknown', 'Listing was incomplete.']
  }
  if (drain.doneAt === null) return ['Unknown', unknownEnd(status)]
  if (openOf(status) === 0) return ['Never', 'Exhausted and expired deliveries are not retried.']
  // To the minute: it is an estimate.
  const end = new Date(Math.ceil(drain.doneAt.getTime() / minuteMs) * minuteMs)
  const at = clockTime(end, now).slice(0, -':00'.length)
  const basis = drain.limitedBy === 'backoff' ? 'when the last backoff ends' : 'at this pace'
  const known = isPartlyKnown(status) ? ', for those known by now' : ''
  const others = [
    ...(openOf(status) < missing ? ['those given up'] : []),
    ...(drain.failedShare > 0 ? ['those that fail again'] : []),
  ].join(' and ')
  return [fromNow(end, now), `about ${at}, ${basis}${known}${others && `, without ${others}`}`]
}

/** The number of missing deliveries as a sentence; exhausted ones by that name if there are no others. */
export function missingText(status: StatusFacts): string {
  const { beyondWindow, books, expired, failed, lastFullSweep, missing, stuckProcessing } = status
  const are = counted(knownMissing(status), 'delivery is', 'deliveries are')
  if (knownMissing(status) > 0 && !isWholeKnown(status)) return `At least ${are} missing.`
  if (lastFullSweep === null) return 'Nothing is known yet.'
  if (isLastSweepFailed(status)) return `No missing delivery is known${eventsUntil(status)}.`
  if (!isWholeKnown(status)) return 'No missing delivery is known, but not all was listed and read.'
  // Known by their notices alone.
  const hasOthers = beyondWindow + stuckProcessing + (books?.unprocessed.total ?? 0) > 0
  if (missing === 0 && hasOthers) return 'No other missing delivery is known.'
  // After an outage, the last failures are seen one settling time later.
  const isAll = !hasOthers && isUpToDate(status) && !isUnsettled(status)
  if (missing === 0) return isAll ? 'Nothing is missing.' : newerText(status)
  if (expired > 0) return `${are} missing, ${count(missing - openOf(status))} of them not retried any more.`
  if (missing > failed.exhausted) return `${are} missing.`
  return isAll ? `${are} exhausted, nothing else is missing.` : `${are} exhausted.`
}
