// Circuit breaker for the platform: opens on 401/403 or three failures in a row; a ping, one size-1 list call with backoff, shows whether to close it. @see docs/architecture.md "Retry plan"
import { onWallClock, type Clock, type Random } from '../../runtime/clock.ts'
import type { PlatformClient } from '../../platform/client.ts'
import type { Reason } from '../../platform/http/http.ts'
import type { RetryAnswer, RetryResult } from '../../platform/operations.ts'
import { createPlatformBackoff } from '../platform-backoff.ts'
import { isPlatformTrouble } from '../platform-trouble.ts'

/** The reason why nothing is retried. */
export type Trouble = 'unauthorized' | 'platform'

export interface TroubleEvent {
  type: 'trouble'
  /** The trouble that stops retries, and the call that showed it last; undefined without any. */
  trouble: Trouble | undefined
  call?: FailedCall | undefined
}

/** A call of the platform that failed. */
export interface FailedCall {
  operation: 'retry' | 'list'
  reason: Reason
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
  /** The gate that is shut: that of the trouble, or `platform` while a ping has waited for its answer for over a second. */
  gate(): Trouble | undefined
  /** Since when retries are stopped for this reason, epoch ms of this host's clock. */
  since(): number | undefined
  /** The call that showed the trouble last. */
  call(): FailedCall | undefined
  /** Reports the answer to a PATCH that was sent at `sentAt`, monotonic ms. */
  note(answer: RetryAnswer, sentAt: number): void
  /** Time of the next ping, monotonic ms; undefined when none is needed, or while one is running. */
  pingAt(): number | undefined
  isPingDue(): boolean
  /** A sweep has listed the window: the next ping comes now, if the platform seems to be down. */
  pingNow(): void
  /** When the platform last answered a ping, monotonic ms; -Infinity before the first answer. */
  answeredAt(): number
  /** Pings the platform once. Rejects with the signal's reason, or for a bug of the ping. */
  ping(signal: AbortSignal): Promise<void>
}

/** After this many failures in a row, a ping shows if the records or the platform are the problem. */
const suspiciousRow = 3
/** A misrouted gateway answers 404 to every call, as to a record that is gone. */
const failures: ReadonlySet<RetryResult> = new Set<RetryResult>(['unreachable', 'platform-error', 'gone'])
/** A ping that is answered within this time is shown nowhere. */
const momentMs = 1000

type BreakerState =
  | { name: 'closed' }
  /** Too many failures in a row: one list call shows if the platform answers at all. */
  | { name: 'checking' }
  | { name: 'open'; trouble: Trouble }
  /** The list is allowed, but the PATCH was not: one PATCH shows if it is allowed again. */
  | { name: 'half-open' }

export function createPlatformBreaker(options: PlatformBreakerOptions): PlatformBreaker {
  const { clock, random } = options
  let state: BreakerState = { name: 'closed' }
  let failuresInARow = 0
  const backoff = createPlatformBackoff(clock, random)
  let answeredAt = -Infinity
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
    if (state.name === 'checking') return 'platform'
    return state.name === 'half-open' ? 'unauthorized' : state.trouble
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
    if (next.name === 'closed') call = undefined
    if (trouble() !== before.trouble) options.emit({ type: 'trouble', trouble: trouble(), call })
    options.wake()
  }

  /** Returns the failure of a list call; undefined when it was answered. */
  async function ask(signal: AbortSignal): Promise<unknown> {
    try {
      await options.client.list({ status: 'failed', page: 0, size: 1 }, signal)
      answeredAt = clock.monotonic()
      return undefined
    } catch (error) {
      signal.throwIfAborted()
      if (!isPlatformTrouble(error)) throw error
      call = { operation: 'list', reason: error.reason }
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
    const answered = failure === undefined
    // A refusal may have come during the ping: it counts, even if the list call was answered.
    if (state.name === 'checking') enter(answered ? { name: 'closed' } : { name: 'open', trouble: 'platform' })
    else if (state.name !== 'open' || asked.name === 'checking') return
    else if (!answered) backOff(failure)
    else enter(state.trouble === 'platform' ? { name: 'closed' } : { name: 'half-open' })
  }

  return {
    allows: (inFlight) => state.name === 'closed' || (state.name === 'half-open' && inFlight === 0),
    trouble,
    gate: () => (state.name === 'checking' && clock.monotonic() - enteredAt <= momentMs ? undefined : reason()),
    since: () => since && onWallClock(clock, since),
    call: () => call,
    note(answer, sentAt) {
      if (answer.result === 'unauthorized' || failures.has(answer.result))
        call = { operation: 'retry', reason: answer.reason }
      if (answer.result === 'unauthorized') {
        if (state.name !== 'open' || state.trouble !== 'unauthorized') enter({ name: 'open', trouble: 'unauthorized' })
        return
      }
      const failed = failures.has(answer.result)
      failuresInARow = failed ? failuresInARow + 1 : 0
      // A retry that was on its way before the refusal is not the trial.
      if (state.name === 'half-open' && sentAt >= enteredAt) {
        // Only an answer about the record itself shows that the permission is back.
        const tellsNothing = failed || answer.result === 'throttled'
        enter(tellsNothing ? { name: 'open', trouble: 'unauthorized' } : { name: 'closed' })
      }
      if (state.name === 'closed' && failuresInARow >= suspiciousRow) enter({ name: 'checking' })
    },
    pingAt: () => (isPinging ? undefined : pingAt),
    pingNow() {
      if (state.name !== 'open' || state.trouble !== 'platform') return
      pingAt = clock.monotonic()
      options.wake()
    },
    answeredAt: () => answeredAt,
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
