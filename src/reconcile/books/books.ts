// Keeps the books: compares each past hour of the platform's records with the receiver's ledger, and says by name what was delivered and not processed.
import type { PlatformClient } from '../../platform/client.ts'
import type { Transport } from '../../platform/http/http.ts'
import { laterReadingNotAfter, type TimeZone } from '../../platform/time-zone.ts'
import type { Clock } from '../../runtime/clock.ts'
import { createNotifier } from '../../runtime/notifier.ts'
import { shownText } from '../../runtime/redact.ts'
import { readingNotAhead } from '../failed-record.ts'
import { isPlatformTrouble } from '../platform-trouble.ts'
import { sweep } from '../sweep/sweep.ts'
import { slidingWindow, type Span } from '../window.ts'
import {
  comparedUntil,
  hourMs,
  hoursAt,
  maxNamed,
  minuteOf,
  missedOf,
  nextLook,
  nextLookAt,
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
import type { KeyKind } from './read-keys.ts'
import { createRecordKeys, groupOf } from './record-keys.ts'

/** One question to the ledger. */
export interface LedgerEvent {
  type: 'ledger'
  result: LedgerResult
  /** The reason why there are no books. */
  problem?: string
}

/** An hour was compared: how many deliveries of it the ledger lacks. */
export interface HourEvent {
  type: 'hour-compared'
  /** ISO 8601, UTC. */
  from: string
  complete: boolean
  delivered: number
  unprocessed: number
  /** Records whose key could not be read: nothing is known of them. */
  withoutKey: number
}

/** Times in epoch ms of the platform's clock. */
export interface BooksState {
  comparedUntil: number
  /** The reason why the ledger gave no books of an hour, and since when it has given none. */
  problem: Hour['problem']
  missed: Missed | undefined
}

export interface BooksOptions {
  /** Without an address there are no books. */
  ledger: { url?: string | undefined; key: KeyKind; settle: number; lookback: number }
  client: PlatformClient
  /** True once a sweep has shown that the platform can be listed, and its time. */
  isReady: () => boolean
  sliceRecords: number
  concurrency: number
  zone: TimeZone
  transport: Transport
  clock: Clock
  emit: (event: LedgerEvent | HourEvent) => void
}

export interface Books {
  /** Looks at each hour that is due, one after the other. Rejects with the signal's reason, or with a bug. */
  run(signal: AbortSignal): Promise<void>
  /** A retry of an event of this time has arrived: its hour is compared again when that has settled. */
  recovered(eventAt: number): void
  /** Undefined without a ledger. */
  state(): BooksState | undefined
}

/** Maximum and minimum time without a look for hours that are due, and the time after a failure of either side. */
const [maxPauseMs, minPauseMs, restMs] = [30_000, 1000, 60_000]
/** An hour of which the ledger gave no books is asked about again after so long; one that did not match, after an hour. */
const failedMs = 600_000
/** Once a key has matched, so many records of an hour without any match are no chance. */
const minMismatched = 10

/** An hour, what it is on the platform's wall clock, and when it is asked about. */
interface Question {
  hour: Hour
  span: Span
  askedAt: number
}

/** The ledger's answer: the keys, how many there are, and one to show. */
interface LedgerAnswer {
  ledger: Ledger
  lines: number
  sample: string
}

export function createBooks(options: BooksOptions): Books {
  const { client, clock, emit, isReady, transport, zone } = options
  const { key: kind, lookback: lookbackMs, settle: settleMs, url } = options.ledger
  const policy = { lookbackMs, settleMs }
  const notifier = createNotifier(clock)
  let hours: readonly Hour[] = []
  /** True once a key of the ledger was one of the platform's. */
  let hasMatched = false

  /** Wall-clock seconds of the hour; where daylight saving repeats some, all that may be meant. */
  function spanOf({ from }: Hour, now: number): Span {
    const window = { lookback: now - from, settle: now - from - hourMs, notBefore: undefined, expiryWarning: 0 }
    return slidingWindow(now, window, zone)
  }

  async function ask(address: string, { from, to }: Span, signal: AbortSignal): Promise<LedgerAnswer> {
    let [lines, sample] = [0, '']
    const moments = { from: zone.toInstants(from * 1000)[0], until: zone.toInstants(to * 1000)[1] }
    const ledger = await readLedger(ledgerKeys(moments, { url: address, kind, transport }, signal), (key) => {
      if (lines === 0) sample = key
      lines += 1
    })
    return { ledger, lines, sample }
  }

  /** Lists the hour, and holds each record against the answer. @throws LedgerFailure for one of another platform */
  async function list(
    { hour, span, askedAt }: Question,
    answer: LedgerAnswer,
    signal: AbortSignal,
  ): Promise<HourListing> {
    const { concurrency, sliceRecords } = options
    const keys = createRecordKeys(client, kind, 'books')
    const delivered = Array.from({ length: 60 }, () => 0)
    const [subscriptions, eventTypes] = [new Set<string>(), new Set<string>()]
    const missed: HourListing['missed'] = []
    let [complete, isMatching, more, open, withoutKey, other] = [true, false, 0, 0, 0, '']
    const how = {
      client: keys.client,
      status: 'any',
      monotonic: () => clock.monotonic(),
      concurrency,
      sliceRecords,
    } as const
    // Records of any status leave no list when they are retried: there is nothing to fence.
    const fence = (): Promise<() => void> => Promise.resolve(() => undefined)
    for await (const { listed, skipped } of sweep([span], { ...how, fence }, signal)) {
      complete &&= skipped === undefined && listed?.verdict === 'whole'
      for (const record of listed?.records ?? []) {
        const eventAt = laterReadingNotAfter(zone, record.eventLocal, askedAt)
        if (eventAt < hour.from || eventAt >= hour.from + hourMs) continue
        const key = keys.keyOf(record)
        if (key === undefined) {
          withoutKey += 1
          continue
        }
        const { eventId, eventType, id: webhookId, lastAttemptLocal, responseStatusCode, subscriptionId } = record
        const processed = answer.ledger.note(key, eventId)
        isMatching ||= processed
        const lastAt = lastAttemptLocal === null ? eventAt : readingNotAhead(zone, lastAttemptLocal, askedAt)
        // Fresh ones are kept, and judged by a later answer of the ledger.
        const group = groupOf(record, { lastAt, processed, settledBefore: Infinity })
        if (group === 'failed' || group === 'processing') {
          open += 1
          continue
        }
        other ||= key
        const minute = minuteOf(hour, eventAt)
        delivered[minute] = (delivered[minute] ?? 0) + 1
        subscriptions.add(subscriptionId)
        eventTypes.add(eventType)
        if (group === 'delivered') continue
        const one = { webhookId, eventId, subscriptionId, eventType, responseStatusCode, key, eventAt, lastAt }
        if (missed.length < maxNamed) missed.push(one)
        else more += 1
      }
      keys.clear()
    }
    hasMatched ||= isMatching
    if (!isMatching && other !== '') checkMatch(answer, missed.length, other)
    return { askedAt, complete, delivered, subscriptions, eventTypes, missed, more, open, withoutKey }
  }

  /** Without a match, the keys are of another platform, time or form, unless others have shown their form and these are few. */
  function checkMatch({ lines, sample }: LedgerAnswer, missed: number, other: string): void {
    if (hasMatched && (lines === 0 || missed < minMismatched)) return
    const ours = lines === 0 ? 'it has none' : `it has "${shownText(sample)}"`
    throw new LedgerFailure('mismatch', `has no key of the platform's: ${ours}, the platform "${shownText(other)}"`)
  }

  function failed({ hour, kind: how }: Look, { message, result }: LedgerFailure): void {
    const now = client.now()
    hour.problem = { text: message, since: hour.problem?.since ?? now }
    // Later: the other hours have their turn.
    hour[how === 'ask' ? 'askAt' : 'listAt'] = now + (result === 'mismatch' ? hourMs : failedMs)
    emit({ type: 'ledger', result, problem: message })
  }

  /** The ledger is asked first: while it is down, that costs no call of the platform. */
  async function look(address: string, { hour, kind: how }: Look, signal: AbortSignal): Promise<void> {
    const askedAt = client.now()
    const span = spanOf(hour, askedAt)
    const answer = await ask(address, span, signal)
    if (how === 'ask') takeLedger(hour, askedAt, (key) => answer.ledger.note(key, ''), policy)
    else {
      const listing = await list({ hour, span, askedAt }, answer, signal)
      takeListing(hour, listing, policy)
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

  /** Milliseconds to wait before the next look. */
  async function step(address: string, signal: AbortSignal): Promise<number> {
    if (!isReady()) return minPauseMs
    const now = client.now()
    hours = hoursAt(hours, now, policy)
    const next = nextLook(hours, now)
    if (next === undefined) return Math.min(maxPauseMs, Math.max(minPauseMs, nextLookAt(hours) - now))
    try {
      await look(address, next, signal)
      return 0
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof LedgerFailure) failed(next, error)
      else if (!isPlatformTrouble(error)) throw error
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
      const hour = hours.find(({ from }) => from <= eventAt && eventAt < from + hourMs)
      if (hour === undefined) return
      hour.listAt = Math.min(hour.listAt, client.now() + settleMs)
      notifier.notify()
    },
    state() {
      if (url === undefined) return undefined
      const now = client.now()
      const known = hoursAt(hours, now, policy)
      const problem = known.find((hour) => hour.problem !== undefined)?.problem
      return { comparedUntil: comparedUntil(known, now, policy), problem, missed: sumOfMissed(known, policy) }
    },
  }
}
