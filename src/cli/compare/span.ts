// Selects a span of the platform's records by the flags.
import type { SpanSelection } from '../../reconcile/books/compare-records.ts'
import { UsageError } from '../../runtime/errors.ts'
import { shownText } from '../../runtime/redact.ts'
import { isUuid } from '../../runtime/uuid.ts'
import type { CommandFlags } from '../flags.ts'
import type { Moments } from '../moments.ts'

/** @throws UsageError for any other text */
export function uuidOf(text: string, name: string): string {
  if (isUuid(text)) return text.toLowerCase()
  throw new UsageError(`${name}: a UUID such as 123e4567-e89b-12d3-a456-426614174000, not "${shownText(text)}"`)
}

/** @throws UsageError for invalid flags */
export function spanOf(
  { since = '', subscription, type, until }: Partial<CommandFlags>,
  { moments, now }: { moments: Moments; now: number },
): SpanSelection {
  const from = moments.parse(since, { option: '--since', now, edge: 'earlier' })
  const end = until === undefined ? now : moments.parse(until, { option: '--until', now, edge: 'later' })
  if (from >= end) throw new UsageError(`--since (${moments.show(from)}) must be before --until (${moments.show(end)})`)
  const ids = subscription?.map((id) => uuidOf(id, '--subscription'))
  return {
    from,
    until: end,
    only: { ...(type && { type: type.map((one) => one.toLowerCase()) }), ...(ids && { subscription: ids }) },
  }
}
