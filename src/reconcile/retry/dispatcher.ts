// Sends the PATCH of the record that the retry plan has next: one at a time per id, within slots, circuits and order. @see docs/architecture.md "Retry plan"
import pLimit from 'p-limit'
import type { Clock } from '../../runtime/clock.ts'
import { isAbort } from '../../runtime/errors.ts'
import type { PlatformClient } from '../../platform/client.ts'
import type { RetryAnswer } from '../../platform/operations.ts'
import type { RateLimiter } from '../../platform/rate-limiter.ts'
import type { Circuits, Ticket } from './circuits.ts'
import type { Backlog } from './backlog.ts'
import type { Planner } from './planner.ts'
import { decide } from '../decide.ts'
import type { Outcomes } from '../confirm/outcomes.ts'
import { nextAttempt, type FailedRecord } from '../failed-record.ts'
import type { PlatformBreaker } from './platform-breaker.ts'
import type { Policy } from '../policy.ts'
import type { Because } from '../reasons.ts'
import type { ReceiverHealth } from './receiver-health.ts'
import type { Gates } from './gates.ts'
import { pickNext, take, type Pick as Picked, type PickRules, type RetryPlan } from './retry-plan.ts'
import { contains, type Span } from '../window.ts'

export interface RetryEvent {
  type: 'retry'
  webhookId: string
  eventId: string
  subscriptionId: string
  eventType: string
  /** Number of the attempt, as known when it was sent; the first is 1. */
  attempt: number
  /** The rule that allowed it: `due` or `expiring`; `probe` while its circuit is half-open. */
  why: Because
  answer: RetryAnswer
}

export interface DispatchOptions {
  client: PlatformClient
  backlog: Backlog
  planner: Planner
  outcomes: Outcomes
  policy: Policy
  rate: RateLimiter
  breaker: PlatformBreaker
  circuits: Circuits
  gates: Gates
  receiver: Pick<ReceiverHealth, 'up'>
  clock: Clock
  /** Maximum number of retries in flight. */
  concurrency: number
  emit: (event: RetryEvent) => void
  /** Called when a slot has become free, or a span may be retried again. */
  wake: () => void
}

/** A round of a command: retries only the records that are due at this moment (epoch ms of the platform's clock). */
export interface RetryRound {
  onlyDueAt: number
}

/** The steps of the retry loop, which waits between them. @see src/reconciler.ts */
export interface Dispatcher {
  /** Begins the loop, or a round. */
  begin(round?: RetryRound): void
  /** A turn of the loop: ends cooldowns, frees places and pings the platform, each when its time has come. */
  turn(signal: AbortSignal): void
  /** The record to retry now; undefined when there is none, a gate is shut, or no slot is free. */
  pick(): Picked | undefined
  /** Sends its retry. `kill` aborts the call. */
  send(picked: Picked, kill: AbortSignal): void
  /** True when a round has nothing left to do or to wait for. */
  isRoundOver(): boolean
  /** Milliseconds until a record may become due or allowed; undefined when only an event can change that. */
  msUntilChange(): number | undefined
  /** Aborted with the first bug in a retry. */
  readonly broken: AbortSignal
  /** Resolves when the current calls have ended. */
  drain(): Promise<void>
  /** Blocks retries in a span; resolves to the release function once none is in flight there. */
  fence(span: Span, signal: AbortSignal): Promise<() => void>
  inFlight(): number
  /**
   * Time since the last turn of the loop, in ms, without the time of a Retry-After. It turns at least every half minute, or
   * as often as the rate allows a retry: at least every 100 s.
   */
  silentForMs(): number
}

interface Flight {
  entry: FailedRecord
  done: Promise<void>
}

