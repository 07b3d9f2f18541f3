// The selection of `plan`, `once`, `retry` and `compare`: from the flags, and the configuration of the round that follows from it. Pure functions.
import { shownText } from '../../config/sources.ts'
import type { Config } from '../../config/schema.ts'
import { type WebhookRecord } from '../../platform/record.ts'
import { isUuid } from '../../runtime/uuid.ts'
import { laterReadingNotAfter, type TimeZone } from '../../platform/time-zone.ts'
import { slidingWindow, type Span } from '../../reconcile/window.ts'
import { UsageError } from '../../runtime/errors.ts'
import type { CommandFlags } from '../flags.ts'
import type { Moments } from '../moments.ts'

/** Records by id, by event, or by event time; `due`: the records that the daemon would retry now. */
export type RecordSelection =
  { by: 'due' } | { by: 'ids'; ids: readonly string[] } | { by: 'event'; eventId: string } | SpanSelection

/** CommandFlags that narrow a span. `response`: the receiver's last answer, `503`, `4xx` or `none`. */
const narrowingFlags = ['type', 'subscription', 'response'] as const

type Narrowing = (typeof narrowingFlags)[number]

/** Events at or after `from` and before `until`, epoch ms; where a flag is given, only those that have one of its names. */
export interface SpanSelection {
  by: 'span'
  from: number
  until: number
  only: Readonly<Partial<Record<Narrowing, readonly string[]>>>
}

export interface SelectOptions {
  moments: Moments
  /** Epoch ms of this host's clock. */
  now: number
  /** Meaning of an empty selection. */
  ifNone: 'due' | 'refuse'
}

/**
 * The backoff of a selection. Without any, a record that fails again could be due once more in the same round, as the
 * learned clock of the platform moves a little with each answer.
 */
const justTriedMs = 2000

const ways = 'give webhook ids, or --event ID, or --since TIME'

/** @throws UsageError for other text than a UUID */
export function uuidOf(text: string, name: string): string {
  if (isUuid(text)) return text.toLowerCase()
  throw new UsageError(`${name}: a UUID such as 123e4567-e89b-12d3-a456-426614174000, not "${shownText(text)}"`)
}

/** @throws UsageError */
function responseOf(text: string): string {
  if (/^(?:none|[1-5](?:xx|\d\d))$/.test(text)) return text
  throw new UsageError(`--response: a status code such as 503, a class such as 4xx, or none, not "${shownText(text)}"`)
}

/** @throws UsageError for flags that can't be understood, or hold no moment */
export function spanOf(
  { response, since = '', subscription, type, until }: Partial<CommandFlags>,
  { moments, now }: Pick<SelectOptions, 'moments' | 'now'>,
): SpanSelection {
  const from = moments.parse(since, { option: '--since', now, edge: 'earlier' })
  const end = until === undefined ? now : moments.parse(until, { option: '--until', now, edge: 'later' })
  if (from >= end) throw new UsageError(`--since (${moments.show(from)}) must be before --until (${moments.show(end)})`)
  const only = {
    ...(type && { type }),
    ...(subscription && { subscription: subscription.map((id) => uuidOf(id, '--subscription')) }),
    ...(response && { response: response.map(responseOf) }),
  }
  return { by: 'span', from, until: end, only }
}

/** @throws UsageError for flags that can't be understood, or select nothing or in two ways */
export function selectionOf(
  ids: readonly string[],
  flags: Partial<CommandFlags>,
  options: SelectOptions,
): RecordSelection {
  const { event, exhausted, since } = flags
  const given = [ids.length > 0, event !== undefined, since !== undefined].filter(Boolean).length
  if (given > 1) throw new UsageError(`only one way to select records at once: ${ways}`)
  if (since !== undefined) return spanOf(flags, options)
  const narrowing = (['until', ...narrowingFlags] as const).find((name) => flags[name] !== undefined)
  if (narrowing !== undefined) throw new UsageError(`--${narrowing}: goes with --since only`)
  if (event !== undefined) return { by: 'event', eventId: uuidOf(event, '--event') }
  if (given === 1) return { by: 'ids', ids: [...new Set(ids.map((id) => uuidOf(id, 'webhookId')))] }
  if (options.ifNone === 'due' && exhausted === undefined) return { by: 'due' }
  throw new UsageError(`no records are selected: ${ways}`)
}

/** The names by which flags can mean a record. */
function namesOf({ eventType, responseStatusCode: code, subscriptionId }: WebhookRecord): Record<Narrowing, string[]> {
  const response = code === null ? ['none'] : [String(code), `${Math.floor(code / 100)}xx`]
  return { type: [eventType], subscription: [subscriptionId.toLowerCase()], response }
}

/** A span among the platform's records. */
export interface SpanFilter {
  /** To be listed: widened where daylight saving repeats an hour, so each record's own time decides. */
  span: Span
  isMeant(record: WebhookRecord): boolean
  /** Names of the flags that no record of the span has had yet: `type account-activated`. */
  unseen(): string[]
}

/** `now` in epoch ms of the platform's clock. */
export function createSpanFilter({ from, only, until }: SpanSelection, zone: TimeZone, now: number): SpanFilter {
  const end = Math.min(until, now)
  const policy = { lookback: now - from, settle: now - end, notBefore: undefined }
  const span = slidingWindow(now, policy, zone)
  const unseen = new Set(narrowingFlags.flatMap((flag) => (only[flag] ?? []).map((name) => `${flag} ${name}`)))
  return {
    // A second more, as `until` may lie within one.
    span: { from: span.from, to: span.to + 1 },
    isMeant(record) {
      const eventAt = laterReadingNotAfter(zone, record.eventLocal, now)
      if (eventAt < from || eventAt >= end) return false
      const names = namesOf(record)
      for (const flag of narrowingFlags) for (const name of names[flag]) unseen.delete(`${flag} ${name}`)
      return narrowingFlags.every((flag) => only[flag]?.some((name) => names[flag].includes(name)) ?? true)
    },
    unseen: () => [...unseen],
  }
}

/**
 * The configuration of one round. For `due` it is the daemon's. For a selection: next to no backoff,
 * retries enabled, and the attempt limit lifted with `--exhausted` only. `window.notBefore` and `select.*` hold, but for records
 * that are named by id.
 */
export function configFor({ by }: RecordSelection, { exhausted, rate }: Partial<CommandFlags>, config: Config): Config {
  const retry = { ...config.retry, maxPerSecond: rate ?? config.retry.maxPerSecond }
  if (by === 'due') return { ...config, retry }
  const named = {
    select: { eventTypes: [], subscriptionIds: [] },
    window: { ...config.window, notBefore: undefined },
  }
  return {
    ...config,
    ...(by === 'ids' && named),
    retry: {
      ...retry,
      enabled: true,
      maxAttempts: exhausted === true ? Number.MAX_SAFE_INTEGER : retry.maxAttempts,
      backoff: { initial: justTriedMs, max: justTriedMs },
    },
  }
}
