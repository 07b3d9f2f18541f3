// The records that flags select: for `plan`, `retry` and `records` as requests to the daemon, for `compare` as a span of the platform's. Pure functions.
import { parseDuration } from '../config/duration.ts'
import type { SpanSelection } from '../reconcile/books/compare-records.ts'
import type { SubscriptionNames } from '../ops/words.ts'
import { UsageError } from '../runtime/errors.ts'
import { shownText } from '../runtime/redact.ts'
import { isUuid } from '../runtime/uuid.ts'
import type { CommandFlags } from './flags.ts'
import type { Moments } from './moments.ts'

/** As `POST /-/retry` expects it. The daemon checks the rest. */
export type SelectionBody = { webhooks?: string[] } & Pick<
  CommandFlags,
  'event' | 'since' | 'until' | 'type' | 'subscription' | 'response'
>

export const ways = 'give webhook ids, or --event ID, or --since TIME'

/** A shell leaves the byte order mark and the CR of a file's lines on its ids. @throws UsageError for any other text */
export function uuidOf(text: string, name: string): string {
  const id = text.trim()
  if (isUuid(id)) return id.toLowerCase()
  throw new UsageError(`${name}: a UUID such as 123e4567-e89b-12d3-a456-426614174000, not "${shownText(text)}"`)
}

/** A duration stays one, relative to the platform's clock; a time gets its zone. */
function momentOf(text: string, option: '--since' | '--until', { moments, now }: SelectOptions): string {
  const at = moments.parse(text, { option, now, edge: option === '--since' ? 'earlier' : 'later' })
  return parseDuration(text) === undefined ? new Date(at).toISOString() : text
}

export interface SelectOptions {
  moments: Moments
  /** Epoch ms of this host's clock. */
  now: number
}

/** The filters of a span. */
export function narrowingOf(
  { response, since, subscription, type, until }: Partial<CommandFlags>,
  options: SelectOptions,
): SelectionBody {
  return {
    ...(since !== undefined && { since: momentOf(since, '--since', options) }),
    ...(until !== undefined && { until: momentOf(until, '--until', options) }),
    ...(type && { type }),
    ...(subscription && { subscription }),
    ...(response && { response }),
  }
}

/**
 * Undefined without a selection.
 * @throws UsageError for invalid flags, or more than one kind of selection
 */
export function selectionOf(
  ids: readonly string[],
  flags: Partial<CommandFlags>,
  options: SelectOptions,
): SelectionBody | undefined {
  const { event, since } = flags
  const given = [ids.length > 0, event !== undefined, since !== undefined].filter(Boolean).length
  if (given > 1) throw new UsageError(`only one way to select records at once: ${ways}`)
  if (since !== undefined) return narrowingOf(flags, options)
  const narrowing = (['until', 'type', 'subscription', 'response'] as const).find((name) => flags[name] !== undefined)
  if (narrowing !== undefined) throw new UsageError(`--${narrowing}: requires --since`)
  if (event !== undefined) return { event: uuidOf(event, '--event') }
  return given === 1 ? { webhooks: [...new Set(ids.map((id) => uuidOf(id, 'webhookId')))] } : undefined
}

/** `names`: `subscriptions` of the configuration. @throws UsageError for invalid flags */
export function spanOf(
  { since = '', subscription, type, until }: Partial<CommandFlags>,
  { moments, names, now }: SelectOptions & { names: SubscriptionNames },
): SpanSelection {
  const from = moments.parse(since, { option: '--since', now, edge: 'earlier' })
  const end = until === undefined ? now : moments.parse(until, { option: '--until', now, edge: 'later' })
  if (from >= end) throw new UsageError(`--since (${moments.show(from)}) must be before --until (${moments.show(end)})`)
  const idOf = (text: string): string | undefined => Object.keys(names).find((id) => names[id] === text)
  const ids = subscription?.map((text) => idOf(text) ?? uuidOf(text, '--subscription'))
  return {
    from,
    until: end,
    only: { ...(type && { type: type.map((one) => one.toLowerCase()) }), ...(ids && { subscription: ids }) },
  }
}
