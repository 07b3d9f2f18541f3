// The reconciler: three loops (sweep, retry, confirm) around the backlog, and the wiring of their parts.
import type { Config } from './config/schema.ts'
import type { Emit } from './observe/events.ts'
import type { ReconcilerState } from './observe/snapshot.ts'
import type { PlatformClient } from './platform/client.ts'
import type { TokenCache } from './platform/auth/token.ts'
import type { Connection } from './platform/connection.ts'
import type { Transport } from './platform/http/http.ts'
import { maxRetryAfterMs } from './platform/http/response.ts'
import { createRateLimiter, type RateLimiter } from './platform/rate-limiter.ts'
import type { ServerClock } from './platform/server-clock.ts'
import { createBooks, type Books } from './reconcile/books/books.ts'
import { createConfirmer, type Confirmer } from './reconcile/confirm/confirmer.ts'
import { createOutcomes, type Outcomes } from './reconcile/confirm/outcomes.ts'
import { sendableAt, type SituationOf } from './reconcile/decide.ts'
import type { FailedRecord } from './reconcile/failed-record.ts'
import { sweepNumbers, type Policy } from './reconcile/policy.ts'
import { sumOf } from './reconcile/reasons.ts'
import { createBacklog, type Backlog } from './reconcile/retry/backlog.ts'
import { circuitNumbers } from './reconcile/retry/circuit-breaker.ts'
import { createDispatcher, type Dispatcher } from './reconcile/retry/dispatcher.ts'
import {
  blockingAll,
  createGates,
  pauseEndsInMs,
  stopsForMs,
  type Gates,
  type Leadership,
} from './reconcile/retry/gates.ts'
import { createPause, type Pause } from './reconcile/retry/operator-pause.ts'
import { createPlanner, type Planner } from './reconcile/retry/retry-plan.ts'
import { createPlatformBreaker, type PlatformBreaker } from './reconcile/retry/platform-breaker.ts'
import { createReceiverResponses } from './reconcile/retry/receiver-responses.ts'
import { createReceiverHealth, type ReceiverHealth } from './reconcile/retry/receiver-health.ts'
import { createSubscriptionLimits } from './reconcile/retry/subscription-limits.ts'
import { createSubscriptions, type AllProbes, type Subscriptions } from './reconcile/retry/subscriptions.ts'
import type { LookAt } from './reconcile/retry/summary.ts'
import { createSweeper, type Sweeper } from './reconcile/sweep/sweeper.ts'
import { sumOfUnlisted } from './reconcile/sweep/unlistable.ts'
import type { Clock, Random } from './runtime/clock.ts'
import { isAbort } from './runtime/errors.ts'
import { createNotifier, type Notifier } from './runtime/notifier.ts'
import type { Steps } from './runtime/steps.ts'

export interface ReconcilerDeps {
  policy: Policy
  connection: Pick<Connection, 'client' | 'zone'> & {
    serverClocks: { api: Pick<ServerClock, 'isKnown' | 'now'> }
    tokens: Pick<TokenCache, 'get' | 'isHeld' | 'probe' | 'trouble'>
  }
  /** For the receiver's health URL. */
  transport: Transport
  /** Default: a single instance, which works. */
  leadership?: Leadership
  /** The next tick of the schedule, monotonic ms. Default: none is known. */
  nextTickAt?: () => number | undefined
  clock: Clock
  random: Random
  emit: Emit
}

/** `stop` ends the retry loop in order; `kill` aborts the retries in flight. */
export interface RetrySignals {
  stop: AbortSignal
  kill: AbortSignal
}

/** The parts. Each loop waits on its own notifier. */
interface Parts {
  notifiers: Readonly<Record<'sweep' | 'retry' | 'confirm', Notifier>>
  rate: RateLimiter
  dispatcher: Dispatcher
  confirmer: Confirmer
  sweeper: Sweeper
  client: PlatformClient
  backlog: Backlog
  subscriptions: Subscriptions
  planner: Planner
  outcomes: Outcomes
  pause: Pause
  receiver: ReceiverHealth
  books: Books
  breaker: PlatformBreaker
  gates: Gates
}

