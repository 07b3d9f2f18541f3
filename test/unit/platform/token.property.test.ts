// With any answers of the token endpoint, and any events around it: never a hot loop, never two at once, never a hang.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { TransportError } from '../../../src/platform/http/http.ts'
import type { AccessToken } from '../../../src/platform/auth/token.ts'
import { TokenError } from '../../../src/platform/auth/token-answer.ts'
import type { Reply, SentRequest } from '../../support/scripted-server.ts'
import { fakeKey, grant, refusal, refusedAtOnce, tokenWorld, worked } from '../../support/token-world.ts'

const requestTimeoutMs = 10_000

/** What the endpoint does from now on; `wrong` moves its Date each time. */
const replies = {
  good: (number: number) => grant(number),
  short: (number: number) => grant(number, 2),
  refuses: () => refusal,
  wrong: (number: number, now: number) => ({
    ...refusal,
    headers: { date: new Date(now + number * 50_000).toUTCString() },
  }),
  down: () => ({ status: 503 }),
  throttles: () => ({ status: 429, headers: { 'retry-after': '3' } }),
  gone: () => ({ error: new TransportError('connection', 'ECONNRESET') }),
  html: () => ({ body: '<html>access_token</html>' }),
} satisfies Record<string, (number: number, now: number) => Reply>

const moods = Object.keys(replies) as (keyof typeof replies)[]

type Step =
  | { do: 'mood'; mood: keyof typeof replies; delayMs: number }
  | { do: 'advance'; ms: number }
  | { do: 'get' | 'refuse' | 'outlive' | 'new-key' }
  | { do: 'storm'; callers: number }
  | { do: 'jump'; ms: number }

const delayMs = fc.oneof({ weight: 4, arbitrary: fc.nat(3_000) }, fc.constant(requestTimeoutMs + 1))
const ms = fc.oneof(fc.nat(2_000), fc.nat(40_000), fc.nat(4e6))

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('mood' as const), mood: fc.constantFrom(...moods), delayMs }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('advance' as const), ms }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constantFrom('get', 'refuse', 'outlive', 'new-key') }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('storm' as const), callers: fc.integer({ min: 2, max: 20 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('jump' as const), ms: fc.integer({ min: -1e8, max: 1e8 }) }) },
)

const scenario = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 60 }),
  dice: fc.array(fc.double({ min: 0, max: 0.999_999, noNaN: true }), { minLength: 1, maxLength: 8 }),
  background: fc.boolean(),
  skewMs: fc.constantFrom(0, 0, 5_000, -3_600_000),
})

/** Plays a scenario and gives the requests in order, with whether each was answered with a token. */
async function play({
  steps,
  dice,
  background,
  skewMs,
}: typeof scenario extends fc.Arbitrary<infer S> ? S : never): Promise<{ sent: SentRequest; isGood: boolean }[]> {
  let thrown = 0
  const random = (): number => dice[thrown++ % dice.length] ?? 0
  const { cache, clock, key, server } = tokenWorld({ requestTimeoutMs }, { skewMs, random })
  const seen: { sent: SentRequest; isGood: boolean }[] = []
  const asked: Promise<AccessToken | TokenError>[] = []
  let last: AccessToken | undefined

  function behave(mood: keyof typeof replies, delayMs: number): void {
    server.replies((sent, number) => {
      const isGood = (mood === 'good' || mood === 'short') && delayMs < requestTimeoutMs
      seen.push({ sent, isGood })
      return { ...replies[mood](number, server.now()), delayMs }
    })
  }

  function get(): Promise<void> {
    const answer = cache.get().then(
      (token) => (last = token),
      (error: unknown) => {
        if (error instanceof TokenError) return error
        throw error
      },
    )
    asked.push(answer)
    return clock.settle()
  }

  function invalidate(token: AccessToken | undefined, options: { hasWorked: boolean }): void {
    if (token !== undefined) cache.invalidate(token, options)
  }

  async function act(next: Step): Promise<void> {
    if (next.do === 'mood') behave(next.mood, next.delayMs)
    else if (next.do === 'advance') await clock.advance(next.ms)
    else if (next.do === 'jump') clock.jump(next.ms)
    else if (next.do === 'storm') {
      const stale = last
      for (let i = 0; i < next.callers; i++) {
        invalidate(stale, refusedAtOnce)
        await get()
      }
    } else if (next.do === 'get') await get()
    else if (next.do === 'refuse') invalidate(last, refusedAtOnce)
    else if (next.do === 'outlive') invalidate(last, worked)
    else {
      key.next = fakeKey(`key-${seen.length}`)
      await clock.advance(10_000)
    }
  }

  behave('good', 0)
  const controller = new AbortController()
  const running = background ? cache.run(controller.signal) : Promise.resolve()
  for (const next of steps) await act(next)
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
      for (const [i, { sent }] of seen.entries()) {
        const previous = seen[i - 1]?.sent
        if (previous !== undefined) expect(sent.at).toBeGreaterThanOrEqual(previous.endedAt ?? Infinity)
      }
      const failed = seen.filter(({ isGood, sent }) => !isGood && sent.request.signal?.aborted !== true)
      for (let i = 2; i < failed.length; i++) {
        const [first, third] = [failed[i - 2]?.sent, failed[i]?.sent]
        expect((third?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(30_000)
        expect((third?.endedAt ?? 0) - (first?.endedAt ?? 0)).toBeGreaterThanOrEqual(30_000)
      }
    }),
    { numRuns: 150 },
  )
})
