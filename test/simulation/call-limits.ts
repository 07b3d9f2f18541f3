// Watches how fast a process calls: its rate, the waits that it was asked for, the tries to get a token, and retries while they are blocked.
import { createBucket, isTooMany } from './meters.ts'
import type { Call, Told } from './network.ts'
import type { World } from './world.ts'

export interface CallLimits {
  /** `isReplay`: a retry that is made once more with another token; nothing but the rate holds it. */
  sent(call: Call, isReplay: boolean): void
  told(call: Call, told: Told): void
  /** An operator, or a new key, ended a pause of the identity host. */
  freedToken(): void
  /** The operator paused or resumed retries. */
  paused(isPaused: boolean): void
  /** True while the receiver's health address has not answered 2xx, if there is one. */
  isReceiverDown(): boolean
}

export interface CallLimitsOptions extends World {
  violate: (what: string) => void
  /** Called whenever a limit may hold the process up. */
  onHold: () => void
  /** Called whenever a gate holds all retries, until a moment if that is known. */
  onShut: (until?: number) => void
  /** Called when the platform makes lists alone wait, or for long, until a moment. */
  onListsHeld: (until: number) => void
}

const tokenFailures = 3
const tokenFailuresSpanMs = 30_000
const longestRetryAfterMs = 300_000
/** What is so near to its end may hold others up. */
const nearlyEmpty = 0.2
/** So many refusals of lists, after each of which a retry was served, and none was refused, are of lists alone. */
const refusedAloneOften = 2

/** After a refused list, lists wait so much longer than retries; and in a long pause they hold no retry up. */
const [retryFirstMs, longPauseMs] = [2000, 60_000]

/** A wait that the platform asked for. */
interface Wait {
  until: number
  throttledInARow: number
}