export interface Reconciler extends Parts {
  /** Each loop rejects with the signal's reason, or with a bug. */
  sweep(signal: AbortSignal): Promise<never>
  confirm(signal: AbortSignal): Promise<never>
  /**
   * Retries until `stop`, then waits for the retries in flight. Rejects only with a bug, at once: `kill` ends those in flight.
   */
  retry(signals: RetrySignals): Promise<void>
  /** Ends the cooldowns of all open circuits, has each send a probe, and ends the backoff after failed calls. */
  probe(): AllProbes
  /** The situation of each subscription's records at this moment; it is computed at each call. */
  situations(): SituationOf
  /** `situationOf`: the situations of this moment, if already computed; `look` gets each record. */
  state(situationOf?: SituationOf, look?: LookAt): Steps<ReconcilerState>
}

/** Tick -> slice -> merge: performs the sweeps that are due. Rejects with the signal's reason, or a bug. */
async function sweepLoop({ notifiers, sweeper }: Parts, signal: AbortSignal): Promise<never> {
  for (;;) {
    const kind = sweeper.next()
    // Slice by slice: each is listed completely, then merged into the backlog.
    if (kind !== undefined) await sweeper.make(kind, signal)
    else await notifiers.sweep.wait(sweeper.msUntilNext(), signal)
  }
}

/** Pick -> gate -> send: one record at a time, as the rate allows. Rejects with the reason of `stop`. */
async function retryLoop({ dispatcher, notifiers, rate }: Parts, { stop, kill }: RetrySignals): Promise<never> {
  for (;;) {
    stop.throwIfAborted()
    dispatcher.turn(stop)
    let picked = dispatcher.pick(stop)
    if (picked === undefined) {
      await notifiers.retry.wait(dispatcher.msUntilChange(), stop)
      continue
    }
    if (!rate.tryAcquire('retry')) {
      await rate.acquire('retry', stop)
      // Picks again after the wait: the record may no longer be due, and a gate may be shut.
      picked = stop.aborted ? undefined : dispatcher.pick(stop)
    }
    if (picked === undefined) rate.release('retry')
    else dispatcher.send(picked, kill)
  }
}

/** Due -> check -> settle: a check that shows a final state settles the outcome. Rejects with the signal's reason, or a bug. */
async function confirmLoop({ confirmer, notifiers }: Parts, signal: AbortSignal): Promise<never> {
  for (;;) {
    signal.throwIfAborted()
    const waitMs = confirmer.msUntilRound()
    if (waitMs <= 0) await confirmer.check(signal)
    else await notifiers.confirm.wait(waitMs, signal)
  }
}

/** Retries until `stop`, then waits for the calls under way. */
async function retry(parts: Parts, { stop, kill }: RetrySignals): Promise<void> {
  const { broken } = parts.dispatcher
  try {
    await retryLoop(parts, { stop: AbortSignal.any([stop, broken]), kill })
  } catch (error) {
    if (broken.aborted || !isAbort(error, stop)) throw error
  }
  await parts.dispatcher.drain()
  broken.throwIfAborted()
}

/** While a check is overdue by more than this time, or this many calls of the rate, checks get as much as retries. */
const [toleratedLateMs, toleratedLateCalls] = [10_000, 20]
/** Without a lease, an instance always leads. */
const alone: Leadership = { isLeading: () => true, since: () => 0 }

/** The rules that decide about records. `periodMs`: time between two ticks of the schedule. */
export function toPolicy({ circuit, outcome, retry, select, window }: Config, periodMs: number): Policy {
  return {
    window,
    select,
    backoff: retry.backoff,
    maxAttempts: retry.maxAttempts,
    outcome,
    circuit: { ...circuit, ...circuitNumbers },
    sweep: sweepNumbers,
    periodMs,
  }
}

/** Connections per origin: enough for retries, a sweep, checks and a probe at the same time. */
export function connectionsOf(config: Config): number {
  return config.retry.concurrency + 2 * sweepNumbers.concurrency + 1
}

