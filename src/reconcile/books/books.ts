// The books: each past hour of the platform's records, compared with the receiver's ledger to name unprocessed deliveries.
import type { PlatformClient } from '../../platform/client.ts'
import type { Transport } from '../../platform/http/http.ts'
import { PlatformFailure } from '../../platform/http/response.ts'
import type { TimeZone } from '../../platform/time-zone.ts'
import type { Clock } from '../../runtime/clock.ts'
import { createNotifier } from '../../runtime/notifier.ts'
import { redact, shownText } from '../../runtime/redact.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'
import { isOfAnyCall, isPlatformTrouble, problemOf } from '../platform-trouble.ts'
import { instantsBetween } from '../window.ts'
import { compareRecords, type ComparedRecord } from './compare-records.ts'
import {
  comparedUntil,
  hourMs,
  hourOf,
  hoursAt,
  hoursProblem,
  maxNamed,
  minuteOf,
  missedOf,
  nextLook,
  sumOfMissed,
  takeLedger,
  takeListing,
  type Hour,
  type HourListing,
  type Look,
  type Missed,
} from './hours.ts'
import { LedgerFailure, ledgerKeys, type LedgerResult } from './ledger-client.ts'
import { readLedger, type Ledger } from './ledger.ts'
import { keyPart, type KeyKind } from './read-keys.ts'

/** One request to the ledger. */
export interface LedgerEvent {
  type: 'ledger'
  result: LedgerResult
  /** Why the request failed. */
  problem?: string
}

/** A comparison of an hour: the number of deliveries that the ledger lacks. */
export interface HourEvent {
  type: 'hour-compared'
  /** ISO 8601, UTC. */
  from: string
  complete: boolean
  delivered: number
  unprocessed: number
  /** Records whose key was unreadable, and so not compared. */
  withoutKey: number
}

/** Times in epoch ms of the platform's clock. */
export interface BooksState {
  comparedUntil: number
  /** The hour that begins there is late from then on. */
  dueAt: number
  /** True while a settled hour is not compared completely. */
  isBehind: boolean
  /** Why an hour could not be compared, and since when. */
  problem: Hour['problem']
  missed: Missed | undefined
  /** Number of deliveries without a key: not compared. */
  withoutKey: number
}

export interface BooksOptions {
  /** Without a URL there are no books. */
  ledger: { url?: string | undefined; key: KeyKind; settle: number; lookback: number }
  client: PlatformClient
  /** Excludes records by `select` and `window.notBefore` from the comparison: their receiver may have another ledger, or none. */
  policy: Pick<Policy, 'select' | 'sweep' | 'window'>
  /** True once a sweep has shown that the platform can be listed, and its time. */
  isReady: () => boolean
  zone: TimeZone
  transport: Transport
  clock: Clock
  emit: (event: LedgerEvent | HourEvent) => void
}

export interface Books {
  /** Compares each hour that is due, one at a time. Rejects with the signal's reason, or with a bug. */
  run(signal: AbortSignal): Promise<void>
  /** A retry of an event of this time has arrived: its hour is compared again after settling. */
  recovered(eventAt: number): void
  /** Deliveries that the ledger lacks, as far as they are kept by name. */
  missed(): FailedRecord[]
  /** Undefined without a ledger. */
  state(): BooksState | undefined
}

