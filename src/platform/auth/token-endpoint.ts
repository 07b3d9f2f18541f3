// The token endpoint: signs the assertion and sends one token request. @see docs/platform-api.md "Token request", "Assertion", RFC 7523
import type { Clock, Random } from '../../runtime/clock.ts'
import { TransportError, type HttpResponse, type Reason, type Transport } from '../http/http.ts'
import type { ServerClock } from '../server-clock.ts'
import { clientAssertionType, grantType } from '../wire.ts'
import type { SigningKey } from './private-key.ts'
import { SignCommandError } from './sign-command.ts'
import { readTokenResult, type Refused, type TokenResult } from './token-response.ts'

export interface TokenEndpointOptions {
  tokenUrl: URL
  clientId: string
  /** The audience of the assertion: the OIDC issuer URI of the called environment. */
  issuer: string
  /** Empty: omitted. */
  scope: string
  /** Deadline of one try. */
  requestTimeoutMs: number
  transport: Transport
  clock: Clock
  random: Random
  /** Of the token endpoint's origin. */
  serverClock: ServerClock
}

export interface TokenTry {
  result: TokenResult
  /** Monotonic ms; the start of the token's lifetime. */
  sentAt: number
  /** Change of the server clock's estimate by this response. */
  clockMovedMs: number
}

/** The platform accepts at most ten minutes. */
const assertionLifetimeSeconds = 60

/** A token response has a few kilobytes; a login page may have megabytes. */
const maxResponseBytes = 64 * 1024

/** The result for an assertion that could not be signed. */
function unsigned(error: unknown): Refused {
  const failed = { kind: 'transient', reason: 'other', isUnsigned: true } as const
  if (!(error instanceof SignCommandError))
    return { ...failed, detail: 'the assertion could not be signed with the private key' }
  const { advice, code, message } = error
  return { ...failed, transportCode: code, description: message, detail: message, advice }
}

/**
 * Creates the function that tries once. It rejects only with the signal's reason; failures are results.
 * @param report is called for every HTTP exchange
 * @see docs/platform-api.md "Token request"
 */
export function createTokenEndpoint(
  options: TokenEndpointOptions,
  report: (reason: Reason, seconds: number) => void,
): (key: SigningKey, signal: AbortSignal) => Promise<TokenTry> {
  const { clientId, clock, issuer, random, scope, serverClock } = options

  /** Signs only the claims of the specification. `iat` is never in the server's future. */
  function assertion(key: SigningKey, signal: AbortSignal): Promise<string> {
    const iat = Math.floor(serverClock.earliestNow() / 1000)
    const jti = random.uuid()
    const exp = iat + assertionLifetimeSeconds
    return key.sign({ jti, iss: clientId, sub: clientId, aud: issuer, iat, exp }, signal)
  }

  function send(signed: string, signal: AbortSignal): Promise<HttpResponse> {
    const form = new URLSearchParams({
      grant_type: grantType,
      client_assertion_type: clientAssertionType,
      client_assertion: signed,
      ...(scope !== '' && { scope }),
    })
    return options.transport({
      method: 'POST',
      url: options.tokenUrl,
      headers: {
        accept: 'application/json',
        'accept-encoding': 'identity',
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: form.toString(),
      timeoutMs: options.requestTimeoutMs,
      maxBytes: maxResponseBytes,
      signal,
    })
  }

  async function exchange(signed: string, signal: AbortSignal): Promise<{ result: TokenResult; clockMovedMs: number }> {
    try {
      const response = await send(signed, signal)
      const { movedMs } = serverClock.learn(response)
      return { result: readTokenResult(response, serverClock.now()), clockMovedMs: movedMs }
    } catch (error) {
      signal.throwIfAborted()
      // An unknown error's message is omitted: it may quote the request.
      const { code, reason } = error instanceof TransportError ? error : { code: undefined, reason: 'other' as const }
      return { result: { kind: 'transient', reason, transportCode: code }, clockMovedMs: 0 }
    }
  }

  return async (key, signal) => {
    const signed = await assertion(key, signal).catch(unsigned)
    signal.throwIfAborted()
    const sentAt = clock.monotonic()
    if (typeof signed !== 'string') return { result: signed, sentAt, clockMovedMs: 0 }
    const { result, clockMovedMs } = await exchange(signed, signal)
    report(result.kind === 'granted' ? 'ok' : result.reason, (clock.monotonic() - sentAt) / 1000)
    return { result, sentAt, clockMovedMs }
  }
}
