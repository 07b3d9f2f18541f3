// The token cache without a token: calm, exact in what it says, and correct about clocks.
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import type { TokenError } from '../../../src/platform/auth/token-answer.ts'
import type { Reply, Script } from '../../support/scripted-server.ts'
import {
  claimsOf,
  errorOf,
  fakeKey,
  grant,
  grants,
  outage,
  refusal,
  refusedAtOnce,
  tokenWorld,
  worked,
} from '../../support/token-world.ts'

const maxJitter = { random: () => 0.999_999 }

describe('a failed refresh', () => {
  test('with a valid token stops nothing', async () => {
    const { cache, server, clock, events, start } = tokenWorld()
    const stop = start()
    await clock.settle()
    const token = await cache.get()
    server.replies(refusal)
    for (let minute = 1; minute < 60; minute++) {
      await clock.advance(60_000)
      expect(await cache.get()).toBe(token)
    }
    await clock.advance(49_000)
    expect(await cache.get()).toBe(token)
    expect(server.sent.length).toBeGreaterThan(3)
    expect(events).toContainEqual(expect.objectContaining({ type: 'token-refreshed', tokenHeld: true }))
    await clock.advance(2_000)
    await errorOf(cache.get())
    await stop()
  })

  test('is reported to all who wait, and at once to all who come until the next try', async () => {
    const { cache, server, clock } = tokenWorld()
    server.replies({ ...refusal, delayMs: 100 }, grants())
    const errors = await clock.run(Promise.all(Array.from({ length: 20 }, () => errorOf(cache.get()))))
    const rejected = { code: 'TOKEN_REJECTED', kind: 'rejected', oauthError: 'invalid_client' }
    for (const error of errors) expect(error).toMatchObject(rejected)
    expect(await errorOf(cache.get())).toMatchObject({ ...rejected, retryAt: clock.now() + 500 })
    expect(server.sent).toHaveLength(1)
    await clock.advance(500)
    expect((await cache.get()).value).toBe('token-2')
  })

  test.each<[string, Reply, Partial<TokenError>]>([
    [
      'a refusal',
      refusal,
      { kind: 'rejected', reason: 'unauthorized', oauthError: 'invalid_client', description: 'Invalid client' },
    ],
    ['a refusal without a word', { status: 401 }, { kind: 'transient', reason: 'unauthorized' }],
    ['no connection', outage, { kind: 'transient', reason: 'connection', transportCode: 'ECONNREFUSED' }],
    ['no answer in time', { delayMs: 1e9 }, { kind: 'transient', reason: 'timeout' }],
    ['a bug below', { error: new TypeError('Bearer secret1') }, { kind: 'transient', reason: 'other' }],
  ])('says of which kind it is: %s', async (_, reply, expected) => {
    const { cache, server, clock, events } = tokenWorld()
    server.replies(reply)
    const error = await clock.run(errorOf(cache.get()))
    expect(error).toMatchObject(expected)
    expect(error.code).toBe(error.kind === 'rejected' ? 'TOKEN_REJECTED' : 'TOKEN_UNAVAILABLE')
    expect(error.message).not.toContain('secret1')
    const { kind: result, reason } = error
    expect(events).toEqual([
      expect.objectContaining({ type: 'token-request', reason }),
      expect.objectContaining({ type: 'token-refreshed', result, reason, tokenHeld: false }),
    ])
  })

  test('to sign is reported, backed off, and no request', async () => {
    const key = { ...fakeKey(), sign: () => Promise.reject(new Error('key material 123')) }
    const { cache, server, events } = tokenWorld({
      key: { current: () => key, reload: () => false, lastReload: () => undefined },
    })
    const error = await errorOf(cache.get())
    expect(error.message).toMatch(/could not be signed/)
    expect(inspect(error)).not.toContain('key material')
    expect(server.sent).toHaveLength(0)
    expect(events.map(({ type }) => type)).toEqual(['token-refreshed'])
    expect((await errorOf(cache.get())).retryAt).toBeDefined()
  })
})

