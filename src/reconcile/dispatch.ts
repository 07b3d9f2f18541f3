// Sends what is due, one record at a time per id, as fast as slots, rate and trouble allow. @see design section 10
import pLimit from 'p-limit'
import { createBell } from '../bell.ts'
import type { Clock } from '../clock.ts'
import type { PlatformClient, RetryAnswer } from '../platform/client.ts'
import type { Rate } from '../platform/rate.ts'
import type { Backlog, Entry, TimeOffset } from './backlog.ts'
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
   * With `untilIdle` it also ends when nothing is due any more, or trouble stops it. Rejects only for a bug.
   */
  run(signals: { stop: AbortSignal; kill: AbortSignal }, until?: { idle: boolean }): Promise<void>
  inFlight(): number
  /** Monotonic ms of the loop's last turn: the loop lives. */
  beatAt(): number
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
  let bug: unknown

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
        if (!kill.aborted) bug ??= error
      })
      .then(() => {
        flights.delete(entry.id)
        count(entry.subscriptionId, -1)
        if (backlog.get(entry.id) === entry) turns.offer([entry], client.now())
        bell.ring()
      })
    flights.set(entry.id, { entry, done })
  }

  /** Picks after the rate has let it: what was due before the wait may not be any more. */
  async function sendNext(stop: AbortSignal, kill: AbortSignal): Promise<void> {
    await rate.acquire('retry', stop)
    const entry = mayRetry() ? turns.next(client.now(), idleOnly()) : undefined
    if (entry === undefined) rate.release('retry')
    else send(entry, kill)
  }

  /** Milliseconds until something may become due. */
  function untilDue(): number | undefined {
    const dueAt = turns.nextDueAt()
    return dueAt === undefined ? undefined : Math.max(1, dueAt - client.now())
  }

  async function loop(stop: AbortSignal, kill: AbortSignal, idle: boolean): Promise<void> {
    for (;;) {
      if (bug !== undefined) throw bug as Error
      stop.throwIfAborted()
      beatAt = clock.monotonic()
      if (mayRetry() && turns.ready(client.now(), idleOnly())) {
        await sendNext(stop, kill)
        continue
      }
      const over =
        flights.size === 0 && (guard.trouble() !== undefined || (mayRetry() && !turns.ready(client.now(), false)))
      if (idle && (over || !policy.enabled)) return
      await bell.wait(mayRetry() ? untilDue() : undefined, stop)
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
    async run({ stop, kill }, until = { idle: false }) {
      try {
        await loop(stop, kill, until.idle)
      } catch (error) {
        if (!stop.aborted || bug !== undefined) throw error
      } finally {
        await Promise.all([...flights.values()].map(({ done }) => done))
      }
      if (bug !== undefined) throw bug as Error
    },
    inFlight: () => flights.size,
    beatAt: () => beatAt,
  }
}
