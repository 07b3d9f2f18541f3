// The token manager: one request for all, renewed in time, calm when refused, deaf to storms, silent about secrets.
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../../src/errors.ts'
import { TransportError } from '../../../src/platform/http.ts'
import { createSkew } from '../../../src/platform/skew.ts'
import {
  createTokenManager,
  TokenError,
  type AccessToken,
  type TokenFact,
  type TokenManager,
  type TokenManagerOptions,
} from '../../../src/platform/token.ts'
import {
  createTokenEndpoint,
  fakeKey,
  fakeKeySource,
  fakeRandom,
  grant,
  type TokenEndpoint,
  type TokenReply,
} from '../../support/token-endpoint.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

interface World {
  clock: VirtualClock
  endpoint: TokenEndpoint
  key: ReturnType<typeof fakeKeySource>
  facts: TokenFact[]
  manager: TokenManager
  /** The manager in the background; ended by the function returned. */
  start(): () => Promise<void>
}

const issuer = 'https://auth.example.test/auth/realms/demo'

interface Surroundings {
  skewMs?: number
  random?: () => number
}

function world(changes: Partial<TokenManagerOptions> = {}, surroundings: Surroundings = {}): World {
  const { skewMs = 0, random = () => 0.5 } = surroundings
  const clock = createVirtualClock()
  const endpoint = createTokenEndpoint(clock, { skewMs })
  const key = fakeKeySource()
  const facts: TokenFact[] = []
  const manager = createTokenManager({
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
    skew: createSkew(),
    report: (fact) => facts.push(fact),
    ...changes,
  })
  function start(): () => Promise<void> {
    const controller = new AbortController()
    const running = manager.start(controller.signal)
    return async () => {
      controller.abort(new Error('stopping'))
      await clock.run(running)
      expect(clock.sleepers()).toBe(0)
    }
  }
  return { clock, endpoint, key, facts, manager, start }
}

const refusal: TokenReply = { status: 401, body: { error: 'invalid_client', error_description: 'Invalid client' } }
const outage: TokenReply = { error: new TransportError('connection', 'ECONNREFUSED') }

async function errorOf(promise: Promise<unknown>): Promise<TokenError> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof TokenError)) throw new Error('expected a TokenError', { cause: error })
  return error
}

describe('the request', () => {
  test('is the form of the specification', async () => {
    const { manager, endpoint, clock } = world()
    await manager.get()
    const [seen] = endpoint.seen
    expect(seen?.request).toMatchObject({
      method: 'POST',
      timeoutMs: 10_000,
      maxBytes: 65_536,
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
    })
    expect(seen?.request.url.href).toBe(`${issuer}/protocol/openid-connect/token`)
    expect([...(seen?.form ?? [])].map(([name]) => name)).toEqual([
      'grant_type',
      'client_assertion_type',
      'client_assertion',
      'scope',
    ])
    expect(seen?.form.get('grant_type')).toBe('client_credentials')
    expect(seen?.form.get('client_assertion_type')).toBe('urn:ietf:params:oauth:client-assertion-type:jwt-bearer')
    expect(seen?.form.get('scope')).toBe('api')
    const iat = Math.floor(clock.now() / 1000) - 5
    expect(seen?.claims).toMatchObject({ iss: 'client-1', sub: 'client-1', aud: issuer, iat, exp: iat + 60 })
  })

  test('leaves an empty scope out', async () => {
    const { manager, endpoint } = world({ scope: '' })
    await manager.get()
    expect(endpoint.seen[0]?.form.has('scope')).toBe(false)
  })

  test('has a new jti every time', async () => {
    const { manager, endpoint, clock } = world()
    for (let i = 0; i < 5; i++) {
      manager.void(await manager.get())
      await clock.advance(10_000)
    }
    expect(new Set(endpoint.seen.map(({ claims }) => claims['jti'])).size).toBe(5)
  })

  test.each([0, 999, 601_000, Number.NaN])('is not made with an assertion lifetime of %s ms', (assertionLifetimeMs) => {
    expect(() => world({ assertionLifetimeMs })).toThrow(RangeError)
  })
})

