// Circuit breaker for the platform: opens on 401/403 (on three in a row while others pass), for lack of a token, or after three failures in a row. A ping, one size-1 list call with backoff, shows whether to close it; where lists pass and retries do not, one retry does. @see docs/architecture.md "Retry plan"
import { onWallClock, type Clock, type Random } from '../../runtime/clock.ts'
import type { PlatformClient } from '../../platform/client.ts'
import { TokenError } from '../../platform/auth/token-response.ts'
import { meaningOf, type CallResponse, type RetryResponse } from '../../platform/operations.ts'
import { createPlatformBackoff } from '../platform-backoff.ts'
import { isPlatformTrouble } from '../platform-trouble.ts'

/**
 * Why nothing is retried; each is a gate. `intercepted`: an intermediary responds to retries, but not to lists; `no-token`: no
 * call was sent.
 */
export const troubles = ['unauthorized', 'intercepted', 'no-token', 'platform'] as const
export type Trouble = (typeof troubles)[number]

export interface TroubleEvent {
  type: 'trouble'
  /** The trouble that stops retries, and the call that last showed it; undefined without one. */
  trouble: Trouble | undefined
  call?: FailedCall | undefined
}

/** A failed call; `token`: to the identity host. */
export interface FailedCall extends CallResponse {
  operation: 'retry' | 'list' | 'token'
}

export interface PlatformBreakerOptions {
  clock: Clock
  random: Random
  client: Pick<PlatformClient, 'ping'>
  /** Called when retries or checks may be possible again. */
  wake: () => void
  emit: (event: TroubleEvent) => void
}

export interface PlatformBreaker {
  /** True if a retry may be sent now; while trial PATCHes are allowed, one at a time. */
  allows(inFlight: number): boolean
  trouble(): Trouble | undefined
  /** True while retries are rejected or intercepted, but one has passed within a minute: single records may be. */
  passesSome(): boolean
  /** The shut gate: that of the trouble, or `platform` once a ping has waited more than a second for its response. */
  gate(): Trouble | undefined
  /** Since when retries are stopped for this reason, epoch ms of this host's clock. */
  since(): number | undefined
  /** The call that last showed the trouble. */
  call(): FailedCall | undefined
  /** A retry could not be sent, because no token was available. */
  lacksToken(error: TokenError): void
  /** Reports the response to a PATCH sent at `sentAt`, monotonic ms. */
  note(response: RetryResponse, sentAt: number): void
  /** A check shows that the platform accepted a PATCH sent at this time, although its response was lost. */
  arrived(sentAt: number): void
  /** Time of the next ping, monotonic ms; undefined if none is needed, or one is running. */
  pingAt(): number | undefined
  /** A sweep has listed the window: sends the next ping now, if lists seemed to fail. A second one ends a trouble that is not of retries. */
  listed(): void
  /** An operator asks for the next ping now; returns whether one was waiting. */
  probe(): boolean
  /** When a sweep last listed the window, or the platform last responded to a ping, monotonic ms; initially -Infinity. */
  respondedAt(): number
  /** Lists alone are paused for long: if a ping is due or under way, the trial replaces it. */
  skipPing(): void
  /** Pings the platform once. Rejects with the signal's reason, or for a bug of the ping. */
  ping(signal: AbortSignal): Promise<void>
}

/** After this many consecutive failures, a ping shows whether the records or the platform are the problem. So many rejected retries are of all. */
const suspiciousRow = 3
/** Fewer are of single records, if one has passed within this time. */
const passedForMs = 900_000
/** Between two trials of which one passes now and then. */
const passingMs = 60_000
/** Maximum pause between two trials while retries are refused: that ends when a person acts; or if some have passed lately. */
const [maxRefusedMs, maxRefusedSomeMs] = [300_000, 10_000]
/** A ping with a response within this time is not reported. */
const momentMs = 1000

