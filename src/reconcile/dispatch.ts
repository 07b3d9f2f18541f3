// Sends what is due, one record at a time per id, as fast as slots, rate and trouble allow. @see design section 10
import pLimit from 'p-limit'
import { createBell } from '../bell.ts'
import type { Clock } from '../clock.ts'
import { isAbort } from '../errors.ts'
import type { PlatformClient, RetryAnswer } from '../platform/client.ts'
import type { Rate } from '../platform/rate.ts'
import type { Backlog } from './backlog.ts'
import type { Entry, TimeOffset } from './entry.ts'
import type { Guard } from './guard.ts'
import type { Policy } from './policy.ts'
import { createTurns } from './turns.ts'
import { contains, type Span } from './window.ts'

export interface RetryFact {
  type: 'retry'
  id: string
  eventId: string
  subscriptionId: string
  eventType: string
  answer: RetryAnswer
}

export interface TimeOffsetFact {
  type: 'time-offset'
  offsets: readonly TimeOffset[]
}

export interface DispatchOptions {
  client: PlatformClient
  backlog: Backlog
  policy: Policy
  rate: Rate
  guard: Guard
  clock: Clock
  /** Retries in flight at most. */
  concurrency: number
  report: (fact: RetryFact | TimeOffsetFact) => void
}

export interface Dispatcher {
  /** Takes new and changed records in. */
  offer(entries: Iterable<Entry>): void
  /** Looks again whether something can go out. */
  wake(): void
  /** Keeps retries out of a span; resolves, when none is in flight there, to the release. */
  fence(span: Span, signal: AbortSignal): Promise<() => void>
  /**
   * Retries until `stop` is aborted, then waits for those in flight; `kill` ends these too.
   * With `onlyDueAt` (epoch ms of the platform's clock) it retries what was due then, and ends when that is done, or
   * trouble stops it. Rejects only for a bug, at once: those in flight are left to `kill`.
   */
  run(signals: { stop: AbortSignal; kill: AbortSignal }, round?: { onlyDueAt: number }): Promise<void>
  inFlight(): number
  /** How long the loop has not turned, in ms, other than to wait for the rate: it turns at least every half minute. */
  silentForMs(): number
}

interface Flight {
  entry: Entry
  done: Promise<void>
}

export function createDispatcher(options: DispatchOptions): Dispatcher {
  const { backlog, client, clock, guard, policy, rate } = options
  const flights = new Map<string, Flight>()
  const bySubscription = new Map<string, number>()
  const bell = createBell(clock)
  const limit = pLimit(options.concurrency)
  const turns = createTurns({
    policy,
    isHeld: (entry) => backlog.get(entry.id) === entry,
    isInFlight: (entry) => flights.has(entry.id),
    inFlightOf: (subscriptionId) => bySubscription.get(subscriptionId) ?? 0,
  })
  let beatAt = clock.monotonic()
  let waitsForRate = false
  /** Aborted with the first bug that a retry met. */
  const broken = new AbortController()
  /** In a single round, the moment at which what is due was decided. */
  let roundAt: number | undefined
  const now = (): number => roundAt ?? client.now()

  /** The last free slot is for a subscription that has none in flight, so that a slow one can't take them all. */
  const idleOnly = (): boolean => flights.size === options.concurrency - 1
  const mayRetry = (): boolean => policy.enabled && flights.size < options.concurrency && guard.allows(flights.size)

  function count(subscriptionId: string, by: number): void {
    const now = (bySubscription.get(subscriptionId) ?? 0) + by
    if (now > 0) bySubscription.set(subscriptionId, now)
    else bySubscription.delete(subscriptionId)
  }

  async function attempt(entry: Entry, kill: AbortSignal): Promise<void> {
    const sentAt = client.now()
    const answer = await client.retry(entry.id, kill)
    const answeredAt = client.now()
    const noted = backlog.note(entry, answer, { sentAt, answeredAt, monotonic: clock.monotonic() })
    guard.note(answer)
    const { id, eventId, subscriptionId, eventType } = entry
    options.report({ type: 'retry', id, eventId, subscriptionId, eventType, answer })
    if (noted.offset !== undefined) options.report({ type: 'time-offset', offsets: [noted.offset] })
  }

  function send(entry: Entry, kill: AbortSignal): void {
    count(entry.subscriptionId, 1)
    const done = limit(attempt, entry, kill)
      .catch((error: unknown) => {
        // A record whose PATCH was cut off by the end of the process is still failed: nothing is lost.
        if (!isAbort(error, kill)) broken.abort(error)
      })
      .then(() => {
        flights.delete(entry.id)
        count(entry.subscriptionId, -1)
        if (backlog.get(entry.id) === entry) turns.offer([entry], now())
        bell.ring()
      })
    flights.set(entry.id, { entry, done })
  }

  /** Picks after the rate has let it: what was due before the wait may not be any more. */
  async function sendNext(halt: AbortSignal, kill: AbortSignal): Promise<void> {
    waitsForRate = true
    await rate.acquire('retry', halt).finally(() => {
      waitsForRate = false
      beatAt = clock.monotonic()
    })
    const entry = mayRetry() && !halt.aborted ? turns.next(now(), idleOnly()) : undefined
    if (entry === undefined) rate.release('retry')
    else send(entry, kill)
  }

  /** Milliseconds until something may become due; in a single round nothing does. */
  function untilDue(): number | undefined {
    const dueAt = roundAt === undefined ? turns.nextDueAt() : undefined
    return dueAt === undefined ? undefined : Math.max(1, dueAt - client.now())
  }

  /** True when a single round has nothing left that it could do. */
  function isRoundOver(): boolean {
    if (roundAt === undefined || flights.size > 0) return false
    return !policy.enabled || guard.trouble() !== undefined || (mayRetry() && !turns.ready(roundAt, false))
  }

  async function loop(halt: AbortSignal, kill: AbortSignal): Promise<void> {
    for (;;) {
      halt.throwIfAborted()
      beatAt = clock.monotonic()
      if (mayRetry() && turns.ready(now(), idleOnly())) {
        await sendNext(halt, kill)
        continue
      }
      if (isRoundOver()) return
      await bell.wait(mayRetry() ? untilDue() : undefined, halt)
    }
  }

  return {
    offer(entries) {
      turns.offer(entries, client.now())
      bell.ring()
    },
    wake: () => {
      bell.ring()
    },
    async fence(span, signal) {
      const open = turns.fence(span)
      const release = (): void => {
        open()
        bell.ring()
      }
      try {
        const inside = [...flights.values()].filter(({ entry }) => contains(span, entry.localSecond))
        await Promise.all(inside.map(({ done }) => done))
        signal.throwIfAborted()
      } catch (error) {
        release()
        throw error
      }
      return release
    },
    async run({ stop, kill }, round) {
      roundAt = round?.onlyDueAt
      try {
        await loop(AbortSignal.any([stop, broken.signal]), kill)
      } catch (error) {
        if (broken.signal.aborted || !isAbort(error, stop)) throw error
      }
      await Promise.all([...flights.values()].map(({ done }) => done))
      broken.signal.throwIfAborted()
    },
    inFlight: () => flights.size,
    silentForMs: () => (waitsForRate ? 0 : clock.monotonic() - beatAt),
  }
}