export function createCallLimits(options: CallLimitsOptions): CallLimits {
  const { config, onHold, onListsHeld, onShut, platform, violate } = options
  const { now } = options.timeline
  const subscriptionOf = (id: string): number | undefined => platform.records.get(id)?.plan.subscription
  const { maxPerSecond } = config.retry
  const calls = createBucket(config.platform.maxRequestsPerSecond)
  const retries = maxPerSecond === undefined ? undefined : createBucket(maxPerSecond)
  const failedTokens: number[] = []
  const newWait = (): Wait => ({ until: -Infinity, throttledInARow: 0 })
  const [waitOfAll, waitOfLists] = [newWait(), newWait()]
  /** Of subscriptions that were refused; and of these, the ones since whose refusal another was served. */
  const waitsOfOne = new Map<number | undefined, Wait>()
  const mayBeAlone = new Set<number | undefined>()
  let [refusedAlone, listRefusedAt] = [0, Infinity]
  /** The identity host is another one: its Retry-After is for token requests alone, and theirs alone. */
  let tokenWaitsUntil = -Infinity
  let tokenAskedAt = 0
  let tokenFreedAt = 0
  let isPaused = false
  let isDown = config.receiver.healthUrl !== undefined

  function checkWait({ until }: Wait): void {
    if (now() < until) violate('goes on calling although it was asked to wait')
  }

  function checkHeld(): void {
    if (isPaused) violate('goes on retrying although it is paused')
    else if (isDown) violate('retries although the receiver is not well')
  }

  function checkRetry(isReplay: boolean): void {
    if (retries?.take(now()) === false) violate('retries faster than allowed')
    if ((retries?.level(now()) ?? 1) < nearlyEmpty) onHold()
    if (!isReplay) checkHeld()
  }

  /** A date is of the time at which the response was written: at the earliest, when its request was sent. */
  const endOfWait = (sentAt: number, retryAfterMs: number): number =>
    sentAt + Math.min(retryAfterMs, longestRetryAfterMs) - 1500

  /** Returns true if lists alone are refused. */
  function learnRefused({ id, operation, sentAt }: Call, { retryAfterMs, status }: Told): boolean {
    const isRefused = status === 429 || retryAfterMs !== undefined
    const isServed = status !== undefined && status !== 503 && !isRefused
    if (operation === 'list' && isRefused) listRefusedAt = now()
    // A limit of its subscription tells nothing of lists.
    if (operation === 'retry' && isRefused && !mayBeAlone.has(subscriptionOf(id)))
      [refusedAlone, listRefusedAt] = [refusedAlone < refusedAloneOften ? 0 : refusedAloneOften - 1, Infinity]
    if (operation === 'retry' && isServed && sentAt > listRefusedAt)
      [refusedAlone, listRefusedAt] = [refusedAlone + 1, Infinity]
    return operation === 'list' && isRefused && refusedAlone >= refusedAloneOften
  }

  /** Returns the wait of a subscription that may be limited alone: it was refused before, and others were served in between. */
  function learnOwn({ id, operation }: Call, { retryAfterMs, status }: Told): Wait | undefined {
    if (operation !== 'retry' || status === undefined) return undefined
    const subscription = subscriptionOf(id)
    if (status === 429 || retryAfterMs !== undefined) {
      const wait = waitsOfOne.getOrInsertComputed(subscription, newWait)
      return mayBeAlone.has(subscription) ? wait : undefined
    }
    for (const refused of waitsOfOne.keys()) if (refused !== subscription) mayBeAlone.add(refused)
    return undefined
  }

  function learnWait(call: Call, told: Told): void {
    const { kind, retryAfterMs, status } = told
    if (kind === 'given-up') return
    const isAlone = learnRefused(call, told)
    const wait = isAlone ? waitOfLists : (learnOwn(call, told) ?? waitOfAll)
    if (status === 429) wait.throttledInARow += 1
    else for (const each of call.operation === 'list' ? [waitOfLists, waitOfAll] : [waitOfAll]) each.throttledInARow = 0
    if (status !== 429 && retryAfterMs === undefined) return
    // The wait doubles with each, and is over by then.
    const doubledMs = Math.min(longestRetryAfterMs, 1000 * 2 ** (wait.throttledInARow - 1))
    const longestMs = Math.max(doubledMs, retryAfterMs ?? 0)
    if (!isAlone) onShut(now() + longestMs)
    if (isAlone || longestMs > longPauseMs) onListsHeld(now() + longestMs + retryFirstMs)
    if (retryAfterMs === undefined) return
    wait.until = Math.max(wait.until, endOfWait(call.sentAt, retryAfterMs))
  }

  function toldToken({ kind, retryAfterMs, status }: Told): void {
    if (kind === 'given-up') return
    if (retryAfterMs !== undefined) tokenWaitsUntil = endOfWait(tokenAskedAt, retryAfterMs)
    if (kind === 'told' && status === 200) return
    onShut()
    // A host that names its own pause limits the tries itself.
    if (retryAfterMs !== undefined) return
    failedTokens.push(now())
    if (isTooMany(failedTokens, tokenFailures, tokenFailuresSpanMs)) {
      violate('failed to get a token three times within 30 s')
    }
  }

  return {
    sent(call, isReplay) {
      const { operation } = call
      if (operation === 'token') {
        const isFreed = tokenFreedAt >= tokenAskedAt
        tokenAskedAt = now()
        if (now() < tokenWaitsUntil && !isFreed) violate('asks for a token although it was asked to wait')
      }
      if (operation !== 'list' && operation !== 'retry') return
      if (!calls.take(now())) violate('calls the platform faster than allowed')
      if (calls.level(now()) < nearlyEmpty) onHold()
      if (operation === 'retry') checkRetry(isReplay)
      checkWait(waitOfAll)
      const own = operation === 'list' ? waitOfLists : waitsOfOne.get(subscriptionOf(call.id))
      if (own !== undefined) checkWait(own)
    },
    told(call, told) {
      const { operation } = call
      if (operation === 'token') toldToken(told)
      else if (operation !== 'health') learnWait(call, told)
      if (operation !== 'health') return
      const isWell = told.kind === 'told' && told.status === 200
      if (isDown || !isWell) onShut()
      isDown = !isWell
      onHold()
    },
    freedToken() {
      tokenFreedAt = now()
    },
    paused(is) {
      isPaused = is
      onHold()
    },
    isReceiverDown: () => isDown,
  }
}
