// The platform client with the net off: answers are laid out beforehand, and each must be fetched.
import { MockAgent } from 'undici'
import type { Random } from '../../src/runtime/clock.ts'
import { createPlatformClient, type PlatformClient, type RequestEvent } from '../../src/platform/client.ts'
import { createHttpTransport, TransportError } from '../../src/platform/http/http.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import { createRateLimiter, type RateLimiter, type RateReport } from '../../src/platform/rate-limiter.ts'
import { createServerClock } from '../../src/platform/server-clock.ts'
import { TokenError } from '../../src/platform/auth/token-answer.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export interface Reply {
  status?: number
  /** An object is sent as JSON. */
  body?: unknown
  headers?: Record<string, string>
  /** The connection fails with this code instead, after the request was written. */
  breaks?: string
  /** It fails before. */
  unsent?: true
}

export interface SentRequest {
  method: string
  url: string
  headers: Record<string, string>
  body: string | undefined
  /** Monotonic ms. */
  at: number
}

export interface FakeTokens {
  /** Values of the tokens that were voided. */
  voided: string[]
  /** Those of them with which a call had succeeded. */
  hadWorked: string[]
  /** When set, no token can be had. */
  error: TokenError | undefined
  /** How old the present token is made to look. */
  ageMs(ms: number): void
  /** Another one takes its place, as after a refusal of another call. */
  replace(): void
}

export interface ClientUnderTest extends AsyncDisposable {
  client: PlatformClient
  clock: VirtualClock
  rate: RateLimiter
  /** Net number of grants that were taken by class. */
  taken: Record<'retry' | 'list' | 'confirm', number>
  feedback: RateReport[]
  facts: RequestEvent[]
  tokens: FakeTokens
  sent: SentRequest[]
  /** Lays out answers, in the order in which they will be given. */
  replies(...replies: Reply[]): void
  /** Gives this one to all that is asked from now on. */
  always(reply: Reply): void
}

export const noToken = new TokenError('no access token: the network is down', {
  kind: 'transient',
  reason: 'connection',
})

interface ClientTestOptions {
  baseUrl?: string
  maxPerSecond?: number
  random?: Random
}

type Scope = Pick<ReturnType<ReturnType<ReturnType<MockAgent['get']>['intercept']>['reply']>, 'persist'>

const origin = 'https://api.test'

function asText(body: unknown): string {
  if (typeof body === 'string') return body
  return body === undefined ? '' : JSON.stringify(body)
}

export function createClientUnderTest(options: ClientTestOptions = {}): ClientUnderTest {
  const clock = createVirtualClock()
  const agent = new MockAgent()
  agent.disableNetConnect()
  const pool = agent.get(origin)
  const http = createHttpTransport({ clock, connections: 1, dispatcher: agent })
  const sent: SentRequest[] = []
  const facts: RequestEvent[] = []
  const feedback: RateReport[] = []
  const taken = { retry: 0, list: 0, confirm: 0 }
  const rate = createRateLimiter({ clock, maxPerSecond: options.maxPerSecond ?? 1000 })
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
      feedback.push(answer)
      rate.reportResponse(answer)
    },
  }
  let issued = 1
  let token = { value: 'token-1', obtainedAt: clock.monotonic() - 3_600_000 }
  const tokens: FakeTokens = {
    voided: [],
    hadWorked: [],
    error: undefined,
    ageMs(ms) {
      token = { ...token, obtainedAt: clock.monotonic() - ms }
    },
    replace() {
      issued += 1
      token = { value: `token-${issued}`, obtainedAt: clock.monotonic() }
    },
  }

  /** Codes of failures that come after the request was written: MockAgent fails before. */
  const brokenLater = new Set<string>()

  function lay(reply: Reply): Scope {
    const interceptor = pool.intercept({ path: () => true, method: () => true })
    if (reply.breaks !== undefined) {
      if (reply.unsent !== true) brokenLater.add(reply.breaks)
      return interceptor.replyWithError(Object.assign(new Error(), { code: reply.breaks }))
    }
    return interceptor.reply(reply.status ?? 200, asText(reply.body), { headers: reply.headers ?? {} })
  }

  return {
    client: createPlatformClient({
      baseUrl: options.baseUrl ?? `${origin}/v1/instance`,
      requestTimeoutMs: 10_000,
      zone: createTimeZone('UTC'),
      tokens: {
        async get(signal) {
          signal?.throwIfAborted()
          if (tokens.error !== undefined) throw tokens.error
          return Promise.resolve(token)
        },
        invalidate(used, { hasWorked }) {
          tokens.voided.push(used.value)
          if (hasWorked) tokens.hadWorked.push(used.value)
          if (used === token) tokens.replace()
        },
      },
      async transport(request) {
        const { method, url, headers, body } = request
        sent.push({ method, url: url.href, headers, body, at: clock.monotonic() })
        try {
          return await http.transport(request)
        } catch (error) {
          const isLater = error instanceof TransportError && brokenLater.has(error.code)
          throw isLater ? new TransportError(error.reason, error.code) : error
        }
      },
      rate: recording,
      serverClock: createServerClock(clock),
      clock,
      random: options.random ?? { next: () => 0.5, uuid: () => 'unused' },
      emit: (fact) => facts.push(fact),
    }),
    clock,
    rate,
    taken,
    feedback,
    facts,
    tokens,
    sent,
    replies(...replies) {
      for (const reply of replies) lay(reply)
    },
    always(reply) {
      lay(reply).persist()
    },
    async [Symbol.asyncDispose]() {
      agent.assertNoPendingInterceptors()
      await agent.close()
    },
  }
}
