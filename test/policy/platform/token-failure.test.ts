// The token manager when no token is to be had: calm, exact in what it says, and correct about clocks.
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { TransportError } from '../../../src/platform/http/http.ts'
import type { TokenError } from '../../../src/platform/auth/token-answer.ts'
import { fakeKey, grant, type TokenEndpoint, type TokenReply } from '../../support/token-endpoint.ts'
import { errorOf, outage, refusal, refusedAtOnce, tokenWorld, worked } from '../../support/token-world.ts'

describe('a failed refresh', () => {
  test.each([
    ['refused', refusal],
    ['unreachable', outage],
  ])('(%s) with a valid token stops nothing', async (_, failure) => {
    const { manager, endpoint, clock, facts, start } = tokenWorld()
    const stop = start()
    await clock.settle()
    const token = await manager.get()
    endpoint.reply(failure)
    for (let second = 0; second < 3_589; second++) {
      await clock.advance(1_000)
      expect(await clock.run(manager.get(), 10_000)).toBe(token)
    }
    expect(endpoint.seen.length).toBeGreaterThan(3)
    expect(facts).toContainEqual(expect.objectContaining({ type: 'token-refreshed', tokenHeld: true }))
    await clock.advance(2_000)
    await errorOf(manager.get())
    await stop()
  })

  test('is reported to all who wait, and at once to all who come until the next try', async () => {
    const { manager, endpoint, clock } = tokenWorld()
    endpoint.reply({ ...refusal, delayMs: 100 })
    const errors = await clock.run(Promise.all(Array.from({ length: 20 }, () => errorOf(manager.get()))))
    expect(endpoint.seen).toHaveLength(1)
    for (const error of errors)
      expect(error).toMatchObject({ code: 'TOKEN_REJECTED', kind: 'rejected', oauthError: 'invalid_client' })
    const late = await errorOf(manager.get())
    expect(late).toMatchObject({ kind: 'rejected', reason: 'unauthorized', retryAt: clock.now() + 500 })
    expect(endpoint.seen).toHaveLength(1)
    await clock.advance(500)
    endpoint.reply((_, number) => grant(number))
    expect((await manager.get()).value).toBe('token-2')
  })

  test.each<[string, TokenReply, Partial<TokenError>]>([
    [
      'refused',
      refusal,
      { kind: 'rejected', reason: 'unauthorized', oauthError: 'invalid_client', description: 'Invalid client' },
    ],
    ['refused under 200', { body: { error: 'invalid_scope' } }, { kind: 'rejected', oauthError: 'invalid_scope' }],
    ['HTML', { body: '<html>' }, { kind: 'transient', reason: 'invalid-body' }],
    [
      'a redirect',
      { status: 302, headers: { location: 'https://evil.example' } },
      { kind: 'transient', reason: 'redirect' },
    ],
    ['down', { status: 503 }, { kind: 'transient', reason: 'server-error' }],
    ['throttled', { status: 429 }, { kind: 'transient', reason: 'throttled' }],
    ['refused without a word', { status: 401 }, { kind: 'transient', reason: 'unauthorized' }],
    ['no connection', outage, { kind: 'transient', reason: 'connection', code: 'TOKEN_UNAVAILABLE' }],
    ['TLS', { error: new TransportError('tls', 'CERT_HAS_EXPIRED') }, { kind: 'transient', reason: 'tls' }],
    ['too large', { error: new TransportError('too-large', 'TOO_LARGE') }, { kind: 'transient', reason: 'too-large' }],
    ['no answer in time', { delayMs: 1e9 }, { kind: 'transient', reason: 'timeout' }],
    ['a bug below', { error: new TypeError('Bearer secret1') }, { kind: 'transient', reason: 'other' }],
  ])('(%s) says of which kind it is', async (_, reply, expected) => {
    const { manager, endpoint, clock, facts } = tokenWorld()
    endpoint.reply(reply)
    const error = await clock.run(errorOf(manager.get()))
    expect(error).toMatchObject(expected)
    expect(error.message).not.toContain('secret1')
    expect(facts[0]).toMatchObject({ type: 'token-request', reason: error.reason })
    expect(facts[1]).toMatchObject({
      type: 'token-refreshed',
      result: error.kind,
      reason: error.reason,
      tokenHeld: false,
    })
    expect(facts).toHaveLength(2)
  })

  test('to sign is reported, backed off, and no request', async () => {
    const key = { ...fakeKey(), sign: () => Promise.reject(new Error('key material 123')) }
    const { manager, endpoint, facts } = tokenWorld({
      key: { current: () => key, reload: () => false, lastReload: () => undefined },
    })
    const error = await errorOf(manager.get())
    expect(error.message).toMatch(/could not be signed/)
    expect(inspect(error)).not.toContain('key material')
    expect(endpoint.seen).toHaveLength(0)
    expect(facts.map(({ type }) => type)).toEqual(['token-refreshed'])
    expect((await errorOf(manager.get())).retryAt).toBeDefined()
  })
})