/** Maximum and minimum time between two looks for due hours, and the rest after a failure of either side. */
const [maxPauseMs, minPauseMs, restMs] = [30_000, 1000, 60_000]
/** An hour not compared this long after its beginning, and settling, is late. */
const lateMs = 3 * hourMs
/** A failed hour is retried after this time; a mismatch, after an hour. */
const failedMs = 600_000
export function createBooks(options: BooksOptions): Books {
  const { client, clock, emit, isReady, transport, zone } = options
  const { key: kind, lookback: lookbackMs, settle: settleMs, url } = options.ledger
  const policy = { lookbackMs, settleMs }
  const { notBefore = -Infinity } = options.policy.window
  const { eventTypes: types, subscriptionIds: ids } = options.policy.select
  const only = { ...(types.length > 0 && { type: types.map(keyPart) }), ...(ids.length > 0 && { subscription: ids }) }
  const notifier = createNotifier(clock)
  let hours: readonly Hour[] = []
  /** True once a key of the ledger has matched one of the platform's. */
  let hasMatched = false

  function ask(address: string, { from }: Hour, signal: AbortSignal): Promise<Ledger> {
    const moments = instantsBetween({ from, until: from + hourMs }, zone)
    return readLedger(ledgerKeys(moments, { url: address, kind, transport }, signal))
  }

  /** Lists the hour, and compares each record with the ledger. @throws LedgerFailure for the ledger of another platform */
  async function list(
    hour: Hour,
    askedAt: number,
    ledger: Ledger,
    signal: AbortSignal,
  ): Promise<HourListing | undefined> {
    const delivered = Array.from({ length: 60 }, () => 0)
    const [subscriptions, eventTypes] = [new Set<string>(), new Set<string>()]
    const missed: HourListing['missed'] = []
    let [more, open] = [0, 0]
    function compared({ entry, group, key, record }: ComparedRecord): void {
      if (record.status !== 'successful') {
        open += 1
        return
      }
      const minute = minuteOf(hour, entry.eventAt)
      delivered[minute] = (delivered[minute] ?? 0) + 1
      subscriptions.add(record.subscriptionId)
      eventTypes.add(record.eventType)
      if (group === 'delivered') return
      // Recent ones are kept too: a later response of the ledger may contain them.
      if (missed.length < maxNamed) missed.push({ entry, key })
      else if (entry.lastAt <= askedAt - settleMs) more += 1
      else open += 1
    }
    const { complete, match, sample, withoutKey } = await compareRecords(
      { from: Math.max(hour.from, Math.min(notBefore, hour.from + hourMs)), until: hour.from + hourMs, only },
      {
        ...{ client, purpose: 'books', kind, ledger, now: askedAt, zone, compared, turn: () => clock.sleep(1) },
        ...{ ...options.policy.sweep, monotonic: clock.monotonic },
      },
      signal,
    )
    // A ledger may return more than the hour: keys of other hours that have matched.
    const isOurs = hours.some(({ listing }) => listing?.match !== undefined && ledger.has(listing.match))
    if (match !== undefined) matched()
    // Without a line, none was processed, if other hours matched.
    else if (missed.length > 0 && !isOurs && !(hasMatched && ledger.lines === 0)) {
      // Events delivered a moment ago may not be in the ledger yet: they do not show whose keys it has.
      if (missed.every(({ entry }) => entry.lastAt > askedAt - settleMs)) return undefined
      throw mismatch(ledger, sample)
    }
    return { complete, match, delivered, subscriptions, eventTypes, missed, more, open, withoutKey }
  }

  /** Hours whose responses seemed to be another platform's are requested again, now that some are known to be this one's. */
  function matched(): void {
    if (!hasMatched) for (const hour of hours) if (hour.problem !== undefined) hour.listAt = hour.from
    hasMatched = true
  }

  /** The keys are of another platform, time or form. */
  function mismatch({ lines, sample }: Ledger, other = ''): LedgerFailure {
    const ours = lines === 0 ? 'it has none' : `it has "${shownText(sample)}"`
    return new LedgerFailure('mismatch', `has no key of the platform's: ${ours}, the platform "${shownText(other)}"`)
  }

  /** The other hours come first. */
  function putOff({ hour, kind: how }: Look, text: string, forMs = failedMs): void {
    const now = client.now()
    hour.problem = { text, since: hour.problem?.since ?? now }
    hour[how === 'ask' ? 'askAt' : 'listAt'] = now + forMs
  }

  /** The ledger is asked first: while it is down, no call of the platform is spent. */
  async function look(address: string, { hour, kind: how }: Look, signal: AbortSignal): Promise<void> {
    const askedAt = client.now()
    const ledger = await ask(address, hour, signal)
    if (how === 'ask') {
      const { match } = hour.listing ?? {}
      if (match !== undefined && !ledger.has(match)) throw mismatch(ledger, match)
      takeLedger(hour, askedAt, ledger.has, policy)
    } else {
      const listing = await list(hour, askedAt, ledger, signal)
      if (listing === undefined) {
        hour.listAt = askedAt + settleMs
        return
      }
      takeListing(hour, askedAt, listing, policy)
      const { complete, delivered, more, withoutKey } = listing
      const unprocessed = missedOf(hour, policy).length + more
      const from = new Date(hour.from).toISOString()
      emit({
        type: 'hour-compared',
        from,
        complete,
        delivered: delivered.reduce((sum, one) => sum + one, 0),
        unprocessed,
        withoutKey,
      })
    }
    emit({ type: 'ledger', result: 'ok' })
  }

  /** Milliseconds until the next look. */
  async function step(address: string, signal: AbortSignal): Promise<number> {
    if (!isReady()) return minPauseMs
    const now = client.now()
    hours = hoursAt(hours, now, policy)
    const next = nextLook(hours, now)
    if (next === undefined) {
      const nextAt = Math.min(...hours.flatMap(({ askAt, listAt }) => [askAt, listAt]))
      return Math.min(maxPauseMs, Math.max(minPauseMs, nextAt - now))
    }
    try {
      await look(address, next, signal)
      return 0
    } catch (error) {
      if (error instanceof LedgerFailure) {
        const { message: problem, result } = error
        putOff(next, `The ledger ${problem}`, result === 'mismatch' ? hourMs : failedMs)
        emit({ type: 'ledger', result, problem })
      } else if (!isPlatformTrouble(error)) throw error
      else if (error instanceof PlatformFailure && !isOfAnyCall(error))
        putOff(next, redact(`The platform cannot list an hour: ${problemOf(error)}`))
      return restMs
    }
  }

  return {
    async run(signal) {
      while (url !== undefined) {
        signal.throwIfAborted()
        await notifier.wait(await step(url, signal), signal)
      }
    },
    recovered(eventAt) {
      const hour = hours.find(({ from }) => from === hourOf(eventAt))
      if (hour === undefined) return
      hour.recoveredAt = client.now()
      hour.listAt = Math.min(hour.listAt, hour.recoveredAt + settleMs)
      notifier.notify()
    },
    missed: () => hoursAt(hours, client.now(), policy).flatMap((hour) => missedOf(hour, policy)),
    state() {
      if (url === undefined) return undefined
      const now = client.now()
      const known = hoursAt(hours, now, policy)
      const until = comparedUntil(known, now, policy)
      return {
        comparedUntil: until,
        dueAt: until + settleMs + lateMs,
        isBehind: known.some(({ listing }) => listing?.complete !== true),
        problem: hoursProblem(known),
        missed: sumOfMissed(known, policy),
        withoutKey: known.reduce((sum, { listing }) => sum + (listing?.withoutKey ?? 0), 0),
      }
    },
  }
}