describe('one token for all', () => {
  test('200 concurrent callers cause one token request', async () => {
    const { manager, endpoint, clock } = world()
    endpoint.reply((_, number) => ({ ...grant(number), delayMs: 300 }))
    const tokens = await clock.run(Promise.all(Array.from({ length: 200 }, () => manager.get())))
    expect(endpoint.seen).toHaveLength(1)
    expect(new Set(tokens).size).toBe(1)
    expect(tokens[0]?.value).toBe('token-1')
  })

  test('a 401 storm causes one refresh: 200 callers void the same token, then get', async () => {
    const { manager, endpoint, clock } = world()
    const stale = await manager.get()
    endpoint.reply((_, number) => ({ ...grant(number), delayMs: 50 }))
    const storm = Array.from({ length: 200 }, async (_, i) => {
      // The 401s come in one by one, the last of them long after the new token is there.
      await clock.sleep(i)
      manager.void(stale)
      return manager.get()
    })
    const tokens = await clock.run(Promise.all(storm))
    expect(endpoint.seen).toHaveLength(2)
    expect(new Set(tokens.map(({ value }) => value))).toEqual(new Set(['token-2']))
  })

  test('voiding an older token leaves the later one', async () => {
    const { manager, endpoint } = world()
    const first = await manager.get()
    manager.void(first)
    const second = await manager.get()
    manager.void(first)
    expect(await manager.get()).toBe(second)
    expect(endpoint.seen).toHaveLength(2)
  })

  test('in the background a voided token is replaced before anybody asks', async () => {
    const { manager, endpoint, clock, start } = world()
    const stop = start()
    await clock.settle()
    manager.void(await manager.get())
    await clock.settle()
    expect(endpoint.seen).toHaveLength(2)
    expect((await manager.get()).value).toBe('token-2')
    expect(endpoint.seen).toHaveLength(2)
    await stop()
  })

  test("one caller's abort ends its own wait only", async () => {
    const { manager, endpoint, clock } = world()
    endpoint.reply((_, number) => ({ ...grant(number), delayMs: 500 }))
    const impatient = new AbortController()
    const first = manager.get(impatient.signal)
    const others = [manager.get(), manager.get(new AbortController().signal)]
    const reason = new Error('enough')
    impatient.abort(reason)
    await expect(first).rejects.toBe(reason)
    const tokens = await clock.run(Promise.all(others))
    expect(tokens.map(({ value }) => value)).toEqual(['token-1', 'token-1'])
    expect(endpoint.seen).toHaveLength(1)
  })

  test('when the only caller aborts, its request serves the next one', async () => {
    const { manager, endpoint, clock } = world()
    endpoint.reply((_, number) => ({ ...grant(number), delayMs: 500 }))
    const impatient = new AbortController()
    const first = manager.get(impatient.signal)
    impatient.abort(new Error('enough'))
    await expect(first).rejects.toThrow('enough')
    expect((await clock.run(manager.get())).value).toBe('token-1')
    expect(endpoint.seen).toHaveLength(1)
  })

  test('an aborted signal asks for nothing', async () => {
    const { manager, endpoint } = world()
    const reason = new Error('too late')
    await expect(manager.get(AbortSignal.abort(reason))).rejects.toBe(reason)
    expect(endpoint.seen).toHaveLength(0)
  })

  test('the token shows itself in no log', async () => {
    const { manager } = world()
    const token: AccessToken = await manager.get()
    expect(token.value).toBe('token-1')
    const shown = [
      inspect(token, { showHidden: true, depth: 5 }),
      JSON.stringify({ token }),
      JSON.stringify({ ...token }),
      String(token),
      JSON.stringify(structuredClone({ ...token })),
      Object.values(token).join(),
    ]
    for (const text of shown) expect(text).not.toContain('token-1')
    expect(token.obtainedAt).toBeTypeOf('number')
  })
})