/** Wires the parts; some reach later ones through callbacks. Nothing runs until a loop is called. */
export function createReconciler(
  config: Pick<Config, 'backlog' | 'ledger' | 'platform' | 'receiver' | 'retry'>,
  { clock, connection, emit, leadership = alone, nextTickAt, policy, random, transport }: ReconcilerDeps,
): Reconciler {
  const { tokens, zone } = connection
  const { api: serverClock } = connection.serverClocks
  const { maxRecords } = config.backlog
  const notifiers = { sweep: createNotifier(clock), retry: createNotifier(clock), confirm: createNotifier(clock) }
  const wake = { sweep: notifiers.sweep.notify, retry: notifiers.retry.notify, confirm: notifiers.confirm.notify }

  const subscriptions = createSubscriptions(
    policy.circuit,
    (event) => {
      if (event.to === 'closed') planner.closed(event.subscriptionId)
      emit(event)
    },
    (id, now) => responses.takesAgain(id, now),
  )
  const responses = createReceiverResponses((id) => outcomes.isDoubted(id))
  const backlog = createBacklog({ policy, zone, maxRecords, subscriptions, clock })
  const planner = createPlanner({ backlog, policy, subscriptions, now: serverClock.now, clock, wake: wake.retry })
  const outcomes = createOutcomes({
    ...{ backlog, subscriptions, planner, zone, clock },
    policy: policy.outcome,
    knowsTime: serverClock.isKnown,
    emit(event, at, before) {
      responses.note(event, at, before)
      emit(event)
      if (event.type === 'outcome' && event.outcome === 'recovered') books.recovered(client.now() - event.sinceEventMs)
    },
    arrived(sentAt) {
      breaker.arrived(sentAt)
    },
    wake: wake.confirm,
  })
  const maxima = {
    maxPerSecond: config.platform.maxRequestsPerSecond,
    maxRetryAfterMs: maxRetryAfterMs(policy.window.lookback),
  }
  const rate = createRateLimiter({
    ...maxima,
    clock,
    maxRetriesPerSecond: config.retry.maxPerSecond,
    areChecksLate: (callMs) => outcomes.overdueMs() > Math.max(toleratedLateMs, toleratedLateCalls * callMs),
  })
  const limits = createSubscriptionLimits(subscriptions, { clock, ...maxima })
  const client = connection.client(rate)

  const pause = createPause({ now: clock.now, wake: wake.retry, emit })
  const { healthUrl } = config.receiver
  const receiver = createReceiverHealth({ healthUrl, transport, clock, wake: wake.retry, emit })
  /** Without a valid token, no call is sent before one is requested again. */
  function msUntilToken(): number {
    const { isHeld, trouble } = tokens
    const nextTryAt = trouble()?.nextTryAt ?? -Infinity
    return isHeld() ? 0 : Math.max(0, nextTryAt - clock.now())
  }
  const msUntilSweep = (): number => sweeper.msUntilNext((nextTickAt?.() ?? Infinity) - clock.monotonic())
  const breaker = createPlatformBreaker({
    ...{ client, clock, random },
    wake() {
      wake.retry()
      wake.confirm()
    },
    emit(event) {
      if (event.trouble !== undefined) subscriptions.ignorePending(clock.monotonic())
      emit(event)
    },
  })
  /** Each part takes of these what its options name. */
  const common = {
    ...{ clock, random, emit, policy, zone, client, rate, breaker, tokens },
    ...{ subscriptions, backlog, planner, outcomes, pause, receiver },
  }
  const gates = createGates({
    ...common,
    retriesEnabled: config.retry.enabled,
    leadership,
    nextListInMs: () => (sweeper.isUnderWay() ? 0 : Math.min(msUntilSweep(), confirmer.msUntilRound())),
    tokenInMs: msUntilToken,
  })
  const { concurrency } = config.retry
  const dispatcher = createDispatcher({ ...common, limits, gates, concurrency, wake: wake.retry })
  const confirmer = createConfirmer({ ...common, concurrency: policy.sweep.concurrency })
  const sweeper = createSweeper({ ...common, dispatcher, situations, maxRecords, wake: wake.sweep })
  const isReady = (): boolean => sweeper.findings().seenUntil !== undefined
  const books = createBooks({ ...common, ledger: config.ledger, transport, isReady })

  /** Requests the record whose backoff ends first, unless one is due. Returns false if none can be sent. */
  function makeDue(subscriptionId: string): boolean {
    const [now, monotonic] = [client.now(), clock.monotonic()]
    const waitsForMs = subscriptions.throttleOf(subscriptionId, monotonic)?.waitsForMs ?? 0
    if (pause.of(subscriptionId) !== undefined || waitsForMs > 0) return false
    const situation = { now, backoffsEndedMs: subscriptions.backoffsEndedMs(subscriptionId, monotonic) }
    let first: { record: FailedRecord; dueAt: number } | undefined
    for (const record of backlog.bySubscription().get(subscriptionId) ?? []) {
      const dueAt = sendableAt(record, policy, situation)
      if (dueAt <= now) return true
      if (dueAt < (first?.dueAt ?? Infinity)) first = { record, dueAt }
    }
    if (first === undefined) return false
    first.record.note({ askedBy: [new AbortController().signal] })
    planner.changed([first.record])
    return true
  }

  function probe(): AllProbes {
    const probes = subscriptions.probe(clock.monotonic(), makeDue)
    const platform = [tokens.probe(), breaker.probe(), sweeper.probe()].includes(true)
    emit({ type: 'operator', command: 'probe', circuits: probes.circuits, platform })
    wake.retry()
    return { ...probes, platform }
  }

  function situations(): SituationOf {
    const [now, monotonic] = [client.now(), clock.monotonic()]
    const shut = gates.shut()
    const [blocking, stops] = [blockingAll(shut), Math.max(stopsForMs(shut), msUntilToken())]
    const toWallClock = (at: number): number => now - (monotonic - at)
    return (subscriptionId) => {
      const circuit = subscriptions.circuitOf(subscriptionId)
      const notClosed = 'opening' in circuit ? circuit : undefined
      const paused = pause.of(subscriptionId)
      const pausedForMs = paused === undefined ? 0 : (pauseEndsInMs(paused, clock.now()) ?? Infinity)
      const throttle = subscriptions.throttleOf(subscriptionId, monotonic)
      return {
        now,
        monotonic,
        gate: blocking ?? gates.ofSubscription(subscriptionId),
        isPaused: paused !== undefined,
        unservedForMs: throttle?.unservedForMs,
        stopsForMs: Math.max(stops, pausedForMs, throttle?.waitsForMs ?? 0),
        pausesForMs: notClosed && Math.max(0, notClosed.openUntil - monotonic),
        backoffsEndedMs: subscriptions.backoffsEndedMs(subscriptionId, monotonic),
        failing: notClosed && {
          since: toWallClock(notClosed.opening.at),
          responseStatusCode: notClosed.opening.responseStatusCode,
        },
        overSince: toWallClock(responses.overSince(subscriptionId)),
        takenAtOf: (failure) => toWallClock(responses.takenAt(subscriptionId, failure)),
      }
    }
  }

  function unlistedNow(): ReconcilerState['unlisted'] {
    const parts = sweeper.unlisted()
    const sum = sumOfUnlisted(parts)
    return sum && { ...sum, forMs: clock.monotonic() - Math.min(...parts.map(({ since }) => since)) }
  }

  function* state(situationOf = situations(), look?: LookAt): Steps<ReconcilerState> {
    const { counts, ...summary } = yield* backlog.summary(situationOf, look)
    const monotonic = clock.monotonic()
    const findings = sweeper.findings()
    const evicted = backlog.evictions.known()
    const oldestOpenAt = Math.min(summary.oldestOpenAt ?? Infinity, evicted.oldestOpenAt)
    const unreadable = [findings.unreadable, confirmer.unreadable()].filter((sum) => sum !== undefined)
    return {
      ...findings,
      ...summary,
      failed: { ...counts, excluded: sumOf(findings.excluded) },
      onlyCounted: evicted.records,
      oldestOpenAt: oldestOpenAt === Infinity ? undefined : oldestOpenAt,
      lately: responses.lately(monotonic),
      awaiting: outcomes.pending().size,
      unreadable: unreadable.toSorted((a, b) => b.rows - a.rows)[0],
      unlisted: unlistedNow(),
      knowsTime: client.knowsTime(),
      nextSweepInMs: msUntilSweep(),
      fullSweepUnderWay: sweeper.isFullUnderWay(),
      circuitCounts: subscriptions.counts(monotonic),
      receivers: subscriptions.receivers(
        monotonic,
        (id) => responses.receiverOf(id, monotonic),
        (id) => summary.missingOf.has(id),
      ),
      gates: gates.shut(),
      pauses: pause.list(),
      receiver: healthUrl === undefined ? undefined : { up: undefined, ...receiver.last() },
      inFlight: dispatcher.inFlight(),
      rateLimit: rate.limit(),
      rateMaximum: config.platform.maxRequestsPerSecond,
      throttledForMs: rate.pausedForMs('list'),
      books: books.state(),
    }
  }

  const parts: Parts = { ...common, notifiers, gates, dispatcher, confirmer, sweeper, books }
  return {
    ...parts,
    sweep: (signal) => sweepLoop(parts, signal),
    confirm: (signal) => confirmLoop(parts, signal),
    retry: (signals) => retry(parts, signals),
    probe,
    situations,
    state,
  }
}
