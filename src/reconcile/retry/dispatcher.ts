// Sends what is due, one record at a time per id, as fast as slots, rate and trouble allow. @see design section 10
import pLimit from 'p-limit'
import { createNotifier } from '../../runtime/notifier.ts'
import type { Clock } from '../../runtime/clock.ts'
import { isAbort } from '../../runtime/errors.ts'
import type { PlatformClient } from '../../platform/client.ts'
import type { RetryAnswer } from '../../platform/operations.ts'
import type { RateLimiter } from '../../platform/rate-limiter.ts'
import type { Circuits, Ticket } from './circuits.ts'
import type { Backlog } from './backlog.ts'
import { decide } from '../decide.ts'
import type { Outcomes } from '../confirm/outcomes.ts'
import { nextAttempt, type FailedRecord } from '../failed-record.ts'
import type { PlatformBreaker } from './platform-breaker.ts'
import type { Policy } from '../policy.ts'
import type { Because } from '../reasons.ts'
import type { ReceiverHealth } from './receiver-health.ts'
import type { Gates } from './gates.ts'
import { firstOfEach } from './entity-order.ts'
import { pickNext, planRetries, take, type Pick as Picked, type PickRules, type RetryPlan } from './retry-plan.ts'
import { contains, type Span } from '../window.ts'

export interface RetryEvent {
  type: 'retry'
  id: string
  eventId: string
  subscriptionId: string
  eventType: string
  /** Which attempt of the record this was, by what was known when it went out: the first is 1. */
  attempt: number
  /** The rule that let it go out: `due` or `expiring`; `probe` while its circuit is half-open. */
  because: Because
  answer: RetryAnswer
}

export interface DispatchOptions {
  client: PlatformClient
  backlog: Backlog
  outcomes: Outcomes
  policy: Policy
  rate: RateLimiter
  breaker: PlatformBreaker
  circuits: Circuits
  gates: Gates
  receiver: Pick<ReceiverHealth, 'up'>
  clock: Clock
  /** Retries in flight at most. */
  concurrency: number
  emit: (event: RetryEvent) => void
}

export interface Dispatcher {
  /** Takes in that records of the backlog are new or have changed: the plan is made again. */
  changed(): void
  /** Looks again whether something can go out. */
  wake(): void
  /** Keeps retries out of a span; resolves, when none is in flight there, to the release. */
  fence(span: Span, signal: AbortSignal): Promise<() => void>
  /**
   * Retries until `stop` is aborted, then waits for those in flight; `kill` ends these too.
   * With `onlyDueAt` (epoch ms of the platform's clock) it retries what was due then, and ends when each of these has an
   * outcome or an open circuit, or trouble stops it. Rejects only for a bug, at once: those in flight are left to `kill`.
   */
  run(signals: { stop: AbortSignal; kill: AbortSignal }, round?: { onlyDueAt: number }): Promise<void>
  inFlight(): number
  /** Takes in that the whole window has been listed, without a gap: where events go in their order, nothing goes out before. */
  sawAll(): void
  /** Takes in that an outcome has become known: the record is due again later, or those behind it may go. */
  settled(entry: FailedRecord): void
  /**
   * How long the loop has not turned, in ms, without the time that a Retry-After asked for. It turns at least every half
   * minute, or as often as the rate lets a retry go: every 100 s at the least.
   */
  silentForMs(): number
}

/** The plan is made at most so often, in ms for each record of the backlog: making it takes a twentieth of that. */
const planMsPerRecord = 0.004
/** With an order per entity, which takes longer. */
const orderedPlanMsPerRecord = 0.02

interface Flight {
  entry: FailedRecord
  done: Promise<void>
}