describe('a life', () => {
  test.each([
    [0, 0.6],
    [0.999_999, 0.7],
  ])('is renewed in the background, jitter %s: at %s of it', async (jitter, part) => {
    const { clock, endpoint, start } = world({}, { random: () => jitter })
    const stop = start()
    await clock.advance(3_600_000 * part - 10)
    expect(endpoint.seen).toHaveLength(1)
    await clock.advance(20)
    expect(endpoint.seen).toHaveLength(2)
    await stop()
  })

  test('counts from when the request was sent', async () => {
    const { manager, endpoint, clock } = world()
    endpoint.reply((_, number) => ({ ...grant(number, 100), delayMs: 9_000 }))
    const sentAt = clock.now()
    await clock.run(manager.get())
    expect(manager.expiresAt()).toBe(sentAt + 100_000)
  })

  test('is told on the host clock, also after a jump of it', async () => {
    const { manager, clock } = world()
    expect(manager.expiresAt()).toBeUndefined()
    const token = await manager.get()
    clock.jump(-7_200_000)
    expect(manager.expiresAt()).toBe(clock.now() + 3_600_000)
    manager.void(token)
    expect(manager.expiresAt()).toBeUndefined()
  })

  test.each([1e9, -1e9])('is not shortened or lengthened by a jump of the host clock (%s ms)', async (jump) => {
    const { manager, endpoint, clock } = world()
    const token = await manager.get()
    clock.jump(jump)
    expect(await manager.get()).toBe(token)
    await clock.advance(3_589_000)
    expect(endpoint.seen).toHaveLength(1)
  })

  test.each([
    [3600, 3_600_000 * 0.65, 3_590_000],
    [20, 13_000, 16_000],
  ])('of %s s: callers keep the old token from %s ms on, wait from %s ms on', async (seconds, should, must) => {
    const { manager, endpoint, clock } = world()
    endpoint.reply((_, number) => ({ ...grant(number, seconds), delayMs: number === 1 ? 0 : 200 }))
    const old = await manager.get()
    await clock.advance(should - 1)
    expect(await manager.get()).toBe(old)
    expect(endpoint.seen).toHaveLength(1)
    await clock.advance(2)
    expect(await manager.get()).toBe(old)
    await clock.settle()
    expect(endpoint.seen).toHaveLength(2)
    await clock.advance(200)
    const second = await manager.get()
    expect(second.value).toBe('token-2')
    await clock.advance(must)
    const third = manager.get()
    await clock.settle()
    expect(endpoint.seen).toHaveLength(3)
    expect((await clock.run(third)).value).toBe('token-3')
  })

  test('of a second does not become a hot loop', async () => {
    const { endpoint, clock, start } = world()
    endpoint.reply((_, number) => grant(number, 1))
    const stop = start()
    await clock.advance(60_000)
    expect(endpoint.seen.length).toBeGreaterThan(50)
    expect(endpoint.seen.length).toBeLessThanOrEqual(61)
    await stop()
  })

  test('that is over when the answer comes does not become a hot loop', async () => {
    const { manager, endpoint, clock, start } = world()
    endpoint.reply((_, number) => ({ ...grant(number, 1), delayMs: 3_000 }))
    const stop = start()
    expect((await clock.run(manager.get())).value).toBe('token-1')
    await clock.advance(60_000)
    expect(endpoint.seen.length).toBeLessThanOrEqual(22)
    await stop()
  })

  test('of a year is believed for a day', async () => {
    const { manager, endpoint, clock } = world()
    endpoint.reply((_, number) => grant(number, 31_536_000))
    await manager.get()
    expect(manager.expiresAt()).toBe(clock.now() + 86_400_000)
  })
})

