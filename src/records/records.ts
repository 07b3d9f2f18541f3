// The records that a request asks for, a page at a time, with what is decided of each and why. @see docs/status.md "Records"
import type { Reconciler } from '../reconciler.ts'
import { decide, type Situation } from '../reconcile/decide.ts'
import type { FailedRecord } from '../reconcile/failed-record.ts'
import type { Policy } from '../reconcile/policy.ts'
import type { Clock } from '../runtime/clock.ts'
import { redact } from '../runtime/redact.ts'
import { finishInTurns } from '../runtime/steps.ts'
import { matcherOf, type RecordFilter } from './filter.ts'
import { pageOf, type ListPlace } from './memory.ts'
import { explainRecord, type ExplainedRecord, type State } from './shown-record.ts'

/** A record as requests get it. */
export interface ListedRecord extends Omit<ExplainedRecord, 'state'> {
  decision: State
}

export interface RecordsRequest {
  filter: RecordFilter
  limit: number
  after: ListPlace | undefined
}

/** The records of a page come in batches, so that a slow reader holds up no memory but its own. */
export interface RecordsPage {
  source: 'memory' | 'platform'
  batches: AsyncIterable<readonly ListedRecord[]>
  /** Known once all batches were read. */
  end: () => PageEnd
}

export interface PageEnd {
  /** The last record, where more may follow; undefined: that was all. */
  next: { id: string; localSecond: number } | undefined
  /** Webhook ids that are not among the failed records. */
  notFound: readonly string[]
  /** Reasons why records that fit may be missing. */
  incomplete: string | undefined
  /** With which failure it broke off: `next` goes on there. */
  error: string | undefined
}

export interface RecordsOptions {
  reconciler: () => Reconciler
  policy: Policy
  hasListedAll: () => boolean
  clock: Pick<Clock, 'sleep'>
}

export interface RecordsReader {
  fromMemory(request: RecordsRequest): Promise<RecordsPage>
}

/** RecordsReader of one batch: about 60 KB of text. */
const batchRecords = 100

/** The situation of each subscription, made once. */
export function situationsOf({ situations }: Reconciler): (subscriptionId: string) => Situation {
  const known = new Map<string, Situation>()
  const make = situations()
  return (subscriptionId) => known.getOrInsertComputed(subscriptionId, make)
}

/** Reasons why the backlog may lack records that fit; undefined when it lacks none. */
export function gapsOf({ sweeper }: Reconciler, hasListedAll: boolean): string | undefined {
  const [left, unlisted, unreadable] = [sweeper.onlyCounted(), sweeper.unlisted().length, sweeper.unreadable()?.rows]
  const gaps = [
    ...(hasListedAll ? [] : ['No full sweep has ended yet since the start.']),
    ...(left > 0 ? [`Of ${left} records only the number is known (backlog.maxRecords).`] : []),
    ...(unlisted > 0 ? [`${unlisted} parts of the window cannot be listed.`] : []),
    ...(unreadable === undefined ? [] : [`${unreadable} rows cannot be read.`]),
  ]
  return gaps.length === 0 ? undefined : gaps.join(' ')
}

/** Ids that none of the records has. */
function notAmong(filter: RecordFilter, has: (id: string) => boolean): string[] {
  return (filter.webhookIds ?? []).filter((id) => !has(id))
}

export function toListed({ state, ...record }: ExplainedRecord): ListedRecord {
  return { ...record, eventType: redact(record.eventType), decision: state }
}

export function createRecords({ clock, hasListedAll, policy, reconciler }: RecordsOptions): RecordsReader {
  async function fromMemory({ after, filter, limit }: RecordsRequest): Promise<RecordsPage> {
    const current = reconciler()
    const { backlog } = current
    const situationOf = situationsOf(current)
    const matches = matcherOf(filter)
    const { decision, webhookIds } = filter
    const fits = (entry: FailedRecord): boolean =>
      matches(entry) && (decision?.includes(decide(entry, policy, situationOf(entry.subscriptionId)).decision) ?? true)
    const all = webhookIds?.flatMap((id) => backlog.get(id) ?? []) ?? backlog.entries()
    const { isLast, page } = await finishInTurns(pageOf(all, { fits, after, limit }), clock)
    const last = isLast ? undefined : page.at(-1)
    const end: PageEnd = {
      next: last && { id: last.id, localSecond: last.localSecond },
      notFound: isLast ? notAmong(filter, (id) => backlog.get(id) !== undefined) : [],
      incomplete: gapsOf(current, hasListedAll()),
      error: undefined,
    }
    // eslint-disable-next-line @typescript-eslint/require-await
    async function* batches(): AsyncGenerator<ListedRecord[]> {
      for (let at = 0; at < page.length; at += batchRecords) {
        yield page.slice(at, at + batchRecords).map((entry) => {
          const situation = situationOf(entry.subscriptionId)
          return toListed(explainRecord(entry, { policy, situation, isSelected: true }))
        })
      }
    }
    return { source: 'memory', batches: batches(), end: () => end }
  }

  return { fromMemory }
}
