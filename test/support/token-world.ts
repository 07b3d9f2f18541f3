// The token manager with a clock that stands still, an endpoint without a network, and a key without RSA.
import { expect } from 'vitest'
import { TransportError } from '../../src/platform/http/http.ts'
import { createServerClock } from '../../src/platform/server-clock.ts'
import {
  createTokenCache,
  type TokenEvent,
  type TokenCache,
  type TokenCacheOptions,
} from '../../src/platform/auth/token.ts'
import { TokenError } from '../../src/platform/auth/token-answer.ts'
import {
  createTokenEndpoint,
  fakeKeySource,
  fakeRandom,
  type TokenEndpoint,
  type TokenReply,
} from './token-endpoint.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

/** A manager in a world of its own. */
export interface World {
  clock: VirtualClock
  endpoint: TokenEndpoint
  key: ReturnType<typeof fakeKeySource>
  facts: TokenEvent[]
  manager: TokenCache
  /** The manager in the background; ended by the function returned. */
  start: () => () => Promise<void>
}

export const issuer = 'https://auth.example.test/auth/realms/demo'

export interface Surroundings {
  /** The server's clock is this far ahead. */
  skewMs?: number
  /** Default: always 0.5. */
  random?: () => number
}

/** Client `client-1`, scope `api`, assertions of 60 s, a deadline of 10 s, an endpoint that grants. */
export function tokenWorld(changes: Partial<TokenCacheOptions> = {}, surroundings: Surroundings = {}): World {
  const { skewMs = 0, random = () => 0.5 } = surroundings
  const clock = createVirtualClock()
  const endpoint = createTokenEndpoint(clock, { skewMs })
  const key = fakeKeySource()
  const facts: TokenEvent[] = []
  const manager = createTokenCache({
    tokenUrl: new URL(`${issuer}/protocol/openid-connect/token`),
    issuer,
    clientId: 'client-1',
    scope: 'api',
    assertionLifetimeMs: 60_000,
    requestTimeoutMs: 10_000,
    key,
    transport: endpoint.transport,
    clock,
    random: fakeRandom(random),
    serverClock: createServerClock(clock),
    emit: (fact) => facts.push(fact),
    ...changes,
  })
  function start(): () => Promise<void> {
    const controller = new AbortController()
    const running = manager.run(controller.signal)
    return async () => {
      controller.abort(new Error('stopping'))
      await clock.run(running)
      expect(clock.sleepers()).toBe(0)
    }
  }
  return { clock, endpoint, key, facts, manager, start }
}

/** How a token is invalidated: after calls that succeeded with it, or before any. */
export const worked = { hasWorked: true }
export const refusedAtOnce = { hasWorked: false }

export const refusal: TokenReply = {
  status: 401,
  body: { error: 'invalid_client', error_description: 'Invalid client' },
}
export const outage: TokenReply = { error: new TransportError('connection', 'ECONNREFUSED') }

/** The TokenError of a promise that must fail with one. */
export async function errorOf(promise: Promise<unknown>): Promise<TokenError> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof TokenError)) throw new Error('expected a TokenError', { cause: error })
  return error
}
