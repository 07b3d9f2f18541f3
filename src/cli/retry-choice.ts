// Which records `retry` is asked for, and the policy that follows: a configuration changed for this one command. Pure functions.
import { shownText } from '../config/layer.ts'
import type { Config } from '../config/schema.ts'
import { UsageError } from '../runtime/errors.ts'
import { isUuid } from '../platform/record.ts'
import type { Moments } from './moments.ts'

/** As the command line gives it. */
export interface RetryFlags {
  event?: string
  since?: string
  until?: string
  type?: string[]
  subscription?: string[]
  parked?: true
  rate?: string
}

export type Choice =
  | { kind: 'ids'; ids: readonly string[] }
  | { kind: 'event'; eventId: string }
  /** Events at or after `from` and before `until`, epoch ms. */
  | { kind: 'span'; from: number; until: number; types?: readonly string[]; subscriptions?: readonly string[] }

/**
 * What was tried so lately is left alone. Without any backoff a record that fails again could be due once more in the same
 * run, as what is known of the platform's clock moves a little with each answer.
 */
export const justTriedMs = 2000

const ways = 'give webhook ids, or --event ID, or --since TIME'

function uuid(text: string, what: string): string {
  if (isUuid(text)) return text.toLowerCase()
  throw new UsageError(`${what}: a UUID such as 123e4567-e89b-12d3-a456-426614174000, not "${shownText(text)}"`)
}

function oneWay(ids: readonly string[], flags: RetryFlags): void {
  const given = [ids.length > 0, flags.event !== undefined, flags.since !== undefined].filter(Boolean)
  if (given.length === 0) throw new UsageError(`which records? ${ways}`)
  if (given.length > 1) throw new UsageError(`only one way to choose records at once: ${ways}`)
  if (flags.since !== undefined) return
  const stray = (['until', 'type', 'subscription'] as const).find((name) => flags[name] !== undefined)
  if (stray !== undefined) throw new UsageError(`--${stray}: goes with --since only`)
}

/**
 * What is asked for. `now` in epoch ms of this host's clock.
 * @throws UsageError for what can't be understood, or asks for nothing
 */
export function choiceOf(ids: readonly string[], flags: RetryFlags, moments: Moments, now: number): Choice {
  oneWay(ids, flags)
  if (ids.length > 0) return { kind: 'ids', ids: [...new Set(ids.map((id) => uuid(id, 'webhookId')))] }
  if (flags.event !== undefined) return { kind: 'event', eventId: uuid(flags.event, '--event') }
  const from = moments.parse(flags.since ?? '', { option: '--since', now, edge: 'earlier' })
  const until = flags.until === undefined ? now : moments.parse(flags.until, { option: '--until', now, edge: 'later' })
  if (from >= until) {
    throw new UsageError(`--since (${moments.show(from)}) must be before --until (${moments.show(until)})`)
  }
  const subscriptions = flags.subscription?.map((id) => uuid(id, '--subscription'))
  return {
    kind: 'span',
    from,
    until,
    ...(flags.type !== undefined && { types: flags.type }),
    ...(subscriptions !== undefined && { subscriptions }),
  }
}

/** @throws UsageError */
export function rateOf({ rate }: RetryFlags, { retry }: Config): number | undefined {
  if (rate === undefined) return retry.maxPerSecond
  const perSecond = /^\d+(\.\d+)?$/.test(rate) ? Number(rate) : NaN
  if (perSecond >= 0.01 && perSecond <= 1000) return perSecond
  throw new UsageError(`--rate: retries a second, a number from 0.01 to 1000, not "${shownText(rate)}"`)
}

/** Of what is configured, and what is asked for: both empty lists for all. */
function both(configured: readonly string[], asked: readonly string[] | undefined, key: string): string[] {
  if (asked === undefined) return [...configured]
  const left = configured.length === 0 ? [...asked] : asked.filter((name) => configured.includes(name))
  if (left.length > 0) return left
  throw new UsageError(
    `${key} (${configured.join(', ')}) leaves out all that is asked for: name the records by their webhook ids`,
  )
}

function selectionFor(choice: Choice, flags: RetryFlags, { select }: Config): Config['select'] {
  // Who names a record means it.
  if (choice.kind === 'ids') return { eventTypes: [], modules: [], subscriptionIds: [] }
  const subscriptions = flags.subscription?.map((id) => uuid(id, '--subscription'))
  return {
    modules: select.modules,
    eventTypes: both(select.eventTypes, flags.type, 'select.eventTypes'),
    subscriptionIds: both(select.subscriptionIds, subscriptions, 'select.subscriptionIds'),
  }
}

/**
 * The configuration of this one run: next to no backoff, circuits always on, retries enabled, the attempt limit only lifted with
 * `--parked`. `window.notBefore` and `select.*` hold, but for records that are named by id.
 * @throws UsageError
 */
export function configFor(choice: Choice, flags: RetryFlags, config: Config): Config {
  const { retry, window } = config
  return {
    ...config,
    select: selectionFor(choice, flags, config),
    window: { ...window, notBefore: choice.kind === 'ids' ? undefined : window.notBefore },
    // The first retries of a run are its canaries.
    circuit: { ...config.circuit, enabled: true },
    retry: {
      ...retry,
      enabled: true,
      maxPerSecond: rateOf(flags, config),
      maxAttempts: flags.parked === true ? Number.MAX_SAFE_INTEGER : retry.maxAttempts,
      backoff: { ...retry.backoff, initial: justTriedMs, max: justTriedMs, jitter: 0 },
    },
  }
}
