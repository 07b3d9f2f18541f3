// Formats numbers, times and durations for people, on the status page and in the sentences of /status. Times are UTC.
import type { SweepFailure } from '../observe/progress.ts'
import type { Reason } from '../platform/http/http.ts'
import type { CallResponse } from '../platform/operations.ts'
import type { UnlistedSum } from '../reconcile/sweep/unlistable.ts'
import type { NextRetry } from '../reconcile/decide.ts'
import { count } from '../runtime/counted.ts'

const [secondMs, minuteMs, hourMs, dayMs] = [1000, 60_000, 3_600_000, 86_400_000]
const maxWordLength = 80

/** `1.9 of the 20 calls/s`: the learned rate, and the configured one if that is higher. */
export function rateText(rate: { callsPerSecond: number; maxCallsPerSecond: number }): string {
  const learned = rate.callsPerSecond < rate.maxCallsPerSecond ? `${count(rate.callsPerSecond)} of the ` : ''
  return `${learned}${count(rate.maxCallsPerSecond)} calls/s`
}

/** `12 s`, `5 min`, `3 h 20 min`, `2 d 4 h`, rounded to the second; a negative duration counts as zero. */
export function span(ms: number): string {
  const whole = Math.max(0, Math.round(ms / secondMs) * secondMs)
  const with_ = (big: number, bigName: string, small: number, smallName: string): string => {
    const rest = Math.floor((whole % big) / small)
    return `${Math.floor(whole / big)} ${bigName}${rest === 0 ? '' : ` ${rest} ${smallName}`}`
  }
  if (whole < minuteMs) return `${Math.floor(whole / secondMs)} s`
  if (whole < hourMs) return `${Math.floor(whole / minuteMs)} min`
  return whole < 2 * dayMs ? with_(hourMs, 'h', minuteMs, 'min') : with_(dayMs, 'd', hourMs, 'h')
}

/** Makes a clause a sentence. */
export function sentence(clause: string): string {
  return `${clause.charAt(0).toUpperCase()}${clause.slice(1)}${clause.endsWith('.') ? '' : '.'}`
}

/** `11:57:00` on the same day, otherwise `2026-01-14 11:57:00`. */
export function clockTime(at: Date, now: Date): string {
  const [day = '', time = ''] = at.toISOString().split('T')
  const seconds = time.slice(0, 8)
  return now.toISOString().startsWith(`${day}T`) ? seconds : `${day} ${seconds}`
}

/** A remaining time, never `0 s`: whole seconds of less than a minute, else the nearest minute. */
export function waitText(ms: number): string {
  const seconds = Math.ceil(ms / secondMs) * secondMs
  return span(seconds < minuteMs ? seconds : Math.round(ms / minuteMs) * minuteMs)
}

/** `5 min ago`, `just now`, `now`, `in 12 s`. */
export function fromNow(at: Date, now: Date): string {
  const ahead = at.getTime() - now.getTime()
  if (Math.abs(ahead) < secondMs) return ahead > 0 ? 'now' : 'just now'
  return ahead > 0 ? `in ${waitText(ahead)}` : `${span(-ahead)} ago`
}

/** When the next retry is sent. `show` formats a future time: `in 12 s`. Only failed records can be retried. */
export function nextText(
  {
    nextRetry,
    nextRetryBy,
    status = 'failed',
  }: { nextRetry: Date | null; nextRetryBy: NextRetry['by']; status?: string },
  now: Date,
  show = (at: Date): string => fromNow(at, now),
): string {
  const when = nextRetry === null || nextRetry <= now ? 'now' : show(nextRetry)
  switch (nextRetryBy) {
    case 'time':
      return when
    case 'probe':
      return `a probe ${when}`
    case 'gate':
      return nextRetry === null ? 'when retries resume' : `${when} or later`
    case 'outcome':
      return 'after an outcome'
    case 'never':
      return status === 'failed' ? 'manual only' : 'none'
  }
}

/** `HTTP 503`, or `no response`. */
export function response(code: number | null): string {
  return code === null ? 'no response' : `HTTP ${code}`
}

