// The token cache on a clock that stands still, with a scripted token endpoint and a key without RSA.
import { expect } from 'vitest'
import type { Random } from '../../src/runtime/clock.ts'
import { TransportError } from '../../src/platform/http/http.ts'
import { createServerClock } from '../../src/platform/server-clock.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import type { SigningKey } from '../../src/platform/auth/private-key.ts'
import {
  createTokenCache,
  type TokenCache,
  type TokenCacheOptions,
  type TokenEvent,
} from '../../src/platform/auth/token.ts'
import { TokenError } from '../../src/platform/auth/token-answer.ts'
import {
  createScriptedServer,
  type Reply,
  type Script,
  type ScriptedServer,
  type SentRequest,
} from './scripted-server.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export interface TokenWorld {
  clock: VirtualClock
  server: ScriptedServer
  key: FakeKeySource
  events: TokenEvent[]
  cache: TokenCache
  /** Runs the cache in the background; ended by the function returned. */
  start: () => () => Promise<void>
}

export const issuer = 'https://auth.example.test/auth/realms/demo'

/** A token; each access_token is another one. */
export function grant(number: number, expiresIn: unknown = 3600): Reply {
  return { body: { access_token: `token-${number}`, token_type: 'Bearer', expires_in: expiresIn, scope: 'api' } }
}

/** Grants each request, with these changes. */
export function grants({ expiresIn, ...changes }: Reply & { expiresIn?: unknown } = {}): Script {
  return (_, number) => ({ ...grant(number, expiresIn), ...changes })
}

export const refusal: Reply = {
  status: 401,
  body: { error: 'invalid_client', error_description: 'Invalid client' },
}
export const outage: Reply = { error: new TransportError('connection', 'ECONNREFUSED') }

/** How a token is invalidated: after calls that succeeded with it, or before any. */
export const worked = { hasWorked: true }
export const refusedAtOnce = { hasWorked: false }

export function formOf({ request }: SentRequest): URLSearchParams {
  return new URLSearchParams(request.body)
}

/** Claims of the assertion. */
export function claimsOf(sent: SentRequest): Record<string, unknown> {
  const [, claims = ''] = (formOf(sent).get('client_assertion') ?? '').split('.')
  return JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, unknown>
}

/** Signs without RSA, in one turn: the tests of time need no threads. */
export function fakeKey(fingerprint = 'f00d'): SigningKey {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  return {
    bits: 4096,
    fingerprint,
    sign: (claims) => Promise.resolve(`${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}.${part(fingerprint)}`),
  }
}

/** Its next reload finds `next`, or throws it. */
export type FakeKeySource = Reloadable<SigningKey> & { next: SigningKey | Error | undefined }

function fakeKeySource(): FakeKeySource {
  let current = fakeKey()
  return {
    next: undefined,
    current: () => current,
    lastReload: () => undefined,
    reload() {
      const { next } = this
      this.next = undefined
      if (next instanceof Error) throw next
      if (next !== undefined) current = next
      return next !== undefined
    },
  }
}

interface Surroundings {
  /** The server's clock is this far ahead. */
  skewMs?: number
  /** Default: always 0.5. */
  random?: Random['next']
}

/** Client `client-1`, scope `api`, assertions of 60 s, a deadline of 10 s, an endpoint that grants. */
export function tokenWorld(changes: Partial<TokenCacheOptions> = {}, surroundings: Surroundings = {}): TokenWorld {
  const { skewMs = 0, random = () => 0.5 } = surroundings
  const clock = createVirtualClock()
  const server = createScriptedServer(clock, skewMs)
  server.replies(grants())
  const key = fakeKeySource()
  const events: TokenEvent[] = []
  let uuids = 0
  const cache = createTokenCache({
    tokenUrl: new URL(`${issuer}/protocol/openid-connect/token`),
    issuer,
    clientId: 'client-1',
    scope: 'api',
    assertionLifetimeMs: 60_000,
    requestTimeoutMs: 10_000,
    key,
    transport: server.transport,
    clock,
    random: { next: random, uuid: () => `uuid-${(uuids += 1)}` },
    serverClock: createServerClock(clock),
    emit: (event) => events.push(event),
    ...changes,
  })
  function start(): () => Promise<void> {
    const controller = new AbortController()
    const running = cache.run(controller.signal)
    return async () => {
      controller.abort(new Error('stopping'))
      await clock.run(running)
      expect(clock.sleepers()).toBe(0)
    }
  }
  return { clock, server, key, events, cache, start }
}

/** The TokenError of a promise that must fail with one. */
export async function errorOf(promise: Promise<unknown>): Promise<TokenError> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof TokenError)) throw new Error('expected a TokenError', { cause: error })
  return error
}
