// Notices about listing: a sweep that failed, list calls that fail or wait, rows that are unreadable, parts that are not listed. Pure functions.
import { throttledGapMs } from '../observe/progress.ts'
import { unreadableText } from '../platform/record.ts'
import { blockForUnknownTime, describeGate } from '../reconcile/retry/gates.ts'
import { isBroken, isLastSweepFailed, sawWindow, unsweptMs } from './figures.ts'
import { tokenBack, type NoticeCondition } from './condition-notices.ts'
import type { GateStatus, StatusFacts } from './status-document.ts'
import { callText, clockTime, fromNow, sentence, span, unlistedText, waitText } from './words.ts'

/** True while a gate already reports that calls are rejected. */
export const isRefused = ({ gates }: StatusFacts): boolean => gates.some(({ call }) => call !== null)

/** True while a gate already reports that lists fail. One of retries alone does not. */
const isListReported = ({ gates }: StatusFacts): boolean =>
  gates.some(({ call, gate }) => call !== null && (call.operation !== 'retry' || gate === 'platform'))

/** A Retry-After longer than this needs a person, and so do short ones while progress is overdue by as long. */
const longWaitMs = 900_000
export const isLongWait = (since: Date, now: Date): boolean => now.getTime() - since.getTime() > longWaitMs

/** True if no sweep has ended for long, though one was due. */
export function isSweepLate(status: StatusFacts): boolean {
  return unsweptMs(status) > longWaitMs && status.now.getTime() - status.progressDue.getTime() > longWaitMs
}

/** Advice while the platform's rate limit, with a pause of so many seconds, needs a person; undefined otherwise. */
export function throttleAdvice(status: StatusFacts, seconds: number): string | undefined {
  if (seconds * 1000 > longWaitMs)
    return "Ask the platform's operator to end it, then restart: the daemon obeys its Retry-After."
  if (seconds === 0 || !isSweepLate(status)) return undefined
  return `Ask the platform's operator to let calls through: no sweep has ended for ${span(unsweptMs(status))}.`
}

export const letThroughAdvice = "Ask the platform's operator to let retries through."

/** True if every retry has been throttled for long enough to need a person, up to now. */
export function isNoneLetThrough({ now, rate: { retriesThrottled: row } }: StatusFacts): boolean {
  const isLong = row !== null && row.until.getTime() - row.since.getTime() > longWaitMs
  return isLong && now.getTime() - row.until.getTime() <= throttledGapMs
}

/** A shorter run may be due to these records alone. */
export const minNotAccepted = 10
export const isNoneAccepted = ({ notAccepted }: StatusFacts): boolean => (notAccepted?.inARow ?? 0) >= minNotAccepted

/** Remaining pause of all calls, in seconds; 0 if none. */
const throttledSeconds = ({ gates }: StatusFacts): number =>
  gates.find(({ gate }) => gate === 'throttled')?.opensInSeconds ?? 0

/** If lists also fail, and not by a rejection, the platform is unavailable, whatever response retries got. */
export function asNow(shut: GateStatus, { listsFailing }: StatusFacts): GateStatus {
  const { call, gate } = shut
  const isOfRetries = gate === 'unauthorized' || gate === 'intercepted'
  if (!isOfRetries || listsFailing === null || call?.operation !== 'list') return shut
  if (call.reason === 'unauthorized' || call.reason === 'forbidden') return shut
  const { advice, reason, runbook = null } = describeGate('platform')
  return { ...shut, gate: 'platform', since: null, reason, advice, runbook }
}

/** Advice while all retries are blocked, for long or for an unknown time; undefined otherwise. */
export function stopAdvice(status: StatusFacts): string | undefined {
  const { gates, listsFailing, sweeps, tokenTrouble } = status
  const stop = gates.find((gate) => blockForUnknownTime([gate]))
  if (stop !== undefined) return asNow(stop, status).advice
  // No gate shuts before a retry is tried.
  if (tokenTrouble !== null && isBroken(status)) return sentence(tokenTrouble.advice)
  if (isLastSweepFailed(status) && listsFailing !== null) return sentence(sweeps[0]?.advice ?? 'see the log')
  if (isNoneLetThrough(status) || isNoneAccepted(status)) return letThroughAdvice
  return throttleAdvice(status, throttledSeconds(status))
}