/**
 * The result of a failed call: `HTTP 403 (svc.forbidden: no permission)`, `HTTP 405 from something in front of the platform`.
 */
export function callText({ problem, reason, status }: CallResponse): string {
  const word = reasonWords[reason] ?? reason
  const text = status === undefined ? word : `HTTP ${status}${byStatus.has(reason) ? '' : `, ${word}`}`
  if (problem !== undefined) return `${text} (${problem})`
  if (reason === 'forbidden' && status !== undefined) return `${text} without a platform error body`
  return reason === 'intercepted' ? `${text} from something in front of the platform` : text
}

/** Value of --since: the earliest of these, to the second; a week ago if none is known. */
export function sinceOf(dates: readonly (Date | null)[]): string {
  const times = dates.flatMap((at) => (at === null ? [] : [at.getTime()]))
  return times.length === 0 ? '7d' : `${new Date(Math.min(...times)).toISOString().slice(0, 19)}Z`
}

/** The command that retries exhausted records of these events. */
export function retryExhausted(events: readonly (Date | null)[]): string {
  return `webhook-reconciler retry --exhausted --since ${sinceOf(events)}`
}

/** Adds `server.commandPrefix` to the commands in a text. */
export function prefixed(text: string, commandPrefix: string): string {
  return commandPrefix === '' ? text : text.replaceAll(/webhook-reconciler (?=[a-z])/g, `${commandPrefix} $&`)
}

/** Why an instance that does not lead refuses a request, and where to send it. */
export const standbyText = (leader: string | null | undefined): string =>
  `This instance stands by. ${leader == null ? 'No instance is known to lead: the status says why.' : `${leader} leads: ask there.`}`

/** Why a sweep failed: `the platform cannot be listed: HTTP 503`. */
export function failureText({ code, stage, ...call }: SweepFailure): string {
  const what = stage === 'token' ? 'no access token' : 'the platform cannot be listed'
  return `${what}: ${callText(call)}${code === undefined ? '' : ` (${code})`}`
}

/** `events of 4 d, from 2026-11-18T10:00:00 to 2026-11-22T10:00:00 on the platform's clock, cannot be listed: HTTP 400` */
export function unlistedText({ from, seconds, status, to, ...call }: UnlistedSum): string {
  return `events of ${span(seconds * secondMs)}, from ${from} to ${to} on the platform's clock, cannot be listed: ${callText({ ...call, status: status ?? undefined })}`
}

const reasonWords: Readonly<Partial<Record<Reason, string>>> = {
  'bad-request': 'HTTP 400',
  unauthorized: 'HTTP 401',
  forbidden: 'HTTP 403',
  'not-found': 'HTTP 404',
  conflict: 'HTTP 409',
  throttled: 'HTTP 429',
  'server-error': 'HTTP 5xx',
  timeout: 'timed out',
  connection: 'no connection',
  tls: 'TLS error',
  intercepted: "a gateway's response",
  'invalid-body': 'an unusable body',
}

/** Reasons that the status alone explains. */
const byStatus: ReadonlySet<Reason> = new Set<Reason>([
  ...(['bad-request', 'unauthorized', 'forbidden', 'not-found', 'conflict', 'throttled'] as const),
  ...(['server-error', 'redirect', 'intercepted', 'timeout', 'other'] as const),
])

/** Time-ordered ids (UUID version 7, RFC 9562 section 5.7) of one minute begin with the same eight digits, of a millisecond with more. */
const shownLength = (id: string): number => (id[14] === '7' ? 'ffffffff-ffff'.length : 'ffffffff'.length)

/** Names of subscriptions by id: `subscriptions` of the configuration. */
export type SubscriptionNames = Readonly<Record<string, string>>

/** Its name, or else the start of its id. */
export function subscriptionName(id: string, names: SubscriptionNames): string {
  return names[id] ?? word(id).slice(0, shownLength(id))
}

/** An external word, truncated to fit a table. */
export function word(text: string): string {
  if (text === '') return '(none)'
  const characters = [...text.toWellFormed()]
  return characters.length <= maxWordLength ? text : `${characters.slice(0, maxWordLength - 1).join('')}…`
}