describe('a failed refresh', () => {
  test.each([
    ['refused', refusal],
    ['unreachable', outage],
  ])('(%s) with a valid token stops nothing', async (_, failure) => {
    const { manager, endpoint, clock, facts, start } = world()
    const stop = start()
    await clock.settle()
    const token = await manager.get()
    endpoint.reply(failure)
    for (let second = 0; second < 3_599; second++) {
      await clock.advance(1_000)
      expect(await clock.run(manager.get(), 10_000)).toBe(token)
    }
    expect(endpoint.seen.length).toBeGreaterThan(3)
    expect(facts).toContainEqual(expect.objectContaining({ type: 'token-refreshed', tokenHeld: true }))
    await clock.advance(2_000)
    await errorOf(manager.get())
    await stop()
  })

  test('that hangs keeps callers waiting for its deadline only, then gives the old token', async () => {
    const { manager, endpoint, clock } = world({ requestTimeoutMs: 2_000 })
    const token = await manager.get()
    endpoint.reply({ ...grant(2), delayMs: 1e9 })
    await clock.advance(3_592_000)
    const waiting = manager.get()
    await clock.advance(1_999)
    await expect(Promise.race([waiting, Promise.resolve('waiting')])).resolves.toBe('waiting')
    await clock.advance(1)
    expect(await waiting).toBe(token)
  })

  test('is told to all who wait, and at once to all who come until the next try', async () => {
    const { manager, endpoint, clock } = world()
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
    const { manager, endpoint, clock, facts } = world()
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

  test('to sign is told, backed off, and no request', async () => {
    const key = { ...fakeKey(), sign: () => Promise.reject(new Error('key material 123')) }
    const { manager, endpoint, facts } = world({ key: { current: () => key, refresh: () => Promise.resolve(false) } })
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
    const { endpoint, clock, start } = world({}, { random: () => 0.999_999 })
    endpoint.reply(outage)
    const stop = start()
    await clock.advance(2 * 86_400_000)
    const times = endpoint.seen.map(({ at }) => at)
    const gaps = times.slice(1).map((at, i) => Math.round((at - (times[i] ?? 0)) / 1000))
    expect(gaps.slice(0, 9)).toEqual([1, 29, 4, 26, 16, 32, 64, 128, 256])
    expect(new Set(gaps.slice(9))).toEqual(new Set([300]))
    await stop()
  })

  test('with no luck at dice (jitter 0) it is still at most 2 in any 30 s', async () => {
    const { endpoint, clock, start } = world({}, { random: () => 0 })
    endpoint.reply(refusal)
    const stop = start()
    await clock.advance(3_600_000)
    expect(endpoint.seen).toHaveLength(240 + 2)
    for (let i = 2; i < endpoint.seen.length; i++) {
      expect((endpoint.seen[i]?.at ?? 0) - (endpoint.seen[i - 2]?.at ?? 0)).toBeGreaterThanOrEqual(30_000)
    }
    await stop()
  })

  test('a success starts it over', async () => {
    const { manager, endpoint, clock } = world({}, { random: () => 0.999_999 })
    endpoint.reply(outage)
    for (let i = 0; i < 8; i++) {
      await errorOf(manager.get())
      await clock.advance(300_000)
    }
    endpoint.reply((_, number) => grant(number))
    manager.void(await manager.get())
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
    const { manager, endpoint, clock, facts } = world()
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
    const { manager, endpoint, clock } = world()
    let refused: TokenError | undefined
    for (let i = 0; i < 1_000; i++) {
      const token = await manager.get().catch((error: unknown) => {
        refused = error as TokenError
      })
      if (token !== undefined) manager.void(token)
      await clock.advance(10)
    }
    expect(endpoint.seen).toHaveLength(10)
    expect(refused).toMatchObject({ kind: 'transient', reason: 'unauthorized' })
    expect(refused?.message).toMatch(/the API refuses tokens/)
    await clock.advance(30_000)
    expect((await manager.get()).value).toBe('token-11')
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
  test.each([0, 1_900, 5_500, 20_000, 61_000, 3_600_000, 86_400_000 * 400].flatMap((ms) => [ms, -ms]))(
    'by %s ms: the first call gets its token, after one refusal at most',
    async (skewMs) => {
      const { manager, endpoint } = world({}, { skewMs })
      endpoint.reply(judge(endpoint))
      await expect(manager.get()).resolves.toBeDefined()
      expect(endpoint.seen.length).toBeLessThanOrEqual(2)
    },
  )

  test('a refusal that moved the skew is repeated once, at once, corrected, with another jti', async () => {
    const { manager, endpoint, facts } = world({}, { skewMs: -3_600_000 })
    endpoint.reply(judge(endpoint))
    await manager.get()
    const [first, second] = endpoint.seen
    expect(second?.at).toBe(first?.at)
    expect(second?.claims['jti']).not.toBe(first?.claims['jti'])
    expect(Number(first?.claims['iat']) - Number(second?.claims['iat'])).toBeGreaterThan(3_590)
    expect(facts.map((fact) => ('reason' in fact ? fact.reason : fact.type))).toEqual(['unauthorized', 'ok', 'ok'])
  })

  test('a refusal that stays is not repeated a third time', async () => {
    const { manager, endpoint, clock } = world({}, { skewMs: 3_600_000 })
    endpoint.reply(refusal)
    await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(2)
    await clock.advance(29_999)
    await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(2)
  })

  test('a server whose Date is different each time gets no extra tries for ever', async () => {
    const { endpoint, clock, start } = world({}, { random: () => 0.999_999 })
    endpoint.reply((_, number) => ({
      ...refusal,
      headers: { date: new Date(clock.now() + (number % 2) * 50_000).toUTCString() },
    }))
    const stop = start()
    await clock.advance(86_400_000)
    expect(endpoint.seen.length).toBeLessThan(300)
    await stop()
  })

  test('each time that the clocks part the refusal is corrected at once', async () => {
    const { manager, endpoint, clock } = world({}, { skewMs: -3_600_000 })
    endpoint.reply(judge(endpoint))
    manager.void(await manager.get())
    clock.jump(50_000)
    await clock.advance(30_000)
    await expect(manager.get()).resolves.toBeDefined()
    expect(endpoint.seen.map(({ granted }) => granted)).toEqual([false, true, false, true])
  })

  test('a refusal with a Date as expected is not repeated', async () => {
    const { manager, endpoint } = world()
    endpoint.reply(refusal)
    await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(1)
  })

  test('a host clock that is set by two hours while we run: the token comes back by itself', async () => {
    for (const jump of [7_200_000, -7_200_000]) {
      const { manager, endpoint, clock, start } = world()
      endpoint.reply(judge(endpoint))
      const stop = start()
      await clock.advance(1_000)
      clock.jump(jump)
      // The background has half of the token's life to find it out: no caller notices.
      for (let minute = 0; minute < 180; minute++) {
        await clock.advance(60_000)
        await expect(manager.get()).resolves.toBeDefined()
      }
      await stop()
    }
  })
})

describe('a key that changes', () => {
  test('is found by looking every 10 s, told, and tried at once while the old token works', async () => {
    const { manager, endpoint, clock, key, facts, start } = world()
    const stop = start()
    await clock.advance(15_000)
    key.next = fakeKey('beef')
    await clock.advance(4_999)
    expect(endpoint.seen).toHaveLength(1)
    await clock.advance(1)
    expect(facts).toContainEqual({ type: 'key-reloaded', bits: 4096, fingerprint: 'beef' })
    expect(endpoint.seen).toHaveLength(2)
    expect((await manager.get()).value).toBe('token-2')
    await clock.advance(60_000)
    expect(endpoint.seen).toHaveLength(2)
    await stop()
  })

  test('that the platform refuses stops nothing while the old token works', async () => {
    const { manager, endpoint, clock, key, facts, start } = world()
    const stop = start()
    await clock.settle()
    endpoint.reply(refusal)
    key.next = fakeKey('beef')
    await clock.advance(10_000)
    expect(facts.at(-1)).toMatchObject({ type: 'token-refreshed', result: 'rejected', tokenHeld: true })
    expect((await manager.get()).value).toBe('token-1')
    await stop()
  })

  test('ends the backoff', async () => {
    const { manager, endpoint, clock, key, start } = world({}, { random: () => 0.999_999 })
    endpoint.reply(refusal)
    const stop = start()
    await clock.advance(1_003_000)
    const tried = endpoint.seen.length
    endpoint.reply((_, number) => grant(number))
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.settle()
    expect(endpoint.seen).toHaveLength(tried + 1)
    expect((await manager.get()).value).toBe(`token-${tried + 1}`)
    await stop()
  })

  test('keyChanged with the same key ends the backoff too, also for the background', async () => {
    const { manager, endpoint, clock, start } = world({}, { random: () => 0.999_999 })
    endpoint.reply(refusal)
    const stop = start()
    await clock.advance(1_003_000)
    manager.keyChanged()
    await clock.settle()
    expect(endpoint.seen.at(-1)?.at).toBe(clock.monotonic())
    endpoint.reply((_, number) => grant(number))
    await clock.advance(30_000)
    expect(manager.expiresAt()).toBeDefined()
    await stop()
  })

  test('without a background, keyChanged tries at once too', async () => {
    const { manager, endpoint, clock, key } = world({}, { random: () => 0.999_999 })
    endpoint.reply(refusal)
    await errorOf(manager.get())
    endpoint.reply((_, number) => grant(number))
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.settle()
    expect(endpoint.seen).toHaveLength(2)
    expect((await manager.get()).value).toBe('token-2')
  })

  test('and changes, and changes: still 2 failed tries in 30 s', async () => {
    const { manager, endpoint, clock, key, start } = world()
    endpoint.reply(refusal)
    const stop = start()
    for (let i = 0; i < 300; i++) {
      key.next = fakeKey(`key-${i}`)
      manager.keyChanged()
      await clock.advance(100)
    }
    expect(endpoint.seen.length).toBeLessThanOrEqual(3)
    await stop()
  })

  test('while the old one is being refused is tried next, without its backoff', async () => {
    const { manager, endpoint, clock, key } = world({}, { random: () => 0.999_999 })
    endpoint.reply((request, number) => {
      const old = request.form.get('client_assertion')?.endsWith(Buffer.from('"f00d"').toString('base64url'))
      return old === true ? { ...refusal, delayMs: 5_000 } : grant(number)
    })
    const waiting = errorOf(manager.get())
    await clock.advance(1_000)
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.run(waiting)
    expect((await manager.get()).value).toBe('token-2')
  })

  test('while the old one is being granted a token is tried all the same', async () => {
    const { manager, endpoint, clock, key, start } = world()
    endpoint.reply((_, number) => ({ ...grant(number), delayMs: 5_000 }))
    const stop = start()
    await clock.advance(1_000)
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.advance(20_000)
    expect(endpoint.seen).toHaveLength(2)
    await stop()
  })

  test('a pause that the server asked for holds, changed key or not', async () => {
    const { manager, endpoint, clock, key } = world()
    endpoint.reply({ status: 503, headers: { 'retry-after': '60' } })
    await errorOf(manager.get())
    key.next = fakeKey('beef')
    manager.keyChanged()
    await clock.advance(59_999)
    await errorOf(manager.get())
    expect(endpoint.seen).toHaveLength(1)
  })

  test('keyChanged with a good token and the same key asks for nothing', async () => {
    const { manager, endpoint, clock, key, start } = world()
    const stop = start()
    await clock.settle()
    for (let i = 0; i < 100; i++) manager.keyChanged()
    await clock.advance(1_000)
    expect(endpoint.seen).toHaveLength(1)
    expect(key.looks).toBe(100)
    await stop()
  })

  test('and can not be used is told by name; strange errors are told without their text', async () => {
    const { clock, key, facts, start } = world()
    const stop = start()
    key.next = new ConfigurationError([{ key: 'auth.privateKeyFile', origin: '/keys/key.pem', message: 'is empty' }])
    await clock.advance(10_000)
    key.next = new Error('secret detail')
    await clock.advance(10_000)
    expect(facts.filter(({ type }) => type === 'key-reload-failed')).toEqual([
      { type: 'key-reload-failed', problem: 'auth.privateKeyFile (/keys/key.pem): is empty' },
      { type: 'key-reload-failed', problem: 'the key file could not be read again' },
    ])
    await stop()
  })
})

describe('what is told', () => {
  test('a request and a refresh, with their times', async () => {
    const { manager, endpoint, clock, facts } = world()
    endpoint.reply((_, number) => ({ ...grant(number), delayMs: 250 }))
    await clock.run(manager.get())
    expect(facts).toEqual([
      { type: 'token-request', reason: 'ok', seconds: 0.25 },
      { type: 'token-refreshed', result: 'success', reason: 'ok', expiresInSeconds: 3600 },
    ])
  })

  test.each([
    ['api', 'api', false],
    ['api', 'openid api profile', false],
    ['api', undefined, false],
    ['', 'whatever', false],
    ['api', 'openid', true],
    ['api read', 'api', true],
    ['api', 'API', true],
  ])('asked for scope "%s", granted "%s": missing is %s', async (scope, returned, missing) => {
    const { manager, endpoint, clock, facts } = world({ scope })
    endpoint.reply({ body: { access_token: 'abc', token_type: 'Bearer', expires_in: 3600, scope: returned } })
    for (let i = 0; i < 3; i++) {
      manager.void(await manager.get())
      await clock.advance(1_000)
    }
    const told = facts.filter(({ type }) => type === 'token-scope-missing')
    expect(told).toEqual(missing ? [{ type: 'token-scope-missing', requested: scope, granted: returned }] : [])
  })

  test('holds no token, no assertion and no key, whatever the platform sends back', async () => {
    const { manager, endpoint, clock, facts, start } = world()
    const stop = start()
    await clock.settle()
    endpoint.reply(({ form }) => ({
      status: 401,
      body: {
        error: form.get('client_assertion') ?? '',
        error_description: `\u0000 bad: ${form.get('client_assertion') ?? ''} of DE89 3704 0044 0532 0130 00`,
      },
    }))
    const assertions = (): string[] =>
      endpoint.seen.flatMap(({ form }) => form.get('client_assertion')?.split('.') ?? [])
    await clock.advance(4_000_000)
    const error = await errorOf(manager.get())
    const told = JSON.stringify(facts) + inspect(error, { showHidden: true, depth: 9 }) + JSON.stringify(error)
    expect(endpoint.seen.length).toBeGreaterThan(5)
    for (const part of assertions().filter(({ length }) => length > 10)) expect(told).not.toContain(part)
    expect(told).not.toMatch(/eyJ|DE89|token-1/)
    expect(error.description?.length).toBeLessThanOrEqual(200)
    await stop()
  })
})

describe('the end', () => {
  test('ends the background at once, a request that only it wanted too, and leaves nothing behind', async () => {
    const { manager, endpoint, clock } = world()
    endpoint.reply({ ...grant(1), delayMs: 9_000 })
    const controller = new AbortController()
    const running = manager.start(controller.signal)
    await clock.advance(100)
    controller.abort(new Error('stopping'))
    await running
    await clock.settle()
    expect(clock.sleepers()).toBe(0)
    expect(endpoint.seen[0]?.request.signal?.aborted).toBe(true)
  })

  test('leaves a request to the caller that still waits for it', async () => {
    const { manager, endpoint, clock } = world()
    endpoint.reply({ ...grant(1), delayMs: 900 })
    const controller = new AbortController()
    const running = manager.start(controller.signal)
    const waiting = manager.get()
    await clock.advance(100)
    controller.abort(new Error('stopping'))
    await running
    expect((await clock.run(waiting)).value).toBe('token-1')
  })

  test('before the start starts nothing', async () => {
    const { manager, endpoint, clock } = world()
    await manager.start(AbortSignal.abort())
    expect(endpoint.seen).toHaveLength(0)
    expect(clock.sleepers()).toBe(0)
  })

  test('a get after it still works, for what is in flight', async () => {
    const { manager, start } = world()
    await start()()
    await expect(manager.get()).resolves.toBeDefined()
  })
})
