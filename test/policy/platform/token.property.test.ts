// With any answers of the token endpoint, and any events around it: never a hot loop, never two at once, never a hang.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { TransportError } from '../../../src/platform/http/http.ts'
import { createServerClock } from '../../../src/platform/server-clock.ts'
import { createTokenCache, type AccessToken } from '../../../src/platform/auth/token.ts'
import { TokenError } from '../../../src/platform/auth/token-answer.ts'
import {
  createTokenEndpoint,
  fakeKey,
  fakeKeySource,
  fakeRandom,
  grant,
  type SeenRequest,
  type TokenReply,
} from '../../support/token-endpoint.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const requestTimeoutMs = 10_000

/** What the endpoint does from now on; `wrong` moves its Date each time. */
type Mood = 'good' | 'short' | 'refuses' | 'down' | 'gone' | 'slow' | 'html' | 'throttles' | 'wrong'

type Step =
  | { do: 'mood'; mood: Mood; delayMs: number }
  | { do: 'advance'; ms: number }
  | { do: 'get' | 'refuse' | 'outlive' | 'new-key' }
  | { do: 'storm'; callers: number }
  | { do: 'jump'; ms: number }

const moods: Mood[] = ['good', 'short', 'refuses', 'down', 'gone', 'slow', 'html', 'throttles', 'wrong']

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('mood' as const), mood: fc.constantFrom(...moods), delayMs: fc.nat(3_000) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('advance' as const),
      ms: fc.oneof(fc.nat(2_000), fc.nat(40_000), fc.nat(4e6)),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('get' as const, 'refuse' as const, 'outlive' as const, 'new-key' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('storm' as const), callers: fc.integer({ min: 2, max: 20 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('jump' as const), ms: fc.integer({ min: -1e8, max: 1e8 }) }) },
)

const scenario = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 60 }),
  dice: fc.array(fc.double({ min: 0, max: 0.999_999, noNaN: true }), { minLength: 1, maxLength: 8 }),
  background: fc.boolean(),
  skewMs: fc.constantFrom(0, 0, 5_000, -3_600_000),
})

type Scenario = typeof scenario extends fc.Arbitrary<infer S> ? S : never

function replyOf(mood: Mood, delayMs: number, number: number, now: number): TokenReply {
  switch (mood) {
    case 'good':
      return { ...grant(number), delayMs }
    case 'short':
      return { ...grant(number, 2), delayMs }
    case 'refuses':
      return { status: 401, body: { error: 'invalid_client' }, delayMs }
    case 'wrong':
      return {
        status: 401,
        body: { error: 'invalid_client' },
        delayMs,
        headers: { date: new Date(now + number * 50_000).toUTCString() },
      }
    case 'down':
      return { status: 503, delayMs }
    case 'throttles':
      return { status: 429, headers: { 'retry-after': '3' }, delayMs }
    case 'gone':
      return { error: new TransportError('connection', 'ECONNRESET'), delayMs }
    case 'slow':
      return { delayMs: requestTimeoutMs + 1 }
    case 'html':
      return { body: '<html>access_token</html>', delayMs }
  }
}

/** Plays a scenario and gives the requests in order, with whether each was answered with a token. */
async function play({ steps, dice, background, skewMs }: Scenario): Promise<{ request: SeenRequest; good: boolean }[]> {
  const clock = createVirtualClock()
  const endpoint = createTokenEndpoint(clock, { skewMs })
  const key = fakeKeySource()
  const seen: { request: SeenRequest; good: boolean }[] = []
  const asked: Promise<AccessToken | TokenError>[] = []
  let mood: Mood = 'good'
  let delayMs = 0
  let thrown = 0
  let last: AccessToken | undefined
  endpoint.reply((request, number) => {
    seen.push({ request, good: mood === 'good' || mood === 'short' })
    return replyOf(mood, delayMs, number, endpoint.serverNow())
  })
  const manager = createTokenCache({
    tokenUrl: new URL('https://auth.example.test/token'),
    issuer: 'https://auth.example.test',
    clientId: 'c',
    scope: '',
    assertionLifetimeMs: 60_000,
    requestTimeoutMs,
    key,
    transport: endpoint.transport,
    clock,
    random: fakeRandom(() => dice[thrown++ % dice.length] ?? 0),
    serverClock: createServerClock(clock),
    emit: () => undefined,
  })

  function get(): Promise<void> {
    const answer = manager.get().then(
      (token) => (last = token),
      (error: unknown) => {
        if (error instanceof TokenError) return error
        throw error
      },
    )
    asked.push(answer)
    return clock.settle()
  }

  const happens: { [Do in Step['do']]: (step: Extract<Step, { do: Do }>) => Promise<void> | void } = {
    mood: (next) => {
      ;({ mood, delayMs } = next)
    },
    advance: ({ ms }) => clock.advance(ms),
    get,
    refuse: () => {
      if (last !== undefined) manager.invalidate(last, { hasWorked: false })
    },
    outlive: () => {
      if (last !== undefined) manager.invalidate(last, { hasWorked: true })
    },
    'new-key': () => {
      key.next = fakeKey(`key-${seen.length}`)
      return clock.advance(10_000)
    },
    storm: async ({ callers }) => {
      const stale = last
      for (let i = 0; i < callers; i++) {
        if (stale !== undefined) manager.invalidate(stale, { hasWorked: false })
        await get()
      }
    },
    jump: ({ ms }) => {
      clock.jump(ms)
    },
  }

  const controller = new AbortController()
  const running = background ? manager.run(controller.signal) : Promise.resolve()
  for (const next of steps) await (happens[next.do] as (step: Step) => Promise<void> | void)(next)
  controller.abort(new Error('stopping'))
  await clock.run(running, 1)
  // Two tries and their deadlines: by then each caller has an answer.
  await clock.advance(2 * requestTimeoutMs)
  await Promise.all(asked)
  expect(clock.sleepers()).toBe(0)
  return seen
}

test('at most 2 failed tries in any 30 s, one at a time, and each caller gets an answer', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async (played) => {
      const seen = await play(played)
      for (const [i, { request }] of seen.entries()) {
        const previous = seen[i - 1]?.request
        if (previous !== undefined) expect(request.at).toBeGreaterThanOrEqual(previous.endedAt ?? Infinity)
      }
      const failed = seen.filter(({ good, request }) => !good && request.request.signal?.aborted !== true)
      for (let i = 2; i < failed.length; i++) {
        const [first, third] = [failed[i - 2]?.request, failed[i]?.request]
        expect((third?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(30_000)
        expect((third?.endedAt ?? 0) - (first?.endedAt ?? 0)).toBeGreaterThanOrEqual(30_000)
      }
    }),
    { numRuns: 150 },
  )
})
