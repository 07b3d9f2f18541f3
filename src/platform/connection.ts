// The connection to one platform: its servers' clocks, the token, and the client that uses both.
import type { Clock, Random } from '../runtime/clock.ts'
import { createPlatformClient, type PlatformClient, type RequestEvent } from './client.ts'
import type { Reloadable } from './auth/reloadable.ts'
import type { SigningKey } from './auth/private-key.ts'
import type { Transport } from './http/http.ts'
import type { RateLimiter } from './rate-limiter.ts'
import { maxRetryAfterMs } from './http/response.ts'
import { createServerClock, type ServerClock } from './server-clock.ts'
import { createTimeZone, type TimeZone } from './time-zone.ts'
import { createTokenCache, type TokenCache, type TokenEvent } from './auth/token.ts'
import { tokenPath } from './wire.ts'

/** Sections of the configuration; durations in ms. */
export interface ConnectionSettings {
  platform: { baseUrl: string; requestTimeout: number; timeZone: string }
  auth: { issuerUrl: string; clientId: string; scope: string }
  window: { lookback: number }
}

export interface ConnectionOptions {
  clock: Clock
  random: Random
  transport: Transport
  key: Reloadable<SigningKey>
  emit: (event: RequestEvent | TokenEvent) => void
  /** A list call fails if the platform's rate limit requires a longer wait. Default: it waits. */
  maxPauseMs?: number
}

export interface Connection {
  zone: TimeZone
  serverClocks: Readonly<Record<'auth' | 'api', ServerClock>>
  tokens: TokenCache
  /** A client that obeys this rate limiter. */
  client(rate: RateLimiter): PlatformClient
}

/** Creates the parts; makes no call. */
export function createConnection(
  { auth, platform, window }: ConnectionSettings,
  options: ConnectionOptions,
): Connection {
  const { clock, emit, key, random, transport } = options
  const zone = createTimeZone(platform.timeZone)
  // The identity host is asked seldom: what the API's responses show first holds for it, too.
  const identityClock = createServerClock(clock)
  const serverClocks = { auth: identityClock, api: createServerClock(clock, identityClock.wasSuspended) }
  const tokens = createTokenCache({
    tokenUrl: new URL(auth.issuerUrl + tokenPath),
    issuer: auth.issuerUrl,
    clientId: auth.clientId,
    scope: auth.scope,
    requestTimeoutMs: platform.requestTimeout,
    maxRetryAfterMs: maxRetryAfterMs(window.lookback),
    key,
    transport,
    clock,
    random,
    serverClock: serverClocks.auth,
    emit,
  })
  return {
    zone,
    serverClocks,
    tokens,
    client: (rate) =>
      createPlatformClient({
        baseUrl: platform.baseUrl,
        requestTimeoutMs: platform.requestTimeout,
        zone,
        tokens,
        transport,
        rate,
        maxPauseMs: options.maxPauseMs,
        serverClock: serverClocks.api,
        clock,
        random,
        emit,
      }),
  }
}