export function createDispatcher(options: DispatchOptions): Dispatcher {
  const { backlog, breaker, circuits, client, clock, gates, outcomes, planner, policy, rate, receiver, wake } = options
  const flights = new Map<string, Flight>()
  const bySubscription = new Map<string, number>()
  const limit = pLimit(options.concurrency)
  /** Slices that are being listed: their records wait. */
  const listed = new Set<Span>()
  let plan: RetryPlan | undefined
  /** The ping of the platform under way. */
  let pinging: Promise<void> = Promise.resolve()
  /** Monotonic ms without the time of a Retry-After: that wait does not count as silence. */
  const activeMs = (): number => clock.monotonic() - rate.pausedMs()
  let turnedAt = activeMs()
  const broken = new AbortController()
  /** In a round: the moment for which due records were decided. */
  let roundAt: number | undefined
  const now = (): number => roundAt ?? client.now()

  /** The last free slot is for a subscription that has none in flight, so that a slow one can't take them all. */
  const idleOnly = (): boolean => flights.size === options.concurrency - 1
  const mayRetry = (): boolean => flights.size < options.concurrency && gates.admits(flights.size)

  function count(subscriptionId: string, by: number): void {
    const now = (bySubscription.get(subscriptionId) ?? 0) + by
    if (now > 0) bySubscription.set(subscriptionId, now)
    else bySubscription.delete(subscriptionId)
  }

  /** True when the record itself may be retried now. The plan may be older than its present state. */
  function isReady(record: FailedRecord, now: number): boolean {
    return (
      backlog.holds(record) &&
      !flights.has(record.key) &&
      decide(record, policy, { now }).decision === 'due' &&
      !listed.values().some((span) => contains(span, record.localSecond))
    )
  }

  /** The rules at one moment, of both clocks. */
  function rulesAt(now: number, monotonic: number, admits: PickRules['admits']): PickRules {
    return {
      admits,
      isReady: (record) => isReady(record, now),
      isHalfOpen: (subscriptionId) => !circuits.isClosed(subscriptionId, monotonic),
      lastProbeType: (subscriptionId) => circuits.lastEventType(subscriptionId),
      isTrial: breaker.trouble() !== undefined,
    }
  }

  function pick(): Picked | undefined {
    if (!mayRetry()) return undefined
    const [at, monotonic] = [now(), clock.monotonic()]
    const isTaken = (subscriptionId: string): boolean => idleOnly() && (bySubscription.get(subscriptionId) ?? 0) > 0
    const admits = (subscriptionId: string): boolean =>
      !isTaken(subscriptionId) && circuits.blocks(subscriptionId, monotonic) === undefined
    plan = planner.plan(at)
    return pickNext(plan, rulesAt(at, monotonic, admits))
  }

  /** After a platform error the place is kept for a while, so that a failing platform is not called at full rate. */
  function leaves(answer: RetryAnswer, ticket: Ticket): void {
    if (answer.result === 'platform-error') circuits.freeLater(ticket, clock.monotonic())
    else circuits.free(ticket)
  }

  /** Read before sending changes the record. */
  function occasionOf(entry: FailedRecord): Pick<RetryEvent, 'attempt' | 'why'> {
    const isProbe = !circuits.isClosed(entry.subscriptionId, clock.monotonic())
    const why = isProbe ? 'probe' : decide(entry, policy, { now: now() }).because
    return { attempt: nextAttempt(entry), why }
  }

  /** A record whose PATCH was aborted by the end of the process is still failed: nothing is lost. */
  function failed(signal: AbortSignal): (error: unknown) => void {
    return (error) => {
      if (!isAbort(error, signal)) broken.abort(error)
    }
  }

  async function attempt(
    entry: FailedRecord,
    { ticket, ...occasion }: Pick<RetryEvent, 'attempt' | 'why'> & { ticket: Ticket },
    kill: AbortSignal,
  ): Promise<void> {
    const sentAt = clock.monotonic()
    const answer = await client.retry(entry.id, kill)
    const { id: webhookId, eventId, subscriptionId, eventType } = entry
    // Emitted first: the answer may show the outcome, and its event follows immediately.
    options.emit({ type: 'retry', webhookId, eventId, subscriptionId, eventType, ...occasion, answer })
    outcomes.note(entry, answer, { answeredAt: client.now(), monotonic: clock.monotonic() })
    if (!outcomes.pending().has(entry)) leaves(answer, ticket)
    breaker.note(answer, sentAt)
  }

  function send(picked: Picked, kill: AbortSignal): void {
    const { record } = picked
    if (plan !== undefined) take(plan, picked)
    count(record.subscriptionId, 1)
    const occasion = occasionOf(record)
    const ticket = circuits.take(record, clock.monotonic())
    outcomes.begin(record, ticket, { sentAt: client.now(), monotonic: clock.monotonic() })
    const done = limit(attempt, record, { ticket, ...occasion }, kill)
      .catch(failed(kill))
      .then(() => {
        flights.delete(record.key)
        count(record.subscriptionId, -1)
        planner.released(record)
        wake()
      })
    flights.set(record.key, { entry: record, done })
  }

  return {
    begin(round) {
      roundAt = round?.onlyDueAt
    },
    turn(signal) {
      turnedAt = activeMs()
      circuits.turn(clock.monotonic())
      if (breaker.isPingDue()) pinging = breaker.ping(signal).catch(failed(signal))
    },
    pick,
    send,
    isRoundOver() {
      if (roundAt === undefined || flights.size > 0) return false
      if (gates.shut()[0]?.gate === 'disabled' || breaker.trouble() !== undefined) return true
      if (outcomes.pending().size > 0) return false
      const monotonic = clock.monotonic()
      const admits = (subscriptionId: string): boolean => !circuits.isOpen(subscriptionId, monotonic)
      return (
        receiver.up() === false || pickNext(planner.plan(roundAt), rulesAt(roundAt, monotonic, admits)) === undefined
      )
    },
    msUntilChange() {
      const monotonic = clock.monotonic()
      // In a round no further record becomes due.
      const untilPlan = roundAt === undefined && mayRetry() ? planner.msUntilReplan() : Infinity
      const untilCircuit = (circuits.nextChangeAt() ?? Infinity) - monotonic
      const untilPing = (breaker.pingAt() ?? Infinity) - monotonic
      const wait = Math.min(untilPlan, untilCircuit, untilPing, rate.pausedForMs() || Infinity)
      return wait === Infinity ? undefined : Math.max(1, wait)
    },
    broken: broken.signal,
    async drain() {
      await Promise.all([pinging, ...[...flights.values()].map(({ done }) => done)])
    },
    async fence(span, signal) {
      const own = { ...span }
      listed.add(own)
      const release = (): void => {
        listed.delete(own)
        // What was listed there may be new or changed.
        planner.changed()
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
    inFlight: () => flights.size,
    silentForMs: () => activeMs() - turnedAt,
  }
}