describe('backing off', () => {
  test('at most 2 tries in 30 s, then full jitter from 1 s doubling to 5 min, for days', async () => {
    const { endpoint, clock, start } = tokenWorld({}, { random: () => 0.999_999 })
    endpoint.reply(outage)
    const stop = start()
    await clock.advance(2 * 86_400_000)
    const times = endpoint.seen.map(({ at }) => at)
    const gaps = times.slice(1).map((at, i) => Math.round((at - (times[i] ?? 0)) / 1000))
    expect(gaps.slice(0, 9)).toEqual([1, 29, 4, 26, 16, 32, 64, 128, 256])
    expect(new Set(gaps.slice(9))).toEqual(new Set([300]))
    await stop()
  })

  test('a success starts it over', async () => {
    const { manager, endpoint, clock } = tokenWorld({}, { random: () => 0.999_999 })
    endpoint.reply(outage)
    for (let i = 0; i < 8; i++) {
      await errorOf(manager.get())
      await clock.advance(300_000)
    }
    endpoint.reply((_, number) => grant(number))
    manager.invalidate(await manager.get(), worked)
    endpoint.reply(outage)
    const error = await errorOf(manager.get())
    expect(error.retryAt).toBe(clock.now() + 1_000)
  })

  test.each([
    [429, '20', 20_000],
    [503, '120', 120_000],
    [503, '7200', 300_000],
    [429, undefined, 500],
    [500, '120', 500],
  ])('honours Retry-After under %s: %s', async (status, value, wait) => {
    const { manager, endpoint, clock, facts } = tokenWorld()
    endpoint.reply({ status, ...(value === undefined ? {} : { headers: { 'retry-after': value } }) })
    expect((await errorOf(manager.get())).retryAt).toBe(clock.now() + wait)
    expect(facts).toContainEqual(expect.objectContaining({ type: 'token-refreshed', retryInMs: wait }))
    endpoint.reply((_, number) => grant(number))
    await clock.advance(wait - 1)
    await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(1)
    await clock.advance(1)
    expect((await manager.get()).value).toBe('token-2')
  })

  test('tokens that the API refuses as soon as they are issued are not fetched for ever', async () => {
    const { manager, endpoint, clock } = tokenWorld()
    let refused: TokenError | undefined
    for (let i = 0; i < 1_000; i++) {
      const token = await manager.get().catch((error: unknown) => {
        refused = error as TokenError
      })
      if (token !== undefined) manager.invalidate(token, refusedAtOnce)
      await clock.advance(10)
    }
    expect(endpoint.seen).toHaveLength(2)
    expect(refused).toMatchObject({ kind: 'rejected', reason: 'unauthorized', code: 'TOKEN_REJECTED' })
    expect(refused?.message).toMatch(/the API refuses tokens/)
    await clock.advance(30_000)
    expect((await manager.get()).value).toBe('token-3')
  })

  test.each([
    ['with which a call succeeded', worked, 0],
    ['that is not young', refusedAtOnce, 30_000],
  ])('a refused token %s is no failure', async (_, refusal_, ageMs) => {
    const { manager, endpoint, clock } = tokenWorld()
    for (let i = 0; i < 50; i++) {
      const token = await manager.get()
      await clock.advance(ageMs)
      manager.invalidate(token, refusal_)
    }
    expect(endpoint.seen).toHaveLength(50)
  })

  test('refused tokens and failed tries have one budget', async () => {
    const { manager, endpoint, clock } = tokenWorld({}, { random: () => 0 })
    manager.invalidate(await manager.get(), refusedAtOnce)
    endpoint.reply(outage)
    await clock.advance(1_000)
    await errorOf(manager.get())
    const error = await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(2)
    expect(error.retryAt).toBe(clock.now() + 29_000)
  })
})

