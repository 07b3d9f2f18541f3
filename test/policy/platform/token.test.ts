// The token manager: one request for all, renewed in time, silent about secrets, gone when asked.
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import type { AccessToken } from '../../../src/platform/auth/token.ts'
import { grant } from '../../support/token-endpoint.ts'
import { issuer, tokenWorld, worked } from '../../support/token-world.ts'

describe('the request', () => {
  test('is the form of the specification', async () => {
    const { manager, endpoint, clock } = tokenWorld({ assertionLifetimeMs: 60_900 })
    await clock.advance(900)
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
    const jti = expect.any(String) as string
    const claims = { jti, iss: 'client-1', sub: 'client-1', aud: issuer, iat, exp: iat + 60 }
    expect(seen?.claims).toEqual(claims)
    expect(Object.keys(seen?.claims ?? {})).toEqual(Object.keys(claims))
  })

  test('leaves an empty scope out', async () => {
    const { manager, endpoint } = tokenWorld({ scope: '' })
    await manager.get()
    expect(endpoint.seen[0]?.form.has('scope')).toBe(false)
  })

  test('has a new jti every time', async () => {
    const { manager, endpoint, clock } = tokenWorld()
    for (let i = 0; i < 5; i++) {
      manager.invalidate(await manager.get(), worked)
      await clock.advance(10_000)
    }
    expect(new Set(endpoint.seen.map(({ claims }) => claims['jti'])).size).toBe(5)
  })
})

describe('one token for all', () => {
  test('a 401 storm causes one refresh: 200 callers void the same token, then get', async () => {
    const { manager, endpoint, clock } = tokenWorld()
    const stale = await manager.get()
    endpoint.reply((_, number) => ({ ...grant(number), delayMs: 50 }))
    const storm = Array.from({ length: 200 }, async (_, i) => {
      // The 401s come in one by one, the last of them long after the new token is there.
      await clock.sleep(i)
      manager.invalidate(stale, worked)
      return manager.get()
    })
    const tokens = await clock.run(Promise.all(storm))
    expect(endpoint.seen).toHaveLength(2)
    expect(new Set(tokens.map(({ value }) => value))).toEqual(new Set(['token-2']))
  })

  test('in the background a voided token is replaced before anybody asks', async () => {
    const { manager, endpoint, clock, start } = tokenWorld()
    const stop = start()
    await clock.settle()
    manager.invalidate(await manager.get(), worked)
    await clock.settle()
    expect(endpoint.seen).toHaveLength(2)
    expect((await manager.get()).value).toBe('token-2')
    expect(endpoint.seen).toHaveLength(2)
    await stop()
  })

  test("one caller's abort ends its own wait only", async () => {
    const { manager, endpoint, clock } = tokenWorld()
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
    const { manager, endpoint, clock } = tokenWorld()
    endpoint.reply((_, number) => ({ ...grant(number), delayMs: 500 }))
    const impatient = new AbortController()
    const first = manager.get(impatient.signal)
    impatient.abort(new Error('enough'))
    await expect(first).rejects.toThrow('enough')
    expect((await clock.run(manager.get())).value).toBe('token-1')
    expect(endpoint.seen).toHaveLength(1)
  })

  test('an aborted signal asks for nothing', async () => {
    const { manager, endpoint } = tokenWorld()
    const reason = new Error('too late')
    await expect(manager.get(AbortSignal.abort(reason))).rejects.toBe(reason)
    expect(endpoint.seen).toHaveLength(0)
  })

  test('the token shows itself in no log', async () => {
    const { manager } = tokenWorld()
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
    const { clock, endpoint, start } = tokenWorld({}, { random: () => jitter })
    const stop = start()
    await clock.advance(3_600_000 * part - 10)
    expect(endpoint.seen).toHaveLength(1)
    await clock.advance(20)
    expect(endpoint.seen).toHaveLength(2)
    await stop()
  })

  test('is shown on the host clock, also after a jump of it', async () => {
    const { manager, clock } = tokenWorld()
    expect(manager.expiresAt()).toBeUndefined()
    const token = await manager.get()
    clock.jump(-7_200_000)
    expect(await manager.get()).toBe(token)
    expect(manager.expiresAt()).toBe(clock.now() + 3_590_000)
    manager.invalidate(token, worked)
    expect(manager.expiresAt()).toBeUndefined()
  })

  test.each([
    [3600, 3_600_000 * 0.65, 3_590_000],
    [20, 13_000, 16_000],
  ])('of %s s: callers keep the old token from %s ms on, wait from %s ms on', async (seconds, should, must) => {
    const { manager, endpoint, clock } = tokenWorld()
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
    const { endpoint, clock, start } = tokenWorld()
    endpoint.reply((_, number) => grant(number, 1))
    const stop = start()
    await clock.advance(60_000)
    expect(endpoint.seen.length).toBeGreaterThan(50)
    expect(endpoint.seen.length).toBeLessThanOrEqual(61)
    await stop()
  })

  test('that is over when the answer comes does not become a hot loop', async () => {
    const { manager, endpoint, clock, start } = tokenWorld()
    endpoint.reply((_, number) => ({ ...grant(number, 1), delayMs: 3_000 }))
    const stop = start()
    expect((await clock.run(manager.get())).value).toBe('token-1')
    await clock.advance(60_000)
    expect(endpoint.seen.length).toBeLessThanOrEqual(22)
    await stop()
  })
})

describe('what is reported', () => {
  test('a request and a refresh, with their times', async () => {
    const { manager, endpoint, clock, facts } = tokenWorld()
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
    const { manager, endpoint, clock, facts } = tokenWorld({ scope })
    endpoint.reply({ body: { access_token: 'abc', token_type: 'Bearer', expires_in: 3600, scope: returned } })
    for (let i = 0; i < 3; i++) {
      manager.invalidate(await manager.get(), worked)
      await clock.advance(1_000)
    }
    const told = facts.filter(({ type }) => type === 'token-scope-missing')
    expect(told).toEqual(missing ? [{ type: 'token-scope-missing', requested: scope, granted: returned }] : [])
  })
})

describe('the end', () => {
  test('ends the background at once, a request that only it wanted too, and leaves nothing behind', async () => {
    const { manager, endpoint, clock } = tokenWorld()
    endpoint.reply({ ...grant(1), delayMs: 9_000 })
    const controller = new AbortController()
    const running = manager.run(controller.signal)
    await clock.advance(100)
    controller.abort(new Error('stopping'))
    await running
    await clock.settle()
    expect(clock.sleepers()).toBe(0)
    expect(endpoint.seen[0]?.request.signal?.aborted).toBe(true)
  })

  test('leaves a request to the caller that still waits for it', async () => {
    const { manager, endpoint, clock } = tokenWorld()
    endpoint.reply({ ...grant(1), delayMs: 900 })
    const controller = new AbortController()
    const running = manager.run(controller.signal)
    const waiting = manager.get()
    await clock.advance(100)
    controller.abort(new Error('stopping'))
    await running
    expect((await clock.run(waiting)).value).toBe('token-1')
  })

  test('before the start starts nothing', async () => {
    const { manager, endpoint, clock } = tokenWorld()
    await manager.run(AbortSignal.abort())
    expect(endpoint.seen).toHaveLength(0)
    expect(clock.sleepers()).toBe(0)
  })

  test('a get after it still works, for what is in flight', async () => {
    const { manager, start } = tokenWorld()
    await start()()
    await expect(manager.get()).resolves.toBeDefined()
  })
})
