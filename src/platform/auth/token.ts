// The access token: one per process, fetched once for all callers, renewed before it expires, with bounded requests.
import { inspect } from 'node:util'
import { every, onWallClock } from '../../runtime/clock.ts'
import { abortable, createNotifier } from '../../runtime/notifier.ts'
import { createAttemptLimiter } from './attempt-limiter.ts'
import { createKeyRotation, isOfKey } from './key-rotation.ts'
import { reloadFile, type CredentialEvent, type Reloadable } from './reloadable.ts'
import type { SigningKey } from './private-key.ts'
import { foreignText } from '../http/foreign-text.ts'
import type { Reason } from '../http/http.ts'
import { createTokenEndpoint, type TokenEndpointOptions } from './token-endpoint.ts'
import { explainRefusal, TokenError, type Granted, type Refused } from './token-response.ts'

/** Logging it shows when it was obtained, but not its value. */
export interface AccessToken {
  /** Not enumerable. */
  readonly value: string
  /** Monotonic ms. */
  readonly obtainedAt: number
  /** Also omits the value. */
  toString(): string
}

export interface TokenCache {
  /**
   * A valid token; callers share one request. Aborting the signal ends only this caller's wait.
   * @throws TokenError, at once while backing off; the signal's reason
   */
  get(signal?: AbortSignal): Promise<AccessToken>
  /** True if `get` resolves at once. */
  isHeld(): boolean
  /**
   * Reports that the API rejected a token. A young token may not be known to every server, yet or ever: it stays in use. If it
   * never worked it rests, and the previous one is used if it is still valid. Any other is void.
   */
  refused(token: AccessToken, options: { hasWorked: boolean }): void
  /**
   * Another token; the given one stays valid. For a response that only suggests a void token.
   * @throws as `get`
   */
  renewed(token: AccessToken, signal?: AbortSignal): Promise<AccessToken>
  /** When the token counts as expired: epoch ms by the host's present clock; undefined without a token. */
  expiresAt(): number | undefined
  /** As `problem` of KeyRotation. */
  keyProblem(): string | undefined
  /** Why no new token is available; undefined if the last request got one. */
  trouble(): TokenTrouble | undefined
  /** An operator ends the wait after a failed request; returns whether one had failed. */
  probe(): boolean
  /** Renews the token and reloads the key file; only the signal ends that, and rejects with its reason. */
  run(signal: AbortSignal): Promise<void>
}

/** Requests that failed since the last token. Times in epoch ms by the host's present clock. */
export interface TokenTrouble extends Pick<Refused, 'kind' | 'reason' | 'status'> {
  /** `api`: the API rejects all tokens that the identity host issues; `signature`: the assertion could not be signed. */
  by: 'identity-host' | 'api' | 'signature'
  host: string
  since: number
  nextTryAt: number
  advice: string
  /** Cause of a missing response. */
  code: string | undefined
}

/** Events of the token cache; none holds a secret. */
export type TokenEvent =
  /** One HTTP try. */
  | { type: 'token-request'; reason: Reason; seconds: number }
  | { type: 'token-refreshed'; result: 'ok'; reason: 'ok'; expiresInSeconds: number }
  | {
      type: 'token-refreshed'
      result: 'rejected' | 'transient'
      reason: Exclude<Reason, 'ok'>
      oauthError: string | undefined
      description: string | undefined
      /** Cause of a missing response: a code of Node, OpenSSL or undici. */
      code: string | undefined
      retryInMs: number
      /** True if the old token stays in use. */
      tokenHeld: boolean
      /** True if a new key is at fault: the proven one stays in use. */
      isNewKey: boolean
    }
  /** The platform granted another scope than requested. Reported once per scope. */
  | { type: 'token-scope-missing'; requested: string; granted: string }
  | CredentialEvent

export interface TokenCacheOptions extends TokenEndpointOptions {
  key: Reloadable<SigningKey>
  /** A Retry-After is obeyed up to this many milliseconds. Default: unlimited. */
  maxRetryAfterMs?: number
  /** Must not throw. */
  emit: (event: TokenEvent) => void
}

