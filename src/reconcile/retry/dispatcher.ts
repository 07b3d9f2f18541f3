// Sends the PATCH of the record that the retry plan picks: one at a time per id, within slots and circuits. @see docs/architecture.md "Retry plan"
import pLimit from 'p-limit'
import type { Clock } from '../../runtime/clock.ts'
import { isAbort } from '../../runtime/errors.ts'
import type { PlatformClient } from '../../platform/client.ts'
import type { TokenCache } from '../../platform/auth/token.ts'
import { TokenError } from '../../platform/auth/token-response.ts'
import { meaningOf, type RetryResponse } from '../../platform/operations.ts'
import { longPauseMs, type RateLimiter } from '../../platform/rate-limiter.ts'
import type { Backlog } from './backlog.ts'
import type { Pause } from './operator-pause.ts'
import { decide, sendableAt, type Situation } from '../decide.ts'
import type { Outcomes } from '../confirm/outcomes.ts'
import { nextAttempt, type FailedRecord } from '../failed-record.ts'
import type { PlatformBreaker } from './platform-breaker.ts'
import type { Policy } from '../policy.ts'
import type { Because } from '../reasons.ts'
import { stateOf } from './circuit-breaker.ts'
import type { Gates } from './gates.ts'
import type { Picked, Planner } from './retry-plan.ts'
import type { SubscriptionLimits } from './subscription-limits.ts'
import type { Subscription, Subscriptions } from './subscriptions.ts'
import { contains, type Span } from '../window.ts'

export interface RetryEvent {
  type: 'retry'
  webhookId: string
  eventId: string
  subscriptionId: string
  eventType: string
  /** Number of the attempt, as known when it was sent; the first is 1. */
  attempt: number
  /** The rule that allowed it: `due`, `expiring` or `asked-for`; `probe` while its circuit is half-open. */
  why: Because
  response: RetryResponse
}

export interface DispatchOptions {
  client: PlatformClient
  backlog: Backlog
  planner: Planner
  outcomes: Outcomes
  policy: Policy
  rate: RateLimiter
  breaker: PlatformBreaker
  subscriptions: Subscriptions
  limits: SubscriptionLimits
  gates: Gates
  pause: Pick<Pause, 'turn' | 'endsAt'>
  tokens: Pick<TokenCache, 'get' | 'isHeld'>
  clock: Clock
  concurrency: number
  emit: (event: RetryEvent) => void
  wake: () => void
}

/** A record whose slice is being listed is picked again after this time. */
const listedMs = 1000

/** Blocks retries in a span. */
export interface Fence {
  /** True if a retry was sent there, in a long pause of lists: what was listed may miss some records. */
  isBroken: boolean
  release(): void
}

/** A retry under way; `sent` is its number. */
interface Flight extends Pick<RetryEvent, 'attempt' | 'why'> {
  record: FailedRecord
  subscription: Subscription
  sent: number
  /** True if it was sent while the platform breaker is half-open. */
  isTrial: boolean
}

/** The steps of the retry loop, which waits between them. @see src/reconciler.ts */
export interface Dispatcher {
  /** One turn of the loop: ends cooldowns, frees places and pings the platform, each when due. */
  turn(signal: AbortSignal): void
  /** The record to retry now; undefined if there is none, a gate is shut, no slot is free, or no token is held, which is then requested. */
  pick(signal: AbortSignal): Picked | undefined
  /** Sends its retry. `kill` aborts the call. */
  send(picked: Picked, kill: AbortSignal): void
  /** Milliseconds until a record may become due or allowed; Infinity if only an event can change that. */
  msUntilChange(): number
  /** Aborted with the first bug in a retry. */
  readonly broken: AbortSignal
  /** Resolves when the current calls have ended. */
  drain(): Promise<void>
  /** Blocks retries in a span; resolves once none is in flight there. */
  fence(span: Span, signal: AbortSignal): Promise<Fence>
  inFlight(): number
  /**
   * Time since the last turn of the loop, in ms, not counting a Retry-After. It turns at least every half minute, or as often
   * as the rate allows a retry: at least every 100 s.
   */
  silentForMs(): number
}

