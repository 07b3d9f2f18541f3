// The selection of `plan`, `retry` and `records`: translates flags into requests to the daemon. Pure functions.
import { parseDuration } from '../config/duration.ts'
import { UsageError } from '../runtime/errors.ts'
import { uuidOf } from './compare/span.ts'
import type { CommandFlags } from './flags.ts'
import type { Moments } from './moments.ts'

/** As `POST /-/retry` expects it. The daemon checks the rest. */
export interface SelectionBody {
  webhooks?: string[]
  event?: string
  since?: string
  until?: string
  type?: string[]
  subscription?: string[]
  response?: string[]
}

export const ways = 'give webhook ids, or --event ID, or --since TIME'

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
