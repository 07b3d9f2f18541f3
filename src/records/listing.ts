// Lists records on the platform for a request: of an event, of a span, or by ids. @see docs/platform-api.md "List webhooks"
import { formatLocalSecond, type TimeZone } from '../platform/time-zone.ts'
import type { PlatformFailure } from '../platform/http/response.ts'
import { createUnreadableSum, unreadableText, type WebhookRecord } from '../platform/record.ts'
import { maxPageSize } from '../platform/wire.ts'
import type { PlatformClient } from '../platform/client.ts'
import type { ListQuery } from '../platform/operations.ts'
import { problemOf } from '../reconcile/platform-trouble.ts'
import type { Policy } from '../reconcile/policy.ts'
import { sweep, type SweepOptions } from '../reconcile/sweep/sweep.ts'
import { spanBetween, type Span } from '../reconcile/window.ts'
import type { Clock } from '../runtime/clock.ts'
import { redact } from '../runtime/redact.ts'

export interface FoundRecords {
  records: WebhookRecord[]
  /** With a span: the second up to which it is listed so far. */
  upTo?: number
  /** Monotonic ms just before the request. */
  askedAt: number
  /** Why records are missing, as a sentence. */
  problem?: string | undefined
}

export interface ListerOptions {
  client: () => PlatformClient
  /** Default: no retry is blocked. */
  fence?: SweepOptions['fence']
  /** Default: failed. */
  status?: SweepOptions['status']
  policy: Policy
  zone: TimeZone
  clock: Pick<Clock, 'monotonic'>
}

export type RowListeners = Pick<ListQuery, 'onRow' | 'onExactRow'>

export interface SpanOptions extends Pick<SweepOptions, 'inOrder'> {
  signal: AbortSignal
}

/** Each rejects with a PlatformFailure, a TokenError, or the signal's reason. */
export interface Lister {
  /** The records of an event in any status. */
  ofEvent(eventId: string, signal: AbortSignal, rows?: RowListeners): Promise<FoundRecords>
  /** The records of seconds on the platform's wall clock, slice by slice. */
  ofSpan(span: Span, how: SpanOptions): AsyncGenerator<FoundRecords>
  /** The records with these ids, newest first, until all are found. */
  ofIds(ids: readonly string[], signal: AbortSignal): AsyncGenerator<FoundRecords>
  /** The seconds of a time range in epoch ms; slightly more if the wall clock was set. */
  spanOf(from: number, until: number): Span
}

/** An event has a record per subscription: more pages than this mean an ignored filter. */
const maxPages = 10
const hourMs = 3_600_000
const dayMs = 86_400_000
/** The platform has no older record. */
const beginningOfTime = Date.UTC(2000, 0, 1)

function unreadableProblem(sum: ReturnType<typeof createUnreadableSum>): string | undefined {
  const unreadable = sum.sum()
  return unreadable && `${unreadableText(unreadable)}.`
}

/** Adjacent slices that could not be listed. */
type Gap = Span & { failure: PlatformFailure }

function gapProblem({ failure, from, to }: Gap): string {
  const events = `Events from ${formatLocalSecond(from)} to ${formatLocalSecond(to)} on the platform's clock`
  return `${events} could not be listed: ${redact(problemOf(failure)).replace(/\.$/, '')}.`
}

export function createLister({ client, clock, fence, policy, status = 'failed', zone }: ListerOptions): Lister {
  function spanOf(from: number, until: number): Span {
    return spanBetween({ from, until }, client().now(), zone)
  }

  async function* ofSpan(span: Span, { inOrder, signal }: SpanOptions): AsyncGenerator<FoundRecords> {
    const options = { client: client(), status, monotonic: clock.monotonic, ...policy.sweep, fence, inOrder }
    let gap: Gap | undefined
    function* reported(): Generator<FoundRecords> {
      if (gap !== undefined) yield { records: [], askedAt: clock.monotonic(), problem: gapProblem(gap) }
      gap = undefined
    }
    for await (const { listed, skipped } of sweep(span, options, signal)) {
      if (skipped?.failure !== undefined) {
        const { from, to } = skipped.span
        gap = { from: Math.min(from, gap?.from ?? from), to: Math.max(to, gap?.to ?? to), failure: skipped.failure }
      }
      if (listed === undefined) continue
      yield* reported()
      const unreadable = createUnreadableSum()
      unreadable.add(listed.unreadable)
      const isWhole = listed.verdict === 'whole' && skipped === undefined
      const problem = isWhole ? undefined : (unreadableProblem(unreadable) ?? 'A part could not be fully listed.')
      yield { records: listed.records, askedAt: listed.askedAt, problem, upTo: listed.span.to }
    }
    yield* reported()
  }

  return {
    spanOf,
    ofSpan,
    async ofEvent(eventId, signal, rows) {
      const askedAt = clock.monotonic()
      const records = new Map<string, WebhookRecord>()
      const unreadable = createUnreadableSum()
      for (let page = 0; page < maxPages; page += 1) {
        const response = await client().list({ eventId, page, size: maxPageSize, ...rows }, signal)
        for (const record of response.records)
          if (record.eventId.toLowerCase() === eventId) records.set(record.id.toLowerCase(), record)
        unreadable.add(response.unreadable)
        if (response.rows < (response.size ?? maxPageSize)) break
      }
      return { records: [...records.values()], askedAt, problem: unreadableProblem(unreadable) }
    },
    async *ofIds(ids, signal) {
      const missing = new Set(ids)
      const now = client().now()
      // Failed records are few; others are searched only within the window.
      const end = status === 'failed' ? beginningOfTime : now - Math.max(7 * dayMs, policy.window.lookback)
      const edges = [now + dayMs, now - hourMs, now - dayMs, now - 7 * dayMs, end]
      for (const [index, from] of edges.slice(1).entries()) {
        for await (const found of ofSpan(spanOf(from, edges[index] ?? now), { signal })) {
          const records = found.records.filter(({ id }) => missing.delete(id.toLowerCase()))
          yield { ...found, records }
          if (missing.size === 0) return
        }
      }
    },
  }
}