/** Renewal in the background starts between 60 and 70 % of its lifetime, so that many instances spread out. */
const refreshFrom = 0.6
const refreshJitter = 0.1
/** Minimum time between background renewals, for tokens of a few seconds or renewals that come late. */
const minRefreshMs = 1000

/** A younger token may not be known to every server of the API yet. */
export const youngTokenMs = 10_000
/** Maximum time that the next one is kept once young tokens were given up. */
const maxYoungTokenMs = 16 * youngTokenMs
/** First rest of a rejected young token; it doubles. */
const firstRestMs = 1000
const keyCheckMs = 10_000

interface CachedToken {
  token: AccessToken
  /** Monotonic ms: renewed in the background from here; no longer used from here. */
  refreshAt: number
  expiresAt: number
  /** Monotonic ms until which it rests, because the API may not know it yet. */
  restsUntil: number
  former: CachedToken | undefined
}

interface Request {
  promise: Promise<AccessToken>
  /** Number of waiting callers. */
  waiters: number
  abort(reason: unknown): void
}

const hidden = '[access token]'

function accessToken(value: string, obtainedAt: number): AccessToken {
  return Object.defineProperties({ obtainedAt } as AccessToken, {
    value: { value },
    toString: { value: () => hidden },
    [inspect.custom]: { value: () => hidden },
  })
}

/** @param jitter uniform in [0, 1) */
function cachedToken(
  { lifetimeMs, value }: Granted,
  { former, jitter, now, sentAt }: Record<'jitter' | 'now' | 'sentAt', number> & Pick<CachedToken, 'former'>,
): CachedToken {
  const refreshAt = sentAt + lifetimeMs * (refreshFrom + refreshJitter * jitter)
  return {
    token: accessToken(value, now),
    refreshAt: Math.max(refreshAt, now + minRefreshMs),
    // One that has expired when it arrives is used for a second: the next one may arrive as late.
    expiresAt: Math.max(sentAt + lifetimeMs, now + minRefreshMs),
    restsUntil: now,
    former: former && { ...former, former: undefined },
  }
}

/** Requested scopes that were not granted. A response without a scope grants all. @see RFC 6749 section 5.1 */
function missingScopes(requested: string, granted: string | undefined): string[] {
  if (granted === undefined) return []
  const scopes = new Set(granted.split(/\s+/))
  return requested.split(/\s+/).filter((scope) => scope !== '' && !scopes.has(scope))
}

