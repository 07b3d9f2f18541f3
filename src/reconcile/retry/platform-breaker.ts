// Circuit breaker for the platform: opens on 401/403, for lack of a token, or after three failures in a row. A ping, one size-1 list call with backoff, shows whether to close it; where lists pass and retries do not, one retry does. @see docs/architecture.md "Retry plan"
import { onWallClock, type Clock, type Random } from '../../runtime/clock.ts'
import type { PlatformClient } from '../../platform/client.ts'
import { TokenError } from '../../platform/auth/token-response.ts'
import { meaningOf, type CallResponse, type RetryResponse } from '../../platform/operations.ts'
import { createPlatformBackoff } from '../platform-backoff.ts'
import { isPlatformTrouble } from '../platform-trouble.ts'

/**
 * Why nothing is retried; each is a gate. `intercepted`: something in front of the platform answers retries, and no lists;
 * `no-token`: no call was sent.
 */
export const troubles = ['unauthorized', 'intercepted', 'no-token', 'platform'] as const
export type Trouble = (typeof troubles)[number]

export interface TroubleEvent {
  type: 'trouble'
  /** The trouble that stops retries, and the call that showed it last; undefined without any. */
  trouble: Trouble | undefined
  call?: FailedCall | undefined
}

/** A call that failed; `token` is one of the identity host. */
export interface FailedCall extends CallResponse {
  operation: 'retry' | 'list' | 'token'
}

export interface PlatformBreakerOptions {
  clock: Clock
  random: Random
  client: Pick<PlatformClient, 'list'>
  /** Called when retries may be possible again. */
  wake: () => void
  emit: (event: TroubleEvent) => void
}

export interface PlatformBreaker {
  /** True when a retry may be sent now; while trial PATCHes are allowed, one at a time. */
  allows(inFlight: number): boolean
  trouble(): Trouble | undefined
  /** The gate that is shut: that of the trouble, or `platform` while a ping has waited for its response for over a second. */
  gate(): Trouble | undefined
  /** Since when retries are stopped for this reason, epoch ms of this host's clock. */
  since(): number | undefined
  /** The call that showed the trouble last. */
  call(): FailedCall | undefined
  /** Reports the response to a PATCH that was sent, or to be sent, at `sentAt`, monotonic ms. */
  note(response: RetryResponse, sentAt: number): void
  /** Time of the next ping, monotonic ms; undefined when none is needed, or while one is running. */
  pingAt(): number | undefined
  isPingDue(): boolean
  /** A sweep has listed the window: the next ping comes now, if the platform seems to be down. */
  pingNow(): void
  /** When the platform last answered a ping, monotonic ms; -Infinity before the first response. */
  respondedAt(): number
  /** Pings the platform once. Rejects with the signal's reason, or for a bug of the ping. */
  ping(signal: AbortSignal): Promise<void>
}

/** After this many failures in a row, a ping shows if the records or the platform are the problem. */
const suspiciousRow = 3
/** A ping that is answered within this time is shown nowhere. */
const momentMs = 1000

type BreakerState =
  | { name: 'closed' }
  /** Too many failures in a row: one list call shows if the platform answers at all. */
  | { name: 'checking'; isIntercepted: boolean }
  | { name: 'open'; trouble: Trouble }
  /** The list passes, but the PATCH did not: one PATCH shows if it passes again. */
  | { name: 'half-open'; trouble: Trouble }

/** Troubles that a list call does not end: it may pass where a retry does not. */
const ofRetries: ReadonlySet<Trouble> = new Set<Trouble>(['unauthorized', 'intercepted'])

