// An operator's retry job as data: the request, and the state of each of its records. Pure functions.
import type { FailedRecord } from '../reconcile/failed-record.ts'
import type { RetryEvent } from '../reconcile/retry/dispatcher.ts'
import type { Gate } from '../reconcile/retry/gates.ts'
import { redact } from '../runtime/redact.ts'
import type { RecordFilter } from './filter.ts'

/** The states of a requested record; the sums have these names. */
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
  /** Retries per second. */
  rate: number | undefined
  /** True: nothing is sent. */
  dryRun: boolean
}

export interface Item {
  entry: FailedRecord
  standing: Standing
  attempt: number | null
  responseStatusCode: number | null
  /** The platform's response, if it rejected the retry. */
  detail: string | null
}

export type StoppedJob = 'cancelled' | 'dry-run' | 'not-leader' | 'platform' | 'stopped'

/** A job as shown. Times in epoch ms of the platform's clock. */
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
    /** Records of the event in another status. */
    notFailed: number
    /** Of these, those that the platform is still delivering. */
    processing: number
    incomplete: string | undefined
  }
  sums: Record<'found' | 'excluded' | 'exhausted' | 'asked' | Standing, number>
  /** Shut gates of waiting records, or of those waiting at the end. */
  blockedBy: readonly Gate[]
}

/** A sent record, in the order of sending. */
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
  /** Records not yet requested at the job's rate. */
  queue: Set<Item>
  ending: AbortController
  /** The signal of its end: one array for all records that no other job wants. */
  ownSignals: readonly AbortSignal[]
  endedAtMonotonic: number
}

export const noSums = (): RetryJob['sums'] => ({
  ...{ found: 0, excluded: 0, exhausted: 0, asked: 0 },
  ...(Object.fromEntries(standings.map((standing) => [standing, 0])) as Record<Standing, number>),
})

/** Undefined if it must be sent again: the platform said nothing about it, or received nothing. */
export function standingAfter({ response }: RetryEvent): Standing | undefined {
  const { found, lost, result } = response
  if (result === 'throttled') return undefined
  if (result === 'accepted' || lost === true) return 'awaiting'
  if (result !== 'already-resolved') return 'refused'
  return found === 'successful' ? 'resolved' : found === 'processing' ? 'underway' : 'absent'
}

/** The jobs that want a record, with this one. */
export function withJob(
  jobs: readonly AbortSignal[],
  { ownSignals, ending }: Pick<RetryJob, 'ownSignals' | 'ending'>,
): readonly AbortSignal[] {
  const others = jobs.filter((signal) => !signal.aborted && signal !== ending.signal)
  return others.length === 0 ? ownSignals : [...others, ...ownSignals]
}

export function detailOf({ response: { problem, reason, status } }: RetryEvent): string {
  const what = status === undefined ? reason : `HTTP ${status}`
  return redact(problem === undefined ? what : `${what}: ${problem}`)
}

/** Changes the state of a record. */
export function move({ sums }: RetryJob, item: Item, standing: Standing): void {
  sums[item.standing] -= 1
  sums[standing] += 1
  item.standing = standing
}

/** Leaves a matching record to its rules. */
export function leaveOut({ sums }: RetryJob, why: 'excluded' | 'exhausted'): void {
  sums.found += 1
  sums[why] += 1
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
