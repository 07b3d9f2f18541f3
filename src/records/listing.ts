// Lists records on the platform for a request: of an event, of a span, or by ids. @see docs/platform-api.md "List webhooks"
import type { TimeZone } from '../platform/time-zone.ts'
import { createUnreadableSum, unreadableText, type WebhookRecord } from '../platform/record.ts'
import { maxPageSize } from '../platform/wire.ts'
import type { PlatformClient } from '../platform/client.ts'
import { PlatformFailure } from '../platform/http/response.ts'
import type { ListQuery } from '../platform/operations.ts'
import { problemOf } from '../reconcile/platform-trouble.ts'
import type { Policy } from '../reconcile/policy.ts'
import { isShort } from '../reconcile/sweep/list-slice.ts'
import { sweep, type SweepOptions, type SweepStep } from '../reconcile/sweep/sweep.ts'
import { sumOfUnlisted, type UnlistedPart } from '../reconcile/sweep/unlistable.ts'
import { spanBetween, type Span } from '../reconcile/window.ts'
import type { Clock } from '../runtime/clock.ts'
import { counted } from '../runtime/counted.ts'
import { redact } from '../runtime/redact.ts'

export interface FoundRecords {
  records: WebhookRecord[]
  /** With a span in order: the second up to which it is listed or skipped so far. */
  upTo?: number | undefined
  /** Monotonic ms just before the request. */
  askedAt: number
  /** Why records are missing so far, as sentences. */
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
  /** The records of an event in any status. Rejects with EventUnlistable if they are too many. */
  ofEvent(eventId: string, signal: AbortSignal, rows?: RowListeners): Promise<FoundRecords>
  /** The records of seconds on the platform's wall clock, slice by slice. */
  ofSpan(span: Span, how: SpanOptions): AsyncGenerator<FoundRecords>
  /** The records with these ids, newest first, until all are found; a problem only if some are not. */
  ofIds(ids: readonly string[], signal: AbortSignal): AsyncGenerator<FoundRecords>
  /** The seconds of a time range in epoch ms, to a day ahead at most; slightly more if the wall clock was set. */
  spanOf(from: number, until: number): Span
}

/** An event has a record per subscription: more pages than this mean an ignored filter. */
const maxPages = 10

export class EventUnlistable extends PlatformFailure {
  override readonly message = `it lists over ${maxPages} pages for one event id`
  override readonly advice = 'name webhook ids or a time in place of the event'

  constructor() {
    super('other', undefined, 'list')
  }
}

const partly = 'A part could not be fully listed.'
const hourMs = 3_600_000
const dayMs = 86_400_000
/** The platform has no older record. */
const beginningOfTime = Date.UTC(2000, 0, 1)

function unreadableProblem(sum: ReturnType<typeof createUnreadableSum>): string | undefined {
  const unreadable = sum.sum()
  return unreadable && `${unreadableText(unreadable)}.`
}

/** The given texts as one; undefined for none. */
export function joined(texts: readonly (string | undefined)[]): string | undefined {
  return texts.filter((text) => text !== undefined).join(' ') || undefined
}

function unlistedProblem(parts: readonly Pick<UnlistedPart, 'failure' | 'span'>[]): string | undefined {
  const [first] = parts
  const sum = sumOfUnlisted(parts)
  if (first === undefined || sum === undefined) return undefined
  const events = `Events of ${counted(sum.seconds, 'second')} from ${sum.from} to ${sum.to} on the platform's clock`
  return `${events} could not be listed: ${redact(problemOf(first.failure)).replace(/\.$/, '')}.`
}

/** Sums up why a listing lacks records. */
function createProblems(): { add(step: SweepStep): void; text(): string | undefined } {
  const unlisted: Pick<UnlistedPart, 'failure' | 'span'>[] = []
  const unreadable = createUnreadableSum()
  let isComplete = true
  return {
    add({ listed, skipped: { failure, span } = {} }) {
      if (failure !== undefined && span !== undefined) unlisted.push({ span, failure })
      if (listed === undefined) return
      unreadable.add(listed.unreadable)
      isComplete &&= listed.verdict === 'whole'
    },
    text: () =>
      joined([...[unlistedProblem(unlisted), unreadableProblem(unreadable)], isComplete ? undefined : partly]),
  }
}

export function createLister({ client, clock, fence, policy, status = 'failed', zone }: ListerOptions): Lister {
  function spanOf(from: number, until: number): Span {
    const now = client().now()
    return spanBetween({ from, until: Math.min(until, now + dayMs) }, now, zone)
  }

  async function* ofSpan(
    span: Span,
    { inOrder, signal }: SpanOptions,
    problems = createProblems(),
  ): AsyncGenerator<FoundRecords> {
    const options = { client: client(), status, monotonic: clock.monotonic, ...policy.sweep, fence, inOrder }
    for await (const step of sweep(span, options, signal)) {
      problems.add(step)
      const { askedAt = clock.monotonic(), records = [] } = step.listed ?? {}
      yield { records, askedAt, problem: problems.text(), upTo: (step.listed ?? step.skipped)?.span.to }
    }
  }

  return {
    spanOf,
    ofSpan,
    async ofEvent(eventId, signal, rows) {
      const askedAt = clock.monotonic()
      const records = new Map<string, WebhookRecord>()
      const unreadable = createUnreadableSum()
      const seen = (): number => records.size + (unreadable.sum()?.rows ?? 0)
      let unseen = 0
      for (let page = 0, isLast = false; !isLast; page += 1) {
        if (page === maxPages) throw new EventUnlistable()
        const before = seen()
        const response = await client().list({ eventId, page, size: maxPageSize, ...rows }, signal)
        for (const record of response.records) records.set(record.id.toLowerCase(), record)
        unreadable.add(response.unreadable)
        unseen = (response.total ?? 0) - seen()
        isLast = seen() === before || (isShort(response) && unseen <= 0)
      }
      return {
        // A platform that ignores the filter lists others too.
        records: [...records.values()].filter((record) => record.eventId.toLowerCase() === eventId),
        askedAt,
        problem: joined([unreadableProblem(unreadable), unseen > 0 ? partly : undefined]),
      }
    },
    async *ofIds(ids, signal) {
      const missing = new Set(ids)
      const now = client().now()
      // Failed records are few; others are searched only within the window.
      const end = status === 'failed' ? beginningOfTime : now - Math.max(7 * dayMs, policy.window.lookback)
      const problems = createProblems()
      const edges = [now + dayMs, now - hourMs, now - dayMs, now - 7 * dayMs, end]
      for (const [index, from] of edges.slice(1).entries()) {
        for await (const found of ofSpan(spanOf(from, edges[index] ?? now), { signal }, problems)) {
          const records = found.records.filter(({ id }) => missing.delete(id.toLowerCase()))
          yield { records, askedAt: found.askedAt }
          if (missing.size === 0) return
        }
      }
      yield { records: [], askedAt: clock.monotonic(), problem: problems.text() }
    },
  }
}
