// The selection of `plan`, `once` and `retry`: from the flags, and the configuration of the round that follows from it. Pure functions.
import { shownText } from '../../config/sources.ts'
import type { Config } from '../../config/schema.ts'
import { isUuid } from '../../platform/record.ts'
import { UsageError } from '../../runtime/errors.ts'
import type { Moments } from '../format.ts'

/** As the command line gives it. */
export interface SelectionFlags {
  event?: string
  since?: string
  until?: string
  type?: string[]
  subscription?: string[]
  response?: string[]
  exhausted?: true
  rate?: string
}

/** Records by id, by event, or by event time; `due`: the records that the daemon would retry now. */
export type RecordSelection =
  { by: 'due' } | { by: 'ids'; ids: readonly string[] } | { by: 'event'; eventId: string } | SpanSelection

/** Events at or after `from` and before `until`, epoch ms. Without types, subscriptions or responses: all of them. */
interface SpanSelection {
  by: 'span'
  from: number
  until: number
  types?: readonly string[]
  subscriptions?: readonly string[]
  /** The receiver's last answers: `503`, `4xx`, `none`. */
  responses?: readonly string[]
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

/** True when records are selected in one way; false without any flag. */
function isOneWay(ids: readonly string[], flags: SelectionFlags, ifNone: SelectOptions['ifNone']): boolean {
  const given = [ids.length > 0, flags.event !== undefined, flags.since !== undefined].filter(Boolean)
  if (given.length > 1) throw new UsageError(`only one way to select records at once: ${ways}`)
  const narrowing = (['until', 'type', 'subscription', 'response', 'exhausted'] as const).find(
    (name) => flags[name] !== undefined,
  )
  if (given.length === 0) {
    if (ifNone === 'due' && narrowing === undefined) return false
    throw new UsageError(`no records are selected: ${ways}`)
  }
  if (flags.since !== undefined || narrowing === undefined || narrowing === 'exhausted') return true
  throw new UsageError(`--${narrowing}: goes with --since only`)
}

/** @throws UsageError for flags that can't be understood, or select nothing */
export function selectionOf(ids: readonly string[], flags: SelectionFlags, options: SelectOptions): RecordSelection {
  const { moments, now } = options
  if (!isOneWay(ids, flags, options.ifNone)) return { by: 'due' }
  if (ids.length > 0) return { by: 'ids', ids: [...new Set(ids.map((id) => uuidOf(id, 'webhookId')))] }
  if (flags.event !== undefined) return { by: 'event', eventId: uuidOf(flags.event, '--event') }
  const from = moments.parse(flags.since ?? '', { option: '--since', now, edge: 'earlier' })
  const until = flags.until === undefined ? now : moments.parse(flags.until, { option: '--until', now, edge: 'later' })
  if (from >= until) {
    throw new UsageError(`--since (${moments.show(from)}) must be before --until (${moments.show(until)})`)
  }
  const subscriptions = flags.subscription?.map((id) => uuidOf(id, '--subscription'))
  return {
    by: 'span',
    from,
    until,
    ...(flags.type !== undefined && { types: flags.type }),
    ...(subscriptions !== undefined && { subscriptions }),
    ...(flags.response !== undefined && { responses: flags.response.map(responseOf) }),
  }
}

/** Calls a second; undefined where none is given. @throws UsageError */
export function rateOf(rate: string | undefined): number | undefined {
  if (rate === undefined) return undefined
  const perSecond = /^\d+(\.\d+)?$/.test(rate) ? Number(rate) : NaN
  if (perSecond >= 0.01 && perSecond <= 1000) return perSecond
  throw new UsageError(`--rate: how many a second, a number from 0.01 to 1000, not "${shownText(rate)}"`)
}

/** The intersection of a configured list and a selected one; an empty configured list is all. */
function narrowed(configured: readonly string[], selected: readonly string[] | undefined, key: string): string[] {
  if (selected === undefined) return [...configured]
  const left = configured.length === 0 ? [...selected] : selected.filter((name) => configured.includes(name))
  if (left.length > 0) return left
  throw new UsageError(
    `${key} (${configured.join(', ')}) leaves out all that is selected: name the records by their webhook ids`,
  )
}

function selectFor(selection: RecordSelection, { select }: Config): Config['select'] {
  // A record that is named by its id is meant.
  if (selection.by === 'ids') return { eventTypes: [], modules: [], subscriptionIds: [] }
  if (selection.by !== 'span') return select
  return {
    modules: select.modules,
    eventTypes: narrowed(select.eventTypes, selection.types, 'select.eventTypes'),
    subscriptionIds: narrowed(select.subscriptionIds, selection.subscriptions, 'select.subscriptionIds'),
  }
}

/**
 * The configuration of one round. For `due` it is the daemon's. For a selection: next to no backoff, circuits always on,
 * retries enabled, and the attempt limit lifted with `--exhausted` only. `window.notBefore` and `select.*` hold, but for records
 * that are named by id.
 * @throws UsageError
 */
export function configFor(selection: RecordSelection, flags: SelectionFlags, config: Config): Config {
  const { retry, window } = config
  if (selection.by === 'due')
    return { ...config, retry: { ...retry, maxPerSecond: rateOf(flags.rate) ?? retry.maxPerSecond } }
  return {
    ...config,
    select: selectFor(selection, config),
    window: { ...window, notBefore: selection.by === 'ids' ? undefined : window.notBefore },
    // The first retries of a round are its canaries.
    circuit: { ...config.circuit, enabled: true },
    retry: {
      ...retry,
      enabled: true,
      maxPerSecond: rateOf(flags.rate) ?? retry.maxPerSecond,
      maxAttempts: flags.exhausted === true ? Number.MAX_SAFE_INTEGER : retry.maxAttempts,
      backoff: { ...retry.backoff, initial: justTriedMs, max: justTriedMs, jitter: 0 },
    },
  }
}