type BreakerState =
  | { name: 'closed' }
  /** Too many consecutive failures: one list call shows whether the platform responds at all. */
  | { name: 'checking'; isIntercepted: boolean }
  | { name: 'open'; trouble: Trouble }
  /** The list succeeds, but the PATCH did not, or lists alone are paused: one PATCH shows whether it succeeds again. */
  | { name: 'half-open'; trouble: Trouble }

/** Troubles that a list call does not end: it may succeed although a retry does not. */
const ofRetries: ReadonlySet<Trouble> = new Set<Trouble>(['unauthorized', 'intercepted'])

export function createPlatformBreaker(options: PlatformBreakerOptions): PlatformBreaker {
  const { clock, random } = options
  let state: BreakerState = { name: 'closed' }
  let failuresInARow = 0
  /** Rejected retries since the platform last responded about a record, and when that was, monotonic ms. */
  let [rejectedInARow, passedAt] = [0, -Infinity]
  const backoff = createPlatformBackoff(clock, random)
  let respondedAt = -Infinity
  /** Monotonic ms. */
  let since: number | undefined
  let call: FailedCall | undefined
  /** True once a sweep has succeeded in this state. */
  let hasListed = false
  /** When the state was last entered, monotonic ms. */
  let enteredAt = -Infinity
  let pingAt: number | undefined
  /** Ends the ping that is running. */
  let pinging: AbortController | undefined

  /** Why retries are stopped in this state; while it is `checking`, only presumably. */
  function reason(): Trouble | undefined {
    if (state.name === 'closed') return undefined
    return state.name === 'checking' ? 'platform' : state.trouble
  }

  const hasPassed = (): boolean => clock.monotonic() - passedAt < passedForMs

  const trouble = (): Trouble | undefined => (state.name === 'checking' ? undefined : reason())

  function enter(next: BreakerState): void {
    const before = { reason: reason(), trouble: trouble() }
    const wasOpen = state.name === 'open'
    state = next
    hasListed = false
    enteredAt = clock.monotonic()
    if (next.name === 'closed') {
      failuresInARow = 0
      backoff.end()
    }
    if (next.name !== 'open') pingAt = next.name === 'checking' ? enteredAt : undefined
    else if (!wasOpen) backOff()
    if (reason() !== before.reason) since = reason() && clock.monotonic()
    if (trouble() !== before.trouble) options.emit({ type: 'trouble', trouble: trouble(), call })
    options.wake()
  }

  /** Returns the failure of a list call; undefined if it succeeded. */
  async function ask(signal: AbortSignal): Promise<unknown> {
    try {
      await options.client.ping(signal)
      respondedAt = clock.monotonic()
      return undefined
    } catch (error) {
      if (!isPlatformTrouble(error)) throw error
      call =
        error instanceof TokenError
          ? { operation: 'token', reason: error.reason }
          : { operation: 'list', problem: error.problem, reason: error.reason, status: error.status }
      return error
    }
  }

  function backOff(failure?: unknown): void {
    const needsPerson = state.name === 'open' && ofRetries.has(state.trouble)
    const maxMs = hasPassed() ? maxRefusedSomeMs : maxRefusedMs
    backoff.failed(failure, needsPerson ? maxMs : undefined)
    pingAt = backoff.until()
  }

  async function ping(signal: AbortSignal): Promise<void> {
    const asked = state
    const failure = await ask(signal)
    const isDown = failure !== undefined
    // The call that shows working lists has ended a trouble of theirs.
    if (!isDown && call?.operation !== 'retry') call = undefined
    const downBy = failure instanceof TokenError ? 'no-token' : 'platform'
    // A rejection during the ping counts, even if the list call succeeded.
    if (state.name === 'checking') {
      if (isDown) enter({ name: 'open', trouble: downBy })
      else enter(state.isIntercepted ? { name: 'half-open', trouble: 'intercepted' } : { name: 'closed' })
    } else if (state.name === 'open' && asked.name !== 'checking') {
      const { trouble } = state
      if (!isDown) enter(ofRetries.has(trouble) ? { name: 'half-open', trouble } : { name: 'closed' })
      else if (!ofRetries.has(trouble) && trouble !== downBy) enter({ name: 'open', trouble: downBy })
      if (isDown) backOff(failure)
    }
  }

  /** Sends nothing until a ping; a known trouble does not lengthen the backoff again. */
  function stop(trouble: Trouble): void {
    if (state.name !== 'open' || state.trouble !== trouble) enter({ name: 'open', trouble })
  }

  return {
    allows: (inFlight) => state.name === 'closed' || (state.name === 'half-open' && inFlight === 0),
    trouble,
    passesSome() {
      const shown = trouble()
      return shown !== undefined && ofRetries.has(shown) && clock.monotonic() - passedAt < passingMs
    },
    gate: () => (state.name === 'checking' && clock.monotonic() - enteredAt <= momentMs ? undefined : reason()),
    since: () => since && onWallClock(clock, since),
    call: () => call,
    lacksToken({ reason }) {
      call = { operation: 'token', reason }
      stop('no-token')
    },
    note(response, sentAt) {
      const { problem, reason, result, status } = response
      const { isFailure: failed = false, isOfRecord = false } = meaningOf(result)
      if (isOfRecord) [rejectedInARow, passedAt] = [0, clock.monotonic()]
      else if (result === 'unauthorized') rejectedInARow += 1
      const isOfAll = rejectedInARow >= suspiciousRow || !hasPassed()
      const isRefused = result === 'unauthorized' && (isOfAll || state.name !== 'closed')
      if (isRefused || failed) call = { operation: 'retry', problem, reason, status }
      if (isRefused) stop('unauthorized')
      failuresInARow = failed ? failuresInARow + 1 : 0
      // A retry already under way before the rejection is not the trial.
      // Nor is one that was throttled: it says nothing about the trouble.
      if (state.name === 'half-open' && sentAt >= enteredAt && result !== 'throttled') {
        // Only a response about the record itself shows that retries succeed again.
        enter(isOfRecord ? { name: 'closed' } : { name: 'open', trouble: state.trouble })
      }
      if (state.name === 'closed' && failuresInARow >= suspiciousRow)
        enter({ name: 'checking', isIntercepted: result === 'intercepted' })
    },
    arrived(sentAt) {
      ;[rejectedInARow, passedAt] = [0, clock.monotonic()]
      // Only a trial is sent during a trouble.
      if (trouble() !== undefined && sentAt >= (since ?? Infinity)) enter({ name: 'closed' })
    },
    pingAt: () => (pinging === undefined ? pingAt : undefined),
    listed() {
      respondedAt = clock.monotonic()
      if (state.name === 'open') {
        const isOfRetries = ofRetries.has(state.trouble)
        // The calls of the first sweep may all precede the trouble.
        if (hasListed && !isOfRetries) enter({ name: 'closed' })
        else if (!isOfRetries || call?.operation === 'list') pingAt = clock.monotonic()
      }
      if (state.name === 'half-open' && !ofRetries.has(state.trouble)) enter({ name: 'closed' })
      hasListed = true
      options.wake()
    },
    probe() {
      const isWaiting = pingAt !== undefined
      if (isWaiting) pingAt = clock.monotonic()
      options.wake()
      return isWaiting
    },
    respondedAt: () => respondedAt,
    skipPing() {
      const isDue = pinging !== undefined || (pingAt ?? Infinity) <= clock.monotonic()
      if (!isDue) return
      pinging?.abort()
      if (state.name === 'open') enter({ name: 'half-open', trouble: state.trouble })
      if (state.name === 'checking')
        enter({ name: 'half-open', trouble: state.isIntercepted ? 'intercepted' : 'platform' })
    },
    async ping(signal) {
      const own = new AbortController()
      pinging = own
      try {
        await ping(AbortSignal.any([signal, own.signal]))
      } catch (error) {
        if (signal.aborted || !own.signal.aborted) throw error
      } finally {
        pinging = undefined
        options.wake()
      }
    },
  }
}
