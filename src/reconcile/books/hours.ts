// The hours of the books: which to compare next, and what is known of each. Pure, except for the given hours.
import type { FailedRecord } from '../failed-record.ts'

const minuteMs = 60_000
export const hourMs = 60 * minuteMs
/** Time between two listings of an hour whose books differ; it doubles. */
const [firstListAgainMs, maxListAgainMs] = [hourMs, 8 * hourMs]
/** Maximum number of records per hour kept by name. Beyond it, only listing the hour again shows which were processed since. */
export const maxNamed = 500

/** Delivered, but absent from the ledger when last asked. Times are epoch ms of the platform's clock, here and below. */
export interface MissedRecord {
  entry: FailedRecord
  /** Its key in the ledger. */
  key: string
}

/** The result of listing an hour. */
export interface HourListing {
  /** False if a part could not be listed reliably. */
  complete: boolean
  /** A key that the ledger had: a later response without it is of another platform. Undefined without any. */
  match: string | undefined
  /** Number of deliveries, processed or not, by the minute of the event. */
  delivered: readonly number[]
  subscriptions: ReadonlySet<string>
  eventTypes: ReadonlySet<string>
  /** Deliveries that the ledger lacks, as far as they are kept, and the number of further ones that have settled. */
  missed: MissedRecord[]
  more: number
  /** Other records not delivered yet, or not settled: each may still be lost. */
  open: number
  /** Other records whose key was unreadable. */
  withoutKey: number
}

export interface Hour {
  from: number
  listAt: number
  askAt: number
  /** When a retry of one of its records was last seen to arrive: a listing that began before may not show that. */
  recoveredAt: number
  /** Number of listings. */
  looks: number
  askedAt: number
  listing: HourListing | undefined
  /** Why it was last not compared, and since when; without a full stop. */
  problem: { text: string; since: number } | undefined
}

export interface Look {
  hour: Hour
  kind: 'list' | 'ask'
}

export interface HoursPolicy {
  settleMs: number
  lookbackMs: number
}

export const minuteOf = ({ from }: Pick<Hour, 'from'>, at: number): number => Math.floor((at - from) / minuteMs)
export const hourOf = (at: number): number => Math.floor(at / hourMs) * hourMs

/** Drops the hours that left the lookback, which ends with the last settled hour, and adds those that have settled. Oldest first. */
export function hoursAt(known: readonly Hour[], now: number, { lookbackMs, settleMs }: HoursPolicy): Hour[] {
  const end = hourOf(now - settleMs)
  const first = hourOf(end - lookbackMs)
  const byStart = new Map(known.map((hour) => [hour.from, hour]))
  return Array.from({ length: (end - first) / hourMs }, (_, index) => {
    const from = first + index * hourMs
    return (
      byStart.get(from) ?? {
        from,
        listAt: from,
        askAt: Infinity,
        recoveredAt: -Infinity,
        looks: 0,
        askedAt: 0,
        listing: undefined,
        problem: undefined,
      }
    )
  })
}

/**
 * Hours that were never tried go first; then hours that only need the ledger, which costs no call of the platform; of each, the
 * one due for longest: many that fail each time do not keep the others waiting.
 */
export function nextLook(hours: readonly Hour[], now: number): Look | undefined {
  const due = (kind: Look['kind'], isMeant: (hour: Hour) => boolean): Look | undefined => {
    const dueAt = ({ askAt, listAt }: Hour): number => (kind === 'list' ? listAt : askAt)
    const [hour] = hours.filter((one) => isMeant(one) && dueAt(one) <= now).toSorted((a, b) => dueAt(a) - dueAt(b))
    return hour && { hour, kind }
  }
  return (
    due('list', ({ looks, problem }) => looks === 0 && problem === undefined) ??
    due('ask', () => true) ??
    due('list', () => true)
  )
}

/** Delivered long enough before the ledger was asked, but not in it. */
export function missedOf({ askedAt, listing }: Hour, { settleMs }: HoursPolicy): FailedRecord[] {
  return (listing?.missed ?? []).flatMap(({ entry }) => (entry.lastAt <= askedAt - settleMs ? [entry] : []))
}

/** When the ledger may have more: after the settle time, or when the first recent delivery has settled. */
function nextAsk({ listing }: Hour, now: number, { settleMs }: HoursPolicy): number {
  if (listing === undefined || listing.missed.length === 0) return Infinity
  const fresh = listing.missed.flatMap(({ entry: { lastAt } }) => (lastAt > now - settleMs ? [lastAt + settleMs] : []))
  return Math.max(now + minuteMs, Math.min(now + settleMs, ...fresh))
}