describe('backing off', () => {
  test('at most 2 tries in 30 s, then full jitter from 1 s doubling to 5 min, for days', async () => {
    const { server, clock, start } = tokenWorld({}, maxJitter)
    server.replies(outage)
    const stop = start()
    await clock.advance(2 * 86_400_000)
    const times = server.sent.map(({ at }) => at)
    const gaps = times.slice(1).map((at, i) => Math.round((at - (times[i] ?? 0)) / 1000))
    expect(gaps.slice(0, 9)).toEqual([1, 29, 4, 26, 16, 32, 64, 128, 256])
    expect(new Set(gaps.slice(9))).toEqual(new Set([300]))
    await stop()
  })

  test('a success starts it over', async () => {
    const { cache, server, clock } = tokenWorld({}, maxJitter)
    server.replies(...Array<Reply>(8).fill(outage), grants(), outage)
    for (let i = 0; i < 8; i++) {
      await errorOf(cache.get())
      await clock.advance(300_000)
    }
    cache.invalidate(await cache.get(), worked)
    expect((await errorOf(cache.get())).retryAt).toBe(clock.now() + 1_000)
  })

  test.each([
    [429, '20', 20_000],
    [503, '7200', 300_000],
    [429, undefined, 500],
    [500, '120', 500],
  ])('honours Retry-After under %s: %s', async (status, value, wait) => {
    const { cache, server, clock, events } = tokenWorld()
    server.replies({ status, headers: value === undefined ? {} : { 'retry-after': value } }, grants())
    expect((await errorOf(cache.get())).retryAt).toBe(clock.now() + wait)
    expect(events.at(-1)).toMatchObject({ type: 'token-refreshed', retryInMs: wait })
    await clock.advance(wait - 1)
    await errorOf(cache.get())
    await clock.advance(1)
    expect((await cache.get()).value).toBe('token-2')
  })

  test('tokens that the API refuses as soon as they are issued are not fetched for ever', async () => {
    const { cache, server, clock } = tokenWorld()
    let refused: TokenError | undefined
    for (let i = 0; i < 1_000; i++) {
      const token = await cache.get().catch((error: unknown) => {
        refused = error as TokenError
      })
      if (token !== undefined) cache.invalidate(token, refusedAtOnce)
      await clock.advance(10)
    }
    expect(server.sent).toHaveLength(2)
    expect(refused).toMatchObject({ kind: 'rejected', reason: 'unauthorized', code: 'TOKEN_REJECTED' })
    expect(refused?.message).toMatch(/the API refuses tokens/)
    await clock.advance(30_000)
    expect((await cache.get()).value).toBe('token-3')
  })

  test.each([
    ['with which a call succeeded', worked, 0],
    ['that is not young', refusedAtOnce, 30_000],
  ])('a refused token %s is no failure', async (_, options, ageMs) => {
    const { cache, server, clock } = tokenWorld()
    for (let i = 0; i < 50; i++) {
      const token = await cache.get()
      await clock.advance(ageMs)
      cache.invalidate(token, options)
    }
    expect(server.sent).toHaveLength(50)
  })

  test('refused tokens and failed tries have one budget', async () => {
    const { cache, server, clock } = tokenWorld({}, { random: () => 0 })
    server.replies(grants(), outage)
    cache.invalidate(await cache.get(), refusedAtOnce)
    await clock.advance(1_000)
    await errorOf(cache.get())
    expect((await errorOf(cache.get())).retryAt).toBe(clock.now() + 29_000)
    expect(server.sent).toHaveLength(2)
  })
})

describe('clocks that differ', () => {
  test.each([
    { what: 'a server that is behind', skewMs: -3_600_000, hostMs: 0, serverMs: 0, granted: [false, true, true] },
    {
      what: 'a server that is set',
      skewMs: -3_600_000,
      hostMs: 0,
      serverMs: -50_000,
      granted: [false, true, false, true],
    },
    // The monotonic clock stood still, the host's own was put right.
    {
      what: 'a host that was suspended',
      skewMs: 0,
      hostMs: 7_200_000,
      serverMs: 7_200_000,
      granted: [true, false, true],
    },
    { what: 'a host clock that is set', skewMs: 0, hostMs: -7_200_000, serverMs: 0, granted: [true, true] },
  ])(
    '$what: a refusal is repeated once, at once, with the time corrected',
    async ({ skewMs, hostMs, serverMs, granted }) => {
      const { cache, server, clock } = tokenWorld({}, { skewMs })
      const seen: boolean[] = []
      // As the platform judges it: no assertion from the future, none that has expired.
      const judge: Script = (sent, number) => {
        const { iat, exp } = claimsOf(sent)
        const now = server.now() / 1000
        const isGood = Number(iat) <= now && now < Number(exp)
        seen.push(isGood)
        return isGood ? grant(number) : refusal
      }
      server.replies(judge)
      cache.invalidate(await cache.get(), worked)
      clock.jump(hostMs)
      server.jump(serverMs)
      await clock.advance(30_000)
      await cache.get()
      expect(seen).toEqual(granted)
      expect(cache.expiresAt()).toBe(clock.now() + 3_590_000)
      expect(new Set(server.sent.map((sent) => claimsOf(sent)['jti'])).size).toBe(granted.length)
      expect(new Set(server.sent.map(({ at }) => at)).size).toBe(2)
    },
  )

  test.each([
    ['that stays is not repeated a third time', 3_600_000, 2, 29_999],
    ['with a Date as expected is not repeated', 0, 1, 999],
  ])('a refusal %s', async (_, skewMs, tries, untilMs) => {
    const { cache, server, clock } = tokenWorld({}, { skewMs, ...maxJitter })
    server.replies(refusal)
    await errorOf(cache.get())
    expect(server.sent).toHaveLength(tries)
    await clock.advance(untilMs)
    await errorOf(cache.get())
    expect(server.sent).toHaveLength(tries)
  })

  test('a refusal that spends the budget is not repeated, whatever its Date says', async () => {
    const { cache, server } = tokenWorld({}, { skewMs: 3_600_000, random: () => 0 })
    server.replies(outage, refusal)
    await errorOf(cache.get())
    await errorOf(cache.get())
    expect(server.sent).toHaveLength(2)
  })

  test('a server whose Date is different each time gets no extra tries for ever', async () => {
    const { server, clock, start } = tokenWorld({}, maxJitter)
    server.replies((_, number) => ({
      ...refusal,
      headers: { date: new Date(clock.now() + (number % 2) * 50_000).toUTCString() },
    }))
    const stop = start()
    await clock.advance(86_400_000)
    expect(server.sent.length).toBeLessThan(300)
    await stop()
  })
})
