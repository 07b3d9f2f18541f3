// The access token: one for the process, fetched once for all who ask, renewed before it ends, never in a hot loop.
import { ConfigurationError, isAbort } from '../runtime/errors.ts'
import { holdToken, type AccessToken, type HeldToken } from './access-token.ts'
import { foreignText } from './foreign-text.ts'
import type { Reason } from './http.ts'
import { abortable, createNotifier } from '../runtime/notifier.ts'
import type { SigningKey } from './credentials.ts'
import type { Granted, Refused } from './token-answer.ts'
import { explainRefusal, TokenError } from './token-error.ts'
import { createPace } from './token-pace.ts'
import { createTokenRequest, type TokenRequestOptions } from './token-request.ts'

export type { AccessToken } from './access-token.ts'
export { TokenError } from './token-error.ts'

export interface TokenManager {
  /**
   * A valid token; callers share one request. A signal that is aborted ends this caller's wait only.
   * @throws TokenError, at once while backing off; the signal's reason
   */
  get(signal?: AbortSignal): Promise<AccessToken>
  /** Voids that token only: a later one stays. */
  void(token: AccessToken): void
  /** When the token that is held ends or ended: epoch ms by the host's clock as it is now; undefined without one. */
  expiresAt(): number | undefined
  /** Looks whether the key file has changed, and ends the backoff. */
  keyChanged(): void
  /** Renews the token and follows the key file until the signal is aborted; never rejects because of what they say. */
  start(signal: AbortSignal): Promise<void>
}

/** What happened; closed fields, nothing secret in them. */
export type TokenFact =
  /** One HTTP try. */
  | { type: 'token-request'; reason: Reason; seconds: number }
  | { type: 'token-refreshed'; result: 'success'; reason: 'ok'; expiresInSeconds: number }
  | {
      type: 'token-refreshed'
      result: 'rejected' | 'transient'
      reason: Exclude<Reason, 'ok'>
      oauthError: string | undefined
      description: string | undefined
      /** Why no answer came: a code of Node, OpenSSL or undici. */
      transportCode?: string | undefined
      retryInMs: number
      /** True when the old token goes on being used. */
      tokenHeld: boolean
    }
  /** The platform granted another scope than was asked for. Told once per scope. */
  | { type: 'token-scope-missing'; requested: string; granted: string }
  | { type: 'key-reloaded'; bits: number; fingerprint: string }
  /** The key file has changed and can't be used; the old key stays. */
  | { type: 'key-reload-failed'; problem: string }

export interface TokenManagerOptions extends TokenRequestOptions {
  /** Must not throw. */
  report: (fact: TokenFact) => void
  /** How often the key file is looked at, ms. Default 10 s. */
  keyCheckMs?: number
}

interface Request {
  promise: Promise<AccessToken>
  /** Callers that wait for it. */
  waiters: number
  abort(reason: unknown): void
}

const defaultKeyCheckMs = 10_000
/** A refusal is repeated at once only when our idea of the server's time was wrong by more than this. */
const clockMatters = 1000

const tokensVoid: Refused = {
  kind: 'transient',
  reason: 'unauthorized',
  detail: 'the API refuses tokens as soon as they are issued',
}

function nothing(): void {
  // For promises whose failure is told elsewhere.
}

/** The scopes that were asked for and not granted. An answer without a scope grants what was asked. @see RFC 6749 section 5.1 */
function missingScopes(requested: string, granted: string | undefined): string[] {
  if (granted === undefined) return []
  const had = new Set(granted.split(/\s+/))
  return requested.split(/\s+/).filter((scope) => scope !== '' && !had.has(scope))
}

/**
 * Makes the token manager (design section 6). Without `start` it works too: then callers cause every request.
 * @throws RangeError for an assertion lifetime that the platform would refuse
 */