/** Age of the data while sweeps fail. */
function sinceLastSweep({ lastFullSweep, now }: StatusFacts): string {
  if (lastFullSweep === null) return 'No full sweep has succeeded yet.'
  const since = `${clockTime(lastFullSweep, now)} UTC, ${fromNow(lastFullSweep, now)}`
  return `No full sweep has succeeded since ${since}: newer failures are not known.`
}

/** A sweep repeats list calls that fail for less than this. */
const passingListMs = 15_000

/** The daemon lists again after its backoff, without a person. */
function nextSweepText({ nextSweep, now }: StatusFacts): string {
  const ms = (nextSweep?.getTime() ?? 0) - now.getTime()
  return ms > 0 ? ` The next sweep begins in ${waitText(ms)}.` : ''
}

/** A part that was unlistable for less than this may be a transient failure. */
const passingMs = 600_000

/** Conditions of listing. */
export function sweepConditions(status: StatusFacts): NoticeCondition[] {
  const { listsFailing, now, rate, sweeps, unlisted, unreadable } = status
  const failed = isLastSweepFailed(status) ? sweeps[0] : undefined
  const { since = now, until = now, reason = 'other' } = listsFailing ?? {}
  const isListFailing = until.getTime() - since.getTime() >= passingListMs
  // A pause of all calls has a gate: only a longer pause of lists is reported.
  const listsWaitMs = (rate.throttledForSeconds - throttledSeconds(status)) * 1000
  const listsAdvice = throttleAdvice(status, rate.throttledForSeconds)
  return [
    failed?.stage === 'token' && status.tokenTrouble === null && !isRefused(status) && tokenBack,
    failed !== undefined &&
      failed.stage !== 'token' &&
      !isListReported(status) && {
        level: 'trouble',
        ...(listsFailing === null
          ? {
              text: 'The last sweep failed, but the platform responds again.',
              advice: 'Nothing to do if the next sweep succeeds.',
            }
          : {
              text: sentence(failed.problem ?? 'the last sweep failed'),
              advice: sentence(failed.advice ?? 'see the log'),
            }),
        detail: `${sinceLastSweep(status)}${nextSweepText(status)}`,
        runbook: 'SweepStalled',
      },
    failed === undefined &&
      isListFailing &&
      !isListReported(status) && {
        level: 'waiting',
        text: `No list call has succeeded since ${clockTime(since, now)} UTC: ${callText({ reason })}.`,
        advice: "If it lasts for 15 min, ask the platform's operator.",
        runbook: 'SweepStalled',
      },
    listsWaitMs > passingListMs && {
      level: listsAdvice === undefined ? 'working' : 'trouble',
      text: 'The platform demands a pause of lists: sweeps and checks wait.',
      detail: `It ends in ${waitText(rate.throttledForSeconds * 1000)}.`,
      advice: listsAdvice ?? describeGate('throttled').advice,
      runbook: 'Throttled',
    },
    unreadable !== null && {
      level: 'trouble',
      text: sentence(unreadableText(unreadable)),
      detail: 'They are neither counted nor retried.',
      advice: "Ask the platform's operator what has changed, or look for a newer version of the daemon.",
      runbook: 'UnreadableRecords',
    },
    unlisted !== null && {
      level: now.getTime() - unlisted.since.getTime() < passingMs ? 'waiting' : 'trouble',
      text: sentence(unlistedText(unlisted)),
      detail: 'Failed deliveries there are unknown and not retried. Listing is tried again at least once an hour.',
      advice: "Ask the platform's operator, or set window.lookback to what it lists, and restart.",
      runbook: 'SweepIncomplete',
    },
    failed === undefined &&
      unlisted === null &&
      status.lastFullSweep !== null &&
      !sawWindow(status) && {
        level: 'waiting',
        text: 'The last full sweep did not see the whole window.',
        advice: 'Nothing to do unless this lasts 30 min: then look for slice_skipped or incompleteSlices in the log.',
        isAside: true,
        runbook: 'SweepIncomplete',
      },
  ]
}
