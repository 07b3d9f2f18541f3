// The platform client against a scripted server, with tokens and a rate limiter that keep books.
import type { Random } from '../../src/runtime/clock.ts'
import { createPlatformClient, type PlatformClient, type RequestEvent } from '../../src/platform/client.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import { createRateLimiter, type RateLimiter, type RateReport } from '../../src/platform/rate-limiter.ts'
import { createServerClock } from '../../src/platform/server-clock.ts'
import { TokenError } from '../../src/platform/auth/token-response.ts'
import { createScriptedServer, type ScriptedServer } from './scripted-server.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export interface FakeTokens {
  /** Values of the tokens that were voided. */
  voided: string[]
  /** Those of them with which a call had succeeded. */
  hadWorked: string[]
  /** When set, no token can be had. */
  error: TokenError | undefined
  /** Another one takes its place, as after a refusal of another call. */
  replace(): void
}

export interface ClientUnderTest {
  client: PlatformClient
  clock: VirtualClock
  server: ScriptedServer
  rate: RateLimiter
  /** Net number of grants that were taken by class. */
  taken: Record<'retry' | 'list' | 'confirm', number>
  reports: RateReport[]
  events: RequestEvent[]
  tokens: FakeTokens
}

export const noToken = new TokenError('no access token: the network is down', {
  kind: 'transient',
  reason: 'connection',
})

interface ClientTestOptions {
  baseUrl?: string
  maxPerSecond?: number
  random?: Random['next']
  maxPauseMs?: number
}

/** Below `https://api.test/v1/instance`, with a token that is an hour old. */
export function createClientUnderTest(options: ClientTestOptions = {}): ClientUnderTest {
  const { baseUrl = 'https://api.test/v1/instance', maxPerSecond = 1000, random = () => 0.5 } = options
  const clock = createVirtualClock()
  const server = createScriptedServer(clock)
  const events: RequestEvent[] = []
  const reports: RateReport[] = []
  const taken = { retry: 0, list: 0, confirm: 0, books: 0 }
  const rate = createRateLimiter({ clock, maxPerSecond })
  const recording: RateLimiter = {
    ...rate,
    async acquire(kind, signal) {
      await rate.acquire(kind, signal)
      taken[kind] += 1
    },
    release(kind) {
      taken[kind] -= 1
      rate.release(kind)
    },
    reportResponse(answer) {
      reports.push(answer)
      rate.reportResponse(answer)
    },
  }
  let issued = 1
  let token = { value: 'token-1', obtainedAt: clock.monotonic() }
  const tokens: FakeTokens = {
    voided: [],
    hadWorked: [],
    error: undefined,
    replace() {
      token = { value: `token-${(issued += 1)}`, obtainedAt: clock.monotonic() }
    },
  }

  const client = createPlatformClient({
    baseUrl,
    requestTimeoutMs: 10_000,
    zone: createTimeZone('UTC'),
    tokens: {
      get(signal) {
        signal?.throwIfAborted()
        return tokens.error === undefined ? Promise.resolve(token) : Promise.reject(tokens.error)
      },
      isHeld: () => tokens.error === undefined,
      refused(used, { hasWorked }) {
        tokens.voided.push(used.value)
        if (hasWorked) tokens.hadWorked.push(used.value)
        if (used === token) tokens.replace()
      },
      renewed(used) {
        if (tokens.error !== undefined) return Promise.reject(tokens.error)
        if (used === token) tokens.replace()
        return Promise.resolve(token)
      },
    },
    transport: server.transport,
    rate: recording,
    maxPauseMs: options.maxPauseMs,
    serverClock: createServerClock(clock),
    clock,
    random: { next: random, uuid: () => 'unused' },
    emit: (event) => events.push(event),
  })
  return { client, clock, server, rate, taken, reports, events, tokens }
}