export function createTokenManager(options: TokenManagerOptions): TokenManager {
  const { clock, random, report } = options
  const pace = createPace(clock, random)
  const notifier = createNotifier(clock)
  const tryOnce = createTokenRequest(options, (reason, seconds) => {
    report({ type: 'token-request', reason, seconds })
  })
  let held: HeldToken | undefined
  let request: Request | undefined
  let refused: { answer: Refused; fingerprint: string } | undefined
  /** The key was swapped: try it while the old token still works. */
  let tryNewKey = false
  /** A refusal was repeated with the time corrected; once, until a token comes. */
  let corrected = false
  let scopeTold: string | undefined

  function usable(): HeldToken | undefined {
    return held !== undefined && clock.monotonic() < held.endsAt ? held : undefined
  }

  function onHostClock(monotonic: number): number {
    return clock.now() + monotonic - clock.monotonic()
  }

  function tokenError(): TokenError {
    const answer = refused?.answer ?? tokensVoid
    const message = explainRefusal(answer, refused?.fingerprint ?? options.key.current().fingerprint)
    return new TokenError(message, {
      ...answer,
      retryAt: Math.round(onHostClock(Math.max(pace.openAt(), clock.monotonic()))),
    })
  }

  function accept(answer: Granted, sentAt: number, key: SigningKey): AccessToken {
    const { value, lifetimeMs } = answer
    held = holdToken(value, { lifetimeMs, sentAt, obtainedAt: clock.monotonic(), jitter: random.next() })
    pace.succeeded()
    refused = undefined
    // Swapped while the request was under way: this answer says nothing of the new key.
    if (key === options.key.current()) tryNewKey = false
    corrected = false
    report({ type: 'token-refreshed', result: 'success', reason: 'ok', expiresInSeconds: lifetimeMs / 1000 })
    tellScope(answer.scope)
    return held.token
  }

  function tellScope(scope: string | undefined): void {
    const told = scopeTold
    scopeTold = missingScopes(options.scope, scope).length === 0 ? undefined : scope
    if (scopeTold === undefined || scopeTold === told) return
    report({ type: 'token-scope-missing', requested: options.scope, granted: foreignText(scope ?? '') })
  }

  function refuse(answer: Refused, key: SigningKey): TokenError {
    refused = { answer, fingerprint: key.fingerprint }
    report({
      type: 'token-refreshed',
      result: answer.kind,
      reason: answer.reason,
      oauthError: answer.oauthError,
      description: answer.description,
      transportCode: answer.transportCode,
      retryInMs: Math.max(0, Math.round(pace.openAt() - clock.monotonic())),
      tokenHeld: usable() !== undefined,
    })
    return tokenError()
  }

  async function refresh(signal: AbortSignal): Promise<AccessToken> {
    for (;;) {
      const { answer, sentAt, key, clockMovedMs } = await tryOnce(signal)
      if (answer.kind === 'granted') return accept(answer, sentAt, key)
      pace.failed(answer.retryAfterMs)
      // Swapped while the request was under way: the refusal says nothing of the new key.
      if (key !== options.key.current()) pace.hurry()
      const correctable = answer.kind === 'rejected' && clockMovedMs > clockMatters && !corrected
      if (correctable) {
        corrected = true
        pace.hurry()
      }
      if (!correctable || !pace.allowsOneMore()) throw refuse(answer, key)
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
    promise.catch(nothing)
    request = mine
    return mine
  }

  /** The request under way, or a new one if one may go out now. */
  function shared(): Request | undefined {
    return request ?? (pace.openAt() <= clock.monotonic() ? begin() : undefined)
  }

  async function waitFor(wanted: Request, signal: AbortSignal | undefined): Promise<AccessToken> {
    wanted.waiters += 1
    try {
      return await abortable(wanted.promise, signal)
    } catch (error) {
      const still = usable()
      if (still === undefined || isAbort(error, signal)) throw error
      return still.token
    } finally {
      wanted.waiters -= 1
    }
  }

  async function get(signal?: AbortSignal): Promise<AccessToken> {
    signal?.throwIfAborted()
    const now = clock.monotonic()
    const had = usable()
    if (had !== undefined && now < had.mustRenewAt) {
      if (now >= had.shouldRenewAt) shared()
      return had.token
    }
    const wanted = shared()
    if (wanted !== undefined) return waitFor(wanted, signal)
    if (had !== undefined) return had.token
    throw tokenError()
  }

  async function checkKey(): Promise<void> {
    try {
      if (!(await options.key.reload())) return
      tryNewKey = true
      pace.hurry()
      const { bits, fingerprint } = options.key.current()
      report({ type: 'key-reloaded', bits, fingerprint })
    } catch (error) {
      const problem = error instanceof ConfigurationError ? error.message : 'the key file could not be read again'
      report({ type: 'key-reload-failed', problem })
    }
  }

  /** When the background is to renew next, on the monotonic clock. */
  function dueAt(): number {
    const wantedAt = tryNewKey ? -Infinity : (usable()?.shouldRenewAt ?? -Infinity)
    return Math.max(wantedAt, pace.openAt())
  }

  async function keepFresh(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const wait = dueAt() - clock.monotonic()
      if (wait > 0) await notifier.wait(wait, signal).catch(nothing)
      else await abortable((request ?? begin()).promise, signal).catch(nothing)
    }
  }

  async function followKey(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await clock.sleep(options.keyCheckMs ?? defaultKeyCheckMs, signal).catch((error: unknown) => {
        if (!signal.aborted) throw error
      })
      if (!signal.aborted) await checkKey()
      if (tryNewKey) notifier.notify()
    }
  }

  return {
    get,
    void(token) {
      if (held?.token !== token) return
      held = undefined
      pace.voided()
      notifier.notify()
    },
    expiresAt: () => (held === undefined ? undefined : Math.round(onHostClock(held.endsAt))),
    keyChanged() {
      void checkKey().then(() => {
        pace.hurry()
        if (usable() === undefined || tryNewKey) shared()
        notifier.notify()
      })
    },
    async start(signal) {
      const abandon = (): void => {
        // A caller that is finishing its work may still need it.
        if (request?.waiters === 0) request.abort(signal.reason)
      }
      signal.addEventListener('abort', abandon, { once: true })
      await Promise.all([keepFresh(signal), followKey(signal)])
    },
  }
}