/** Creates the token cache (docs/architecture.md "Access token"). Without `run`, callers trigger each request. */
export function createTokenCache(options: TokenCacheOptions): TokenCache {
  const { clock, key, random, emit } = options
  const limiter = createAttemptLimiter(clock, random)
  const notifier = createNotifier(clock)
  const keys = createKeyRotation(key, clock)
  const tryOnce = createTokenEndpoint(options, (reason, seconds) => {
    emit({ type: 'token-request', reason, seconds })
  })
  let cached: CachedToken | undefined
  let request: Request | undefined
  let refused: { result: Refused; fingerprint: string } | undefined
  /** When a request first failed since the last token, monotonic ms. */
  let failingSince: number | undefined
  /** When the API first rejected a token, and each one since, monotonic ms. */
  let voidSince: number | undefined
  let reportedScope: string | undefined
  /** Tokens in a row that never worked. From the second on, the next is kept twice as long: to an API whose clock is behind, it is not valid yet. */
  let neverWorked = 0

  function living(token: CachedToken | undefined): CachedToken | undefined {
    return token !== undefined && clock.monotonic() < token.expiresAt ? token : undefined
  }

  const valid = (): CachedToken | undefined => living(cached)

  /** Since when requesting tokens is pointless because the API rejects each at once; undefined if it is not. */
  function apiRefusesSince(): number | undefined {
    return valid() === undefined && clock.monotonic() < limiter.openAt() ? voidSince : undefined
  }

  function tokenError(): TokenError {
    if (refused !== undefined) {
      const { result, fingerprint } = refused
      const { advice, message } = explainRefusal(result, { fingerprint, knowsTime: options.serverClock.isKnown() })
      return new TokenError(message, { ...result, advice })
    }
    const message = 'no access token: the API rejects tokens as soon as they are issued'
    return new TokenError(message, { kind: 'rejected', reason: 'unauthorized' })
  }

  function trouble(): TokenTrouble | undefined {
    const { advice, kind, reason, transportCode } = tokenError()
    const isRefusedByApi = refused === undefined
    const since = isRefusedByApi ? apiRefusesSince() : failingSince
    if (since === undefined) return undefined
    const by = isRefusedByApi ? 'api' : refused?.result.isUnsigned === true ? 'signature' : 'identity-host'
    return {
      ...{ by, host: options.tokenUrl.host, kind, reason, advice },
      ...(refused?.result.status !== undefined && { status: refused.result.status }),
      since: onWallClock(clock, since),
      nextTryAt: onWallClock(clock, Math.max(refreshDueAt(), clock.monotonic())),
      code: transportCode,
    }
  }

  function reportScope(scope: string | undefined): void {
    const before = reportedScope
    reportedScope = missingScopes(options.scope, scope).length === 0 ? undefined : scope
    if (reportedScope === undefined || reportedScope === before) return
    emit({ type: 'token-scope-missing', requested: options.scope, granted: foreignText(scope ?? '') })
  }

  function accept(result: Granted, sentAt: number, usedKey: SigningKey): AccessToken {
    // The one before it was not given up.
    if (valid() !== undefined) neverWorked = 0
    cached = cachedToken(result, { former: valid(), jitter: random.next(), now: clock.monotonic(), sentAt })
    limiter.reset()
    refused = undefined
    failingSince = undefined
    keys.succeeded(usedKey)
    const expiresInSeconds = result.lifetimeMs / 1000
    emit({ type: 'token-refreshed', result: 'ok', reason: 'ok', expiresInSeconds })
    reportScope(result.scope)
    return cached.token
  }

  function refuse(result: Refused, usedKey: SigningKey): TokenError {
    const { fingerprint } = usedKey
    refused = { result, fingerprint }
    const isNewKey = keys.isNew(usedKey) && isOfKey(result)
    // The previous key still signs: a fault of the new one is a key problem, not a missing token.
    if (!isNewKey) failingSince ??= clock.monotonic()
    notifier.notify()
    emit({
      type: 'token-refreshed',
      result: result.kind,
      reason: result.reason,
      oauthError: result.oauthError,
      description: result.description,
      code: result.transportCode,
      retryInMs: Math.max(0, Math.round(limiter.openAt() - clock.monotonic())),
      tokenHeld: valid() !== undefined,
      isNewKey,
    })
    return tokenError()
  }

  async function refresh(signal: AbortSignal): Promise<AccessToken> {
    for (;;) {
      const usedKey = keys.next()
      const { result, sentAt, clockMovedMs } = await tryOnce(usedKey, signal)
      if (result.kind === 'granted') return accept(result, sentAt, usedKey)
      const { retryAfterMs } = result
      limiter.failed(result.kind, retryAfterMs && Math.min(retryAfterMs, options.maxRetryAfterMs ?? Infinity))
      const { isSwapped, remedy } = keys.failed(result, usedKey, clockMovedMs)
      if (remedy !== undefined || isSwapped) limiter.reset()
      const isNeeded = remedy === 'time' || (remedy === 'proven-key' && valid() === undefined)
      const mayRepeat = isNeeded && limiter.openAt() <= clock.monotonic()
      if (mayRepeat && remedy === 'time') continue
      const error = refuse(result, usedKey)
      if (!mayRepeat) throw error
    }
  }

  function begin(): Request {
    const controller = new AbortController()
    const promise = refresh(controller.signal).finally(() => {
      if (request === mine) request = undefined
    })
    const mine: Request = {
      promise,
      waiters: 0,
      abort(reason) {
        request = undefined
        controller.abort(reason)
      },
    }
    promise.catch(() => undefined)
    request = mine
    return mine
  }

  /** The current request, or a new one if allowed now. */
  function shared(): Request | undefined {
    return request ?? (limiter.openAt() <= clock.monotonic() ? begin() : undefined)
  }

  function isHeld(): boolean {
    const held = valid()
    return held !== undefined && (held.restsUntil <= clock.monotonic() || living(held.former) !== undefined)
  }

  async function get(signal?: AbortSignal): Promise<AccessToken> {
    signal?.throwIfAborted()
    const held = valid()
    if (held === undefined) return requested(signal)
    if (clock.monotonic() >= held.refreshAt) shared()
    const restMs = held.restsUntil - clock.monotonic()
    if (restMs <= 0) return held.token
    const former = living(held.former)
    if (former !== undefined) return former.token
    await clock.sleep(restMs, signal)
    return get(signal)
  }

  /** The token of the current request, or of a new one. */
  async function requested(signal?: AbortSignal): Promise<AccessToken> {
    const wanted = shared()
    if (wanted === undefined) throw tokenError()
    wanted.waiters += 1
    try {
      return await abortable(wanted.promise, signal)
    } finally {
      wanted.waiters -= 1
    }
  }

  function reloadKey(): void {
    if (!reloadFile(key.reportedAs ?? 'auth.privateKeyFile', key, emit)) return
    limiter.reset()
    notifier.notify()
  }

  /** Time of the next background renewal, on the monotonic clock. */
  function refreshDueAt(): number {
    // A failed request is repeated, even one that came early, for a doubted token: it is in trouble until one succeeds.
    const refreshAt = failingSince === undefined ? valid()?.refreshAt : undefined
    return Math.max(Math.min(refreshAt ?? -Infinity, keys.newKeyDueAt()), limiter.openAt())
  }

  async function keepFresh(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const wait = refreshDueAt() - clock.monotonic()
      if (wait > 0) await notifier.wait(wait, signal)
      else await abortable((request ?? begin()).promise, signal).catch(() => undefined)
    }
  }

  return {
    get,
    isHeld,
    refused(token, { hasWorked }) {
      if (cached?.former?.token === token) cached.former = undefined
      if (cached?.token !== token) return
      const ageMs = clock.monotonic() - token.obtainedAt
      const keptMs = hasWorked
        ? youngTokenMs
        : Math.min(youngTokenMs * 2 ** Math.max(0, neverWorked - 1), maxYoungTokenMs)
      if (ageMs < keptMs) {
        // A resting token was already rejected together with others.
        if (!hasWorked && clock.monotonic() >= cached.restsUntil)
          cached.restsUntil = clock.monotonic() + Math.max(firstRestMs, Math.min(ageMs, keptMs - ageMs))
        return
      }
      neverWorked = hasWorked ? 0 : neverWorked + 1
      cached = hasWorked ? undefined : living(cached.former)
      voidSince = hasWorked ? undefined : (voidSince ?? clock.monotonic())
      if (!hasWorked) limiter.spend()
      notifier.notify()
    },
    renewed: (token, signal) => (cached === undefined || cached.token === token ? requested(signal) : get(signal)),
    expiresAt: () => (cached === undefined ? undefined : onWallClock(clock, cached.expiresAt)),
    keyProblem: keys.problem,
    trouble,
    probe() {
      limiter.reset()
      notifier.notify()
      return trouble() !== undefined
    },
    async run(signal) {
      const abandon = (): void => {
        // A caller that is finishing its work may still need it.
        if (request?.waiters === 0) request.abort(signal.reason)
      }
      signal.addEventListener('abort', abandon, { once: true })
      await Promise.all([keepFresh(signal), every(keyCheckMs, clock, signal, reloadKey)])
    },
  }
}