/** Applies a listing to the hour. `askedAt`: when the ledger was asked, before the listing. */
export function takeListing(hour: Hour, askedAt: number, listing: HourListing, policy: HoursPolicy): void {
  const { complete, missed, open } = listing
  Object.assign(hour, { listing, askedAt, problem: undefined, looks: hour.looks + 1 })
  const againMs = Math.min(firstListAgainMs * 2 ** (hour.looks - 1), maxListAgainMs)
  const againAt = complete && missed.length + open === 0 ? Infinity : askedAt + againMs
  hour.listAt = hour.recoveredAt < askedAt ? againAt : Math.min(againAt, hour.recoveredAt + policy.settleMs)
  hour.askAt = nextAsk(hour, askedAt, policy)
}

/** Applies a response of the ledger: keys that it now has are no longer missed. Only a listing shows the rest of the keys. */
export function takeLedger(hour: Hour, askedAt: number, has: (key: string) => boolean, policy: HoursPolicy): void {
  const { listing } = hour
  if (listing === undefined) return
  const missed = listing.missed.filter(({ key }) => !has(key))
  Object.assign(hour, { listing: { ...listing, missed }, askedAt, problem: undefined })
  hour.askAt = nextAsk(hour, askedAt, policy)
  if (missed.length === 0 && listing.more > 0) hour.listAt = askedAt
}

/** The end of the last hour up to which all hours are compared. */
export function comparedUntil(hours: readonly Hour[], now: number, { settleMs }: HoursPolicy): number {
  const open = hours.find(({ listing }) => listing?.complete !== true)
  return open?.from ?? hourOf(now - settleMs)
}

/** Why an hour is not compared, or not completely, and since when. A failure comes first: it may affect all. */
export function hoursProblem(hours: readonly Hour[]): Hour['problem'] {
  // A second listing may have what the first one lacked.
  const partial = hours.find(({ listing, looks }) => listing?.complete === false && looks > 1)
  const text = 'The platform does not list all of an hour'
  const problem = hours.find((hour) => hour.problem !== undefined)?.problem
  return problem ?? (partial && { text, since: partial.from + hourMs })
}

/** Missed records of one subscription, type and response. */
export interface MissedCause extends Pick<FailedRecord, 'eventType' | 'responseStatusCode' | 'subscriptionId'> {
  records: number
  /** When the first and the last of them were delivered. */
  firstAt: number
  lastAt: number
}

export interface Missed {
  total: number
  /** Deliveries since the minute of the first missed one, with the number of subscriptions and types. */
  delivered: number
  subscriptions: number
  eventTypes: number
  firstAt: number
  /** The end of the last hour of these deliveries: an hour before it may not be compared. */
  untilAt: number
  /** False while an hour with missed records was listed only once. */
  isConfirmed: boolean
  /** Largest first. */
  causes: MissedCause[]
}

/** Undefined while nothing is missed. */
export function sumOfMissed(hours: readonly Hour[], policy: HoursPolicy): Missed | undefined {
  const causes = new Map<string, MissedCause>()
  const [subscriptions, eventTypes] = [new Set<string>(), new Set<string>()]
  let [total, delivered, isConfirmed, firstAt, untilAt] = [0, 0, true, Infinity, -Infinity]
  for (const hour of hours) {
    const { listing, looks } = hour
    const missed = missedOf(hour, policy)
    const unprocessed = missed.length + (listing?.more ?? 0)
    if (listing === undefined || unprocessed + total === 0) continue
    const isFirst = total === 0 && missed.length > 0
    const since = isFirst ? Math.min(...missed.map(({ eventAt }) => eventAt)) : hour.from
    firstAt = Math.min(firstAt, since)
    untilAt = hour.from + hourMs
    delivered += listing.delivered.slice(minuteOf(hour, since)).reduce((sum, one) => sum + one, 0)
    for (const id of listing.subscriptions) subscriptions.add(id)
    for (const type of listing.eventTypes) eventTypes.add(type)
    if (unprocessed === 0) continue
    total += unprocessed
    isConfirmed &&= looks > 1
    for (const { eventType, lastAt: at, responseStatusCode, subscriptionId } of missed) {
      const name = `${subscriptionId} ${responseStatusCode} ${eventType}`
      const none = { subscriptionId, eventType, responseStatusCode, records: 0, firstAt: at, lastAt: at }
      const cause = causes.get(name) ?? none
      const [firstAt, lastAt] = [Math.min(cause.firstAt, at), Math.max(cause.lastAt, at)]
      causes.set(name, { ...cause, records: cause.records + 1, firstAt, lastAt })
    }
  }
  if (total === 0) return undefined
  return {
    total,
    delivered,
    subscriptions: subscriptions.size,
    eventTypes: eventTypes.size,
    firstAt,
    untilAt,
    isConfirmed,
    causes: [...causes.values()].toSorted((a, b) => b.records - a.records),
  }
}
