// A span among the platform's records: from the flags, and as it is listed, slice by slice.
import type { PlatformClient } from '../../platform/client.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import { laterReadingNotAfter, type TimeZone } from '../../platform/time-zone.ts'
import { sweep, type SweepOptions, type SweepStep } from '../../reconcile/sweep/sweep.ts'
import { slidingWindow, type Span } from '../../reconcile/window.ts'
import { UsageError } from '../../runtime/errors.ts'
import { isUuid } from '../../runtime/uuid.ts'
import { shownText } from '../../runtime/redact.ts'
import type { CommandFlags } from '../flags.ts'
import type { Moments } from '../moments.ts'

/** Events at or after `from` and before `until`, epoch ms; where a flag is given, only those that have one of its names. */
export interface SpanSelection {
  from: number
  until: number
  only: Readonly<Partial<Record<'type' | 'subscription', readonly string[]>>>
}

/** @throws UsageError for other text than a UUID */
export function uuidOf(text: string, name: string): string {
  if (isUuid(text)) return text.toLowerCase()
  throw new UsageError(`${name}: a UUID such as 123e4567-e89b-12d3-a456-426614174000, not "${shownText(text)}"`)
}

/** @throws UsageError for flags that can't be understood, or hold no moment */
export function spanOf(
  { since = '', subscription, type, until }: Partial<CommandFlags>,
  { moments, now }: { moments: Moments; now: number },
): SpanSelection {
  const from = moments.parse(since, { option: '--since', now, edge: 'earlier' })
  const end = until === undefined ? now : moments.parse(until, { option: '--until', now, edge: 'later' })
  if (from >= end) throw new UsageError(`--since (${moments.show(from)}) must be before --until (${moments.show(end)})`)
  const ids = subscription?.map((id) => uuidOf(id, '--subscription'))
  return { from, until: end, only: { ...(type && { type }), ...(ids && { subscription: ids }) } }
}

/** A span among the platform's records. */
export interface SpanFilter {
  /** To be listed: widened where daylight saving repeats an hour, so each record's own time decides. */
  span: Span
  isMeant(record: WebhookRecord): boolean
}

/** `now` in epoch ms of the platform's clock. */
export function createSpanFilter({ from, only, until }: SpanSelection, zone: TimeZone, now: number): SpanFilter {
  const end = Math.min(until, now)
  const policy = { lookback: now - from, settle: now - end, notBefore: undefined, expiryWarning: 0 }
  const span = slidingWindow(now, policy, zone)
  return {
    // A second more, as `until` may lie within one.
    span: { from: span.from, to: span.to + 1 },
    isMeant({ eventLocal, eventType, subscriptionId }) {
      const eventAt = laterReadingNotAfter(zone, eventLocal, now)
      const { subscription = [subscriptionId.toLowerCase()], type = [eventType] } = only
      return (
        eventAt >= from &&
        eventAt < end &&
        type.includes(eventType) &&
        subscription.includes(subscriptionId.toLowerCase())
      )
    },
  }
}

export interface ListOptions extends Pick<SweepOptions, 'concurrency' | 'sliceRecords' | 'client' | 'monotonic'> {
  stop: AbortSignal
}

/** Lists a span in any status. This process retries nothing: there is nothing to wait for. */
export function listSpan(span: Span, { stop, ...options }: ListOptions): AsyncIterable<SweepStep> {
  return sweep([span], { ...options, status: 'any', fence: () => Promise.resolve(() => undefined) }, stop)
}

/** The platform's time comes with its answers. */
export async function learnTime(client: PlatformClient, stop: AbortSignal): Promise<number> {
  if (!client.knowsTime()) await client.list({ status: 'failed', page: 0, size: 1 }, stop)
  return client.now()
}
