// A retry job of an operator as data: what was asked for, and where each of its records is. Pure functions.
import type { FailedRecord } from '../reconcile/failed-record.ts'
import type { RetryEvent } from '../reconcile/retry/dispatcher.ts'
import type { Gate } from '../reconcile/retry/gates.ts'
import { redact } from '../runtime/redact.ts'
import type { RecordFilter } from './filter.ts'

/** The places of a record that was asked for; the sums have these names. */
export const standings = [
  'waiting',
  'awaiting',
  'recovered',
  'failed-again',
  'unknown',
  'refused',
  'resolved',
  'underway',
  'absent',
  'left',
] as const
export type Standing = (typeof standings)[number]

export interface JobRequest {
  filter: RecordFilter
  /** As it was sent. */
  selection: object
  exhausted: boolean
  /** Retries a second. */
  rate: number | undefined
  /** True: it only looks. */
  dryRun: boolean
}

/** A record of a job. */
export interface Item {
  entry: FailedRecord
  standing: Standing
  attempt: number | null
  responseStatusCode: number | null
  /** The platform's response, where it took no retry. */
  detail: string | null
}

export type StoppedJob = 'cancelled' | 'dry-run' | 'not-leader' | 'platform'

/** A job as it is shown. Times in epoch ms of the platform's clock. */
export interface JobView extends Omit<JobRequest, 'filter'> {
  job: string
  state: 'listing' | 'running' | 'ended'
  startedAt: number
  endedAt: number | undefined
  stoppedBy: StoppedJob | undefined
  problem: string | undefined
  listing: {
    source: 'memory' | 'platform'
    notFound: readonly string[]
    /** Of the event: records in another status. */
    notFailed: number
    incomplete: string | undefined
  }
  sums: Record<'found' | 'excluded' | 'exhausted' | 'asked' | Standing, number>
  /** Gates that are shut for records that wait, or waited at the end. */
  blockedBy: readonly Gate[]
}

/** A record that was sent, in the order of sending. */
export interface RetriedView {
  webhookId: string
  eventId: string
  subscriptionId: string
  eventType: string
  attempt: number | null
  result: Standing
  responseStatusCode: number | null
  detail: string | null
}

export interface RetryJob extends JobView {
  filter: RecordFilter
  items: Map<string, Item>
  retried: Item[]
  /** Asked for at its rate: not asked for yet. */
  queue: Item[]
  ending: AbortController
  endedAtMonotonic: number
}

export const noSums = (): RetryJob['sums'] => ({
  ...{ found: 0, excluded: 0, exhausted: 0, asked: 0 },
  ...(Object.fromEntries(standings.map((standing) => [standing, 0])) as Record<Standing, number>),
})

/** Undefined for one that stays to be sent: the platform said nothing of it, or got nothing. */
export function standingAfter({ response }: RetryEvent): Standing | undefined {
  const { found, lost, result, sent } = response
  if (!sent || result === 'throttled') return undefined
  if (result === 'accepted' || lost === true) return 'awaiting'
  if (result !== 'already-resolved') return 'refused'
  return found === 'successful' ? 'resolved' : found === 'processing' ? 'underway' : 'absent'
}

export function detailOf({ response: { problem, reason, status } }: RetryEvent): string {
  const what = status === undefined ? reason : `HTTP ${status}`
  return redact(problem === undefined ? what : `${what}: ${problem}`)
}

/** A record changes its place. */
export function move({ sums }: RetryJob, item: Item, standing: Standing): void {
  sums[item.standing] -= 1
  sums[standing] += 1
  item.standing = standing
}

/** A record that fits, and is left to its rules. */
export function leaveOut({ sums }: RetryJob, why: 'excluded' | 'exhausted'): void {
  sums.found += 1
  sums[why] += 1
}

export function noteIncomplete({ listing }: RetryJob, text: string): void {
  if (listing.incomplete?.includes(text) === true) return
  listing.incomplete = listing.incomplete === undefined ? text : `${listing.incomplete} ${text}`
}

export function retriedView({ attempt, detail, entry, responseStatusCode, standing: result }: Item): RetriedView {
  const { eventId, eventType, id: webhookId, subscriptionId } = entry
  return {
    webhookId,
    eventId,
    subscriptionId,
    eventType: redact(eventType),
    attempt,
    result,
    responseStatusCode,
    detail,
  }
}