export function createPlatformBreaker(options: PlatformBreakerOptions): PlatformBreaker {
  const { clock, random } = options
  let state: BreakerState = { name: 'closed' }
  let failuresInARow = 0
  const backoff = createPlatformBackoff(clock, random)
  let respondedAt = -Infinity
  /** Monotonic ms. */
  let since: number | undefined
  let call: FailedCall | undefined
  /** When the state was last entered, monotonic ms. */
  let enteredAt = -Infinity
  let pingAt: number | undefined
  let isPinging = false

  /** Why retries are stopped in this state; while it is `checking`, only presumably. */
  function reason(): Trouble | undefined {
    if (state.name === 'closed') return undefined
    return state.name === 'checking' ? 'platform' : state.trouble
  }

  const trouble = (): Trouble | undefined => (state.name === 'checking' ? undefined : reason())

  function enter(next: BreakerState): void {
    const before = { reason: reason(), trouble: trouble() }
    const wasOpen = state.name === 'open'
    state = next
    enteredAt = clock.monotonic()
    if (next.name === 'closed') {
      failuresInARow = 0
      backoff.end()
    }
    if (next.name !== 'open') pingAt = next.name === 'checking' ? enteredAt : undefined
    else if (!wasOpen) backOff()
    if (reason() !== before.reason) since = reason() && clock.monotonic()
    // The call that shows that lists pass has ended a trouble of theirs.
    if (next.name === 'half-open' && call?.operation !== 'retry') call = undefined
    if (trouble() !== before.trouble) options.emit({ type: 'trouble', trouble: trouble(), call })
    options.wake()
  }

  /** Returns the failure of a list call; undefined when it was answered. */
  async function ask(signal: AbortSignal): Promise<unknown> {
    try {
      await options.client.list({ status: 'failed', page: 0, size: 1 }, signal)
      respondedAt = clock.monotonic()
      return undefined
    } catch (error) {
      signal.throwIfAborted()
      if (!isPlatformTrouble(error)) throw error
      call =
        error instanceof TokenError
          ? { operation: 'token', reason: error.reason }
          : { operation: 'list', problem: error.problem, reason: error.reason, status: error.status }
      return error
    }
  }

  function backOff(failure?: unknown): void {
    backoff.failed(failure)
    pingAt = backoff.until()
  }

  async function ping(signal: AbortSignal): Promise<void> {
    const asked = state
    const failure = await ask(signal)
    const isDown = failure !== undefined
    const downBy = failure instanceof TokenError ? 'no-token' : 'platform'
    // A refusal may have come during the ping: it counts, even if the list call was answered.
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

  /** Nothing goes out until a ping; a trouble that is known already begins no longer backoff. */
  function stop(trouble: Trouble): void {
    if (state.name !== 'open' || state.trouble !== trouble) enter({ name: 'open', trouble })
  }

  return {
    allows: (inFlight) => state.name === 'closed' || (state.name === 'half-open' && inFlight === 0),
    trouble,
    gate: () => (state.name === 'checking' && clock.monotonic() - enteredAt <= momentMs ? undefined : reason()),
    since: () => since && onWallClock(clock, since),
    call: () => call,
    note(response, sentAt) {
      const { problem, reason, result, sent, status } = response
      const isRefused = result === 'unauthorized'
      const { isFailure: failed = false, isOfRecord = false } = meaningOf(result)
      if (isRefused || failed) call = { operation: sent ? 'retry' : 'token', problem, reason, status }
      if (isRefused || !sent) {
        stop(sent ? 'unauthorized' : 'no-token')
        return
      }
      failuresInARow = failed ? failuresInARow + 1 : 0
      // A retry that was on its way before the refusal is not the trial.
      if (state.name === 'half-open' && sentAt >= enteredAt) {
        // Only a response about the record itself shows that retries pass again.
        enter(isOfRecord ? { name: 'closed' } : { name: 'open', trouble: state.trouble })
      }
      if (state.name === 'closed' && failuresInARow >= suspiciousRow)
        enter({ name: 'checking', isIntercepted: result === 'intercepted' })
    },
    pingAt: () => (isPinging ? undefined : pingAt),
    pingNow() {
      if (state.name !== 'open' || ofRetries.has(state.trouble)) return
      pingAt = clock.monotonic()
      options.wake()
    },
    respondedAt: () => respondedAt,
    isPingDue: () => !isPinging && pingAt !== undefined && clock.monotonic() >= pingAt,
    async ping(signal) {
      isPinging = true
      try {
        await ping(signal)
      } finally {
        isPinging = false
        options.wake()
      }
    },
  }
}
