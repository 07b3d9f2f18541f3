// One try to get a token: signs an assertion for this moment, sends it, reads the answer and learns the time from it.
import type { Clock, Random } from '../runtime/clock.ts'
import { isAbort } from '../runtime/errors.ts'
import { buildAssertion } from './assertion.ts'
import { TransportError, type HttpResponse, type Reason, type Transport } from './http.ts'
import type { Reloadable, SigningKey } from './credentials.ts'
import type { ServerClock } from './server-clock.ts'
import { readTokenAnswer, type TokenAnswer } from './token-answer.ts'
import { clientAssertionType, grantType, maxAssertionLifetimeSeconds } from './wire.ts'

export interface TokenRequestOptions {
  tokenUrl: URL
  /** Audience of the assertion. */
  issuer: string
  clientId: string
  /** Empty: left out. */
  scope: string
  /** 1 s to 10 min; a part of a second is dropped. */
  assertionLifetimeMs: number
  /** Total deadline of one try. */
  requestTimeoutMs: number
  key: Reloadable<SigningKey>
  transport: Transport
  clock: Clock
  random: Random
  /** Of the token endpoint's origin. */
  serverClock: ServerClock
}

export interface Tried {
  answer: TokenAnswer
  /** Monotonic clock, ms: a token's life counts from here. */
  sentAt: number
  key: SigningKey
  /** How far the answer moved what is known of the server's time. */
  clockMovedMs: number
}

/** A token answer has a few kilobytes; a page of a portal may have megabytes. */
const maxAnswerBytes = 64 * 1024

function form(scope: string, assertion: string): string {
  return new URLSearchParams({
    grant_type: grantType,
    client_assertion_type: clientAssertionType,
    client_assertion: assertion,
    ...(scope === '' ? {} : { scope }),
  }).toString()
}

/**
 * Makes the function that tries once. It rejects with the signal's reason only: everything else is an answer.
 * @param tell hears of every HTTP exchange
 * @throws RangeError for an assertion lifetime that the platform would refuse
 * @see platform-api.md 4.1, 5.4
 */
export function createTokenRequest(
  options: TokenRequestOptions,
  tell: (reason: Reason, seconds: number) => void,
): (signal: AbortSignal) => Promise<Tried> {
  const { clock, serverClock, issuer, clientId } = options
  const lifetimeSeconds = Math.floor(options.assertionLifetimeMs / 1000)
  if (!(lifetimeSeconds >= 1 && lifetimeSeconds <= maxAssertionLifetimeSeconds)) {
    throw new RangeError(`auth.assertionLifetime: 1 to ${maxAssertionLifetimeSeconds} s, not ${lifetimeSeconds}`)
  }

  function signed(key: SigningKey): Promise<string> {
    const issuedAt = Math.floor(serverClock.earliestNow() / 1000)
    return buildAssertion(key, { clientId, issuer, lifetimeSeconds, issuedAt, jti: options.random.uuid() })
  }

  function send(assertion: string, signal: AbortSignal): Promise<HttpResponse> {
    return options.transport({
      method: 'POST',
      url: options.tokenUrl,
      headers: {
        accept: 'application/json',
        'accept-encoding': 'identity',
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: form(options.scope, assertion),
      timeoutMs: options.requestTimeoutMs,
      maxBytes: maxAnswerBytes,
      signal,
    })
  }

  async function exchange(
    assertion: string,
    signal: AbortSignal,
  ): Promise<{ answer: TokenAnswer; clockMovedMs: number }> {
    try {
      const response = await send(assertion, signal)
      const { movedMs } = serverClock.learn(response)
      return { answer: readTokenAnswer(response, serverClock.now()), clockMovedMs: movedMs }
    } catch (error) {
      if (isAbort(error, signal)) throw error
      // Whatever else was thrown is told by its kind alone: its text is not ours, and may hold the request.
      const answer: TokenAnswer =
        error instanceof TransportError
          ? { kind: 'transient', reason: error.reason, transportCode: error.code }
          : { kind: 'transient', reason: 'other' }
      return { answer, clockMovedMs: 0 }
    }
  }

  return async (signal) => {
    const key = options.key.current()
    const assertion = await signed(key).catch(() => undefined)
    signal.throwIfAborted()
    const sentAt = clock.monotonic()
    if (assertion === undefined) {
      const detail = 'the assertion could not be signed with the private key'
      return { answer: { kind: 'transient', reason: 'other', detail }, sentAt, key, clockMovedMs: 0 }
    }
    const { answer, clockMovedMs } = await exchange(assertion, signal)
    tell(answer.kind === 'granted' ? 'ok' : answer.reason, (clock.monotonic() - sentAt) / 1000)
    return { answer, sentAt, key, clockMovedMs }
  }
}