export function createDispatcher(options: DispatchOptions): Dispatcher {
  const { backlog, breaker, client, clock, gates, limits, outcomes, pause, planner, policy } = options
  const { rate, subscriptions, tokens, wake } = options
  const limit = pLimit(options.concurrency)
  const inFlight = (): number => limit.activeCount
  const flights = new Map<FailedRecord, Promise<void>>()
  /** Slices being listed: their records wait. */
  const fences = new Map<Fence, Span>()
  /** The current ping of the platform. */
  let pinging: Promise<void> = Promise.resolve()
  /** The token request that a due record waits for; undefined without one. */
  let requesting: Promise<void> | undefined
  /** Monotonic ms, not counting a Retry-After: that wait is no silence. */
  const activeMs = (): number => clock.monotonic() - rate.pausedMs('retry')
  let turnedAt = activeMs()
  /** True from the start of a long pause of lists to its end. */
  let areListsHeld = false
  const untilPingMs = (): number =>
    Math.max((breaker.pingAt() ?? Infinity) - clock.monotonic(), rate.pausedForMs('retry'))
  const broken = new AbortController()

  /** The last free slot is for a subscription without retries in flight, so that a slow one cannot take all. */
  const idleOnly = (): boolean => inFlight() === options.concurrency - 1
  const mayRetry = (): boolean =>
    requesting === undefined && inFlight() < options.concurrency && gates.admits(inFlight())

  function situationOf({ subscriptionId }: FailedRecord, now: number): Situation {
    return { now, backoffsEndedMs: subscriptions.backoffsEndedMs(subscriptionId, clock.monotonic()) }
  }

  /** The plan may be older than the record's state. */
  function readyAt(record: FailedRecord, now: number): number {
    if (!backlog.holds(record) || flights.has(record)) return Infinity
    const dueAt = sendableAt(record, policy, situationOf(record, now))
    const isFenced = fences.values().some((span) => contains(span, record.localSecond))
    return isFenced && !areListsHeld ? Math.max(dueAt, now + listedMs) : dueAt
  }

  const isHalfOpen = ({ circuit }: Subscription): boolean => stateOf(circuit, clock.monotonic()) !== 'closed'

  async function requestToken(signal: AbortSignal): Promise<void> {
    try {
      await tokens.get(signal)
      wake()
    } catch (error) {
      if (!(error instanceof TokenError)) throw error
      breaker.lacksToken(error)
    } finally {
      requesting = undefined
    }
  }

  /** No record is picked without a token: all that wait for one would be sent at once when it comes, even if a gate is shut by then. */
  function pick(signal: AbortSignal): Picked | undefined {
    if (!mayRetry()) return undefined
    const now = client.now()
    const picked = planner.pick({
      admits: ({ id, inFlight }) => !(idleOnly() && inFlight > 0) && gates.ofSubscription(id) === undefined,
      sendableAt: (record) => readyAt(record, now),
      isHalfOpen,
      isTrial: breaker.trouble() !== undefined,
    })
    if (picked === undefined || tokens.isHeld()) return picked
    requesting = requestToken(signal).catch(failed(signal))
    return undefined
  }

  /** A record whose PATCH was aborted by the end of the process is still failed: nothing is lost. */
  function failed(signal: AbortSignal): (error: unknown) => void {
    return (error) => {
      if (!isAbort(error, signal)) broken.abort(error)
    }
  }

  async function patch(flight: Flight, kill: AbortSignal): Promise<void> {
    const { attempt, isTrial, record, sent, subscription, why } = flight
    const sentAt = clock.monotonic()
    const { id: webhookId, eventId, subscriptionId, eventType } = record
    const response = await client.retry(webhookId, kill, (report) => limits.learn(subscription, report))
    const report = (): void => {
      options.emit({ type: 'retry', webhookId, eventId, subscriptionId, eventType, attempt, why, response })
    }
    outcomes.note(record, response, { respondedAt: client.now(), monotonic: clock.monotonic(), isTrial, report })
    breaker.note(response, sentAt)
    const keepsPlace = outcomes.pending().has(record) || meaningOf(response.result).keepsPlace === true
    if (!keepsPlace) subscriptions.free(subscriptionId, sent)
  }

  /** Within the slots. */
  async function fly(flight: Flight, kill: AbortSignal): Promise<void> {
    await limit(patch, flight, kill).catch(failed(kill))
    flights.delete(flight.record)
    flight.subscription.inFlight -= 1
    planner.changed([flight.record])
  }

  function send(picked: Picked, kill: AbortSignal): void {
    const { record } = picked
    const subscription = subscriptions.of(record.subscriptionId)
    const why = isHalfOpen(subscription) ? 'probe' : decide(record, policy, situationOf(record, client.now())).because
    const attempt = nextAttempt(record)
    const isTrial = breaker.trouble() !== undefined
    planner.take(picked)
    for (const [fence, span] of fences) if (contains(span, record.localSecond)) fence.isBroken = true
    const sent = subscriptions.send(record, clock.monotonic())
    outcomes.begin(record, sent, { sentAt: client.now(), monotonic: clock.monotonic() })
    subscription.inFlight += 1
    limits.sent(subscription)
    flights.set(record, fly({ record, subscription, sent, attempt, why, isTrial }, kill))
  }

  return {
    turn(signal) {
      turnedAt = activeMs()
      pause.turn()
      subscriptions.turn(clock.monotonic())
      const listsWaitMs = rate.pausedForMs('list')
      areListsHeld = listsWaitMs > longPauseMs || (areListsHeld && listsWaitMs > 0)
      if (areListsHeld && rate.pausedForMs('retry') === 0) breaker.skipPing()
      if (untilPingMs() <= 0) pinging = breaker.ping(signal).catch(failed(signal))
    },
    pick,
    send,
    msUntilChange() {
      const monotonic = clock.monotonic()
      const untilPlan = mayRetry() ? planner.msUntilDue() : Infinity
      const untilSubscription = Math.min(subscriptions.nextChangeAt(), limits.nextChangeAt()) - monotonic
      const untilPause = pause.endsAt() - clock.now()
      const untilPlatform = Math.min(untilPingMs(), rate.pausedForMs('retry') || Infinity)
      return Math.max(1, Math.min(untilPlan, untilSubscription, untilPlatform, untilPause))
    },
    broken: broken.signal,
    async drain() {
      await Promise.all([pinging, requesting, ...flights.values()])
    },
    async fence(span, signal) {
      const fence: Fence = { isBroken: false, release: () => void fences.delete(fence) }
      fences.set(fence, span)
      try {
        const inside = [...flights].filter(([{ localSecond }]) => contains(span, localSecond))
        await Promise.all(inside.map(([, done]) => done))
        signal.throwIfAborted()
      } catch (error) {
        fence.release()
        throw error
      }
      return fence
    },
    inFlight,
    silentForMs: () => activeMs() - turnedAt,
  }
}