export function createDispatcher(options: DispatchOptions): Dispatcher {
  const { circuits, backlog, gates, client, clock, breaker, outcomes, policy, rate, receiver } = options
  const flights = new Map<string, Flight>()
  const bySubscription = new Map<string, number>()
  const notifier = createNotifier(clock)
  const limit = pLimit(options.concurrency)
  /** Slices that are being listed: their records wait. */
  const listed = new Set<Span>()
  let plan: RetryPlan = { lanes: new Map(), nextDueAt: Infinity }
  /** Monotonic ms. */
  let plannedAt = -Infinity
  const msPerRecord = policy.orderPerEntity ? orderedPlanMsPerRecord : planMsPerRecord
  let isStale = true
  /** A listing came after the plan: with an order per entity it may let a record overtake an older one. */
  let isOrderStale = true
  let wasFirstProbe = false
  let hasSeenAll = false
  /** Monotonic ms without the time that a Retry-After asked for: waiting for that is no silence. */
  const activeMs = (): number => clock.monotonic() - rate.pausedMs()
  let beatAt = activeMs()
  /** Aborted with the first bug that a retry met. */
  const broken = new AbortController()
  /** In a single round, the moment at which what is due was decided. */
  let roundAt: number | undefined
  const now = (): number => roundAt ?? client.now()

  /** The last free slot is for a subscription that has none in flight, so that a slow one can't take them all. */
  const idleOnly = (): boolean => flights.size === options.concurrency - 1
  const hasSlot = (): boolean => flights.size < options.concurrency
  const mayRetry = (): boolean => hasSlot() && gates.admits(flights.size)

  function count(subscriptionId: string, by: number): void {
    const now = (bySubscription.get(subscriptionId) ?? 0) + by
    if (now > 0) bySubscription.set(subscriptionId, now)
    else bySubscription.delete(subscriptionId)
  }

  /** With `retry.orderPerEntity`: nothing older of its entity is open here, was left out, or was never looked for. */
  function candidates(): ((record: FailedRecord) => boolean) | undefined {
    if (!policy.orderPerEntity) return undefined
    if (!hasSeenAll) return () => false
    const isFirst = firstOfEach(backlog.entries(), policy)
    return (record) =>
      record.localSecond <= (backlog.leftOut.oldestOf(record.subscriptionId) ?? Infinity) && isFirst(record)
  }

  /** Planning takes time for each record, so it is done only so often: a twentieth of a core at the most. */
  const replanAt = (): number => (isOrderStale ? -Infinity : plannedAt + msPerRecord * backlog.size())

  /** Makes the plan again when something changed, or a backoff has ended. In a single round nothing becomes due. */
  function refreshPlan(): void {
    const isDue = plan.nextDueAt <= now()
    if (!(isStale || isDue) || clock.monotonic() < replanAt()) return
    plan = planRetries(backlog.entries(), { policy, now: now(), previous: plan, isCandidate: candidates() })
    plannedAt = clock.monotonic()
    isStale = false
    isOrderStale = false
  }

  /** Whether it may be sent now, as far as the record itself is concerned. The plan may be older than what it is now. */
  function isReady(record: FailedRecord): boolean {
    return (
      backlog.get(record.id) === record &&
      !flights.has(record.id) &&
      decide(record, policy, { now: now() }).decision === 'due' &&
      !listed.values().some((span) => contains(span, record.localSecond))
    )
  }

  function rulesFor(admits: (subscriptionId: string) => boolean): PickRules {
    return {
      admits,
      isReady,
      isHalfOpen: (subscriptionId) => circuits.isRecovering(subscriptionId, clock.monotonic()),
      firstProbes: circuits.firstProbes(),
      wasFirstProbe,
      lastProbeType: (subscriptionId) => circuits.lastEventType(subscriptionId),
      isTrial: breaker.trouble() !== undefined,
    }
  }

  function pick(): Picked | undefined {
    refreshPlan()
    const isTaken = (subscriptionId: string): boolean => idleOnly() && (bySubscription.get(subscriptionId) ?? 0) > 0
    return pickNext(
      plan,
      rulesFor(
        (subscriptionId) =>
          !isTaken(subscriptionId) && circuits.blocks(subscriptionId, clock.monotonic()) === undefined,
      ),
    )
  }

  /** A record that is due again later: the plan is made again then. With an order, those behind it may go now. */
  function replanFor(record: FailedRecord): void {
    isStale ||= policy.orderPerEntity
    if (backlog.get(record.id) !== record) return
    const { decision, dueAt } = decide(record, policy, { now: client.now() })
    if (decision === 'due') isStale = true
    if (decision === 'backing-off') plan.nextDueAt = Math.min(plan.nextDueAt, dueAt)
  }

  /** A PATCH that fails on the platform's side hits it again and again, were its place free at once. */
  function leaves(answer: RetryAnswer, ticket: Ticket): void {
    if (answer.result === 'platform-error') circuits.freeLater(ticket, clock.monotonic())
    else circuits.settle(ticket, 'neutral', clock.monotonic())
  }

  /** As it stands before the retry goes out. */
  function occasionOf(entry: FailedRecord): Pick<RetryEvent, 'attempt' | 'because'> {
    const isProbe = circuits.isRecovering(entry.subscriptionId, clock.monotonic())
    const because = isProbe ? 'probe' : decide(entry, policy, { now: now() }).because
    return { attempt: nextAttempt(entry), because }
  }

  async function attempt(
    entry: FailedRecord,
    { ticket, ...occasion }: Pick<RetryEvent, 'attempt' | 'because'> & { ticket: Ticket },
    kill: AbortSignal,
  ): Promise<void> {
    const sentAt = clock.monotonic()
    const answer = await client.retry(entry.id, kill)
    const { id, eventId, subscriptionId, eventType } = entry
    // First of all: the answer may show the outcome, which is told as soon as it is noted.
    options.emit({ type: 'retry', id, eventId, subscriptionId, eventType, ...occasion, answer })
    outcomes.note(entry, answer, { answeredAt: client.now(), monotonic: clock.monotonic() })
    if (!outcomes.pending().has(entry)) leaves(answer, ticket)
    breaker.note(answer, sentAt)
  }

  function send(entry: FailedRecord, kill: AbortSignal): void {
    count(entry.subscriptionId, 1)
    const occasion = occasionOf(entry)
    const ticket = circuits.take(entry, clock.monotonic())
    outcomes.begin(entry, ticket, { sentAt: client.now(), monotonic: clock.monotonic() })
    const done = limit(attempt, entry, { ticket, ...occasion }, kill)
      .catch((error: unknown) => {
        // A record whose PATCH was cut off by the end of the process is still failed: nothing is lost.
        if (!isAbort(error, kill)) broken.abort(error)
      })
      .then(() => {
        flights.delete(entry.id)
        count(entry.subscriptionId, -1)
        replanFor(entry)
        notifier.notify()
      })
    flights.set(entry.id, { entry, done })
  }

  /** Picks after the rate has let it: what was due before the wait may not be any more. */
  async function sendNext(halt: AbortSignal, kill: AbortSignal): Promise<void> {
    await rate.acquire('retry', halt)
    const picked = mayRetry() && !halt.aborted ? pick() : undefined
    if (picked === undefined) {
      rate.release('retry')
      return
    }
    wasFirstProbe = circuits.firstProbes().has(picked.record.subscriptionId)
    take(plan, picked)
    send(picked.record, kill)
  }

  /** Milliseconds until something may become due, or allowed; in a single round nothing becomes due. */
  function untilChange(): number | undefined {
    const isPlanned = roundAt === undefined && mayRetry()
    const untilDue = isPlanned ? plan.nextDueAt - client.now() : Infinity
    const untilReplan = isStale && isPlanned ? 0 : untilDue
    const monotonic = clock.monotonic()
    const untilPlan = Math.max(untilReplan, replanAt() - monotonic)
    const untilCircuit = (circuits.nextChangeAt(monotonic) ?? Infinity) - monotonic
    const wait = Math.min(untilPlan, untilCircuit, rate.pausedForMs() || Infinity)
    return wait === Infinity ? undefined : Math.max(1, wait)
  }

  /** True when a single round has nothing left that it could do, or wait for. */
  function isRoundOver(): boolean {
    if (roundAt === undefined || flights.size > 0) return false
    if (gates.global() === 'disabled' || breaker.trouble() !== undefined) return true
    if (outcomes.pending().size > 0) return false
    refreshPlan()
    return (
      receiver.up() === false ||
      pickNext(
        plan,
        rulesFor((subscriptionId) => !circuits.isOpen(subscriptionId, clock.monotonic())),
      ) === undefined
    )
  }

  async function loop(halt: AbortSignal, kill: AbortSignal): Promise<void> {
    for (;;) {
      halt.throwIfAborted()
      beatAt = activeMs()
      circuits.turn(clock.monotonic())
      if (mayRetry() && pick() !== undefined) {
        await sendNext(halt, kill)
        continue
      }
      if (isRoundOver()) return
      await notifier.wait(untilChange(), halt)
    }
  }

  return {
    changed() {
      isStale = true
      isOrderStale ||= policy.orderPerEntity
      notifier.notify()
    },
    wake: () => {
      notifier.notify()
    },
    async fence(span, signal) {
      const own = { ...span }
      listed.add(own)
      const release = (): void => {
        listed.delete(own)
        isStale = true
        notifier.notify()
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
    sawAll() {
      hasSeenAll = true
      isStale ||= policy.orderPerEntity
      notifier.notify()
    },
    settled(entry) {
      replanFor(entry)
      notifier.notify()
    },
    silentForMs: () => activeMs() - beatAt,
  }
}