/** As the platform judges it: no assertion from the future, none that has expired. */
function judge(endpoint: TokenEndpoint): (request: { claims: Record<string, unknown> }, number: number) => TokenReply {
  return ({ claims }, number) => {
    const now = endpoint.serverNow() / 1000
    const good = Number(claims['iat']) <= now && now < Number(claims['exp'])
    return good ? grant(number) : refusal
  }
}

describe('clocks that differ', () => {
  test('a refusal that moved the skew is repeated once, at once, corrected, with another jti', async () => {
    const { manager, endpoint, facts } = tokenWorld({}, { skewMs: -3_600_000 })
    endpoint.reply(judge(endpoint))
    await manager.get()
    const [first, second] = endpoint.seen
    expect(second?.at).toBe(first?.at)
    expect(second?.claims['jti']).not.toBe(first?.claims['jti'])
    expect(Number(first?.claims['iat']) - Number(second?.claims['iat'])).toBeGreaterThan(3_590)
    expect(facts.map((fact) => ('reason' in fact ? fact.reason : fact.type))).toEqual(['unauthorized', 'ok', 'ok'])
  })

  test('a refusal that stays is not repeated a third time', async () => {
    const { manager, endpoint, clock } = tokenWorld({}, { skewMs: 3_600_000 })
    endpoint.reply(refusal)
    await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(2)
    await clock.advance(29_999)
    await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(2)
  })

  test('a server whose Date is different each time gets no extra tries for ever', async () => {
    const { endpoint, clock, start } = tokenWorld({}, { random: () => 0.999_999 })
    endpoint.reply((_, number) => ({
      ...refusal,
      headers: { date: new Date(clock.now() + (number % 2) * 50_000).toUTCString() },
    }))
    const stop = start()
    await clock.advance(86_400_000)
    expect(endpoint.seen.length).toBeLessThan(300)
    await stop()
  })

  test('each time that the server’s clock is set the refusal is corrected at once', async () => {
    const { manager, endpoint, clock } = tokenWorld({}, { skewMs: -3_600_000 })
    endpoint.reply(judge(endpoint))
    manager.invalidate(await manager.get(), worked)
    endpoint.jump(-50_000)
    await clock.advance(30_000)
    await expect(manager.get()).resolves.toBeDefined()
    expect(endpoint.seen.map(({ granted }) => granted)).toEqual([false, true, false, true])
  })

  test('after the host was suspended for hours the refusal is corrected at once', async () => {
    const { manager, endpoint, clock } = tokenWorld()
    endpoint.reply(judge(endpoint))
    manager.invalidate(await manager.get(), worked)
    // The monotonic clock stood still, the host's own was put right.
    clock.jump(7_200_000)
    endpoint.jump(7_200_000)
    await clock.advance(30_000)
    await expect(manager.get()).resolves.toBeDefined()
    expect(endpoint.seen.map(({ granted }) => granted)).toEqual([true, false, true])
  })

  test('a host clock that is set by two hours goes unnoticed', async () => {
    const { manager, endpoint, clock } = tokenWorld()
    endpoint.reply(judge(endpoint))
    manager.invalidate(await manager.get(), worked)
    clock.jump(-7_200_000)
    await clock.advance(30_000)
    await expect(manager.get()).resolves.toBeDefined()
    expect(manager.expiresAt()).toBe(clock.now() + 3_590_000)
    expect(endpoint.seen.map(({ granted }) => granted)).toEqual([true, true])
  })

  test('a refusal with a Date as expected is not repeated', async () => {
    const { manager, endpoint } = tokenWorld()
    endpoint.reply(refusal)
    await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(1)
  })
})
