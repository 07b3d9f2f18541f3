// The token cache: one request for all callers, renewed in time, silent about secrets, gone when it is stopped.
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { claimsOf, formOf, grant, grants, issuer, tokenWorld, worked } from '../../support/token-world.ts'

describe('the request', () => {
  test('is the form of the specification', async () => {
    const { cache, server, clock } = tokenWorld({ assertionLifetimeMs: 60_900 })
    await clock.advance(900)
    await cache.get()
    const [sent] = server.sent
    if (sent === undefined) throw new Error('nothing was sent')
    const { request } = sent
    expect(request).toMatchObject({ method: 'POST', timeoutMs: 10_000, maxBytes: 65_536 })
    expect(request.headers).toEqual({
      accept: 'application/json',
      'accept-encoding': 'identity',
      'content-type': 'application/x-www-form-urlencoded',
    })
    expect(request.url.href).toBe(`${issuer}/protocol/openid-connect/token`)
    expect(Object.fromEntries(formOf(sent))).toEqual({
      grant_type: 'client_credentials',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: expect.any(String) as string,
      scope: 'api',
    })
    const iat = Math.floor(clock.now() / 1000) - 5
    const claims = { jti: 'uuid-1', iss: 'client-1', sub: 'client-1', aud: issuer, iat, exp: iat + 60 }
    expect(JSON.stringify(claimsOf(sent))).toBe(JSON.stringify(claims))
  })

  test('leaves an empty scope out', async () => {
    const { cache, server } = tokenWorld({ scope: '' })
    await cache.get()
    expect(server.sent.map((sent) => formOf(sent).has('scope'))).toEqual([false])
  })
})

describe('one token for all callers', () => {
  test('a 401 storm causes one refresh: 200 callers void the same token, then get', async () => {
    const { cache, server, clock } = tokenWorld()
    const stale = await cache.get()
    server.replies(grants({ delayMs: 50 }))
    const storm = Array.from({ length: 200 }, async (_, i) => {
      // The 401s come in one by one, the last of them long after the new token is there.
      await clock.sleep(i)
      cache.invalidate(stale, worked)
      return cache.get()
    })
    const tokens = await clock.run(Promise.all(storm))
    expect(server.sent).toHaveLength(2)
    expect(new Set(tokens.map(({ value }) => value))).toEqual(new Set(['token-2']))
  })

  test('in the background a voided token is replaced before anybody asks', async () => {
    const { cache, server, clock, start } = tokenWorld()
    const stop = start()
    await clock.settle()
    cache.invalidate(await cache.get(), worked)
    await clock.settle()
    expect(server.sent).toHaveLength(2)
    expect((await cache.get()).value).toBe('token-2')
    expect(server.sent).toHaveLength(2)
    await stop()
  })

  test('the background waits for the request of a caller', async () => {
    const { cache, server, clock, start } = tokenWorld()
    server.replies(grants({ delayMs: 500 }))
    const asked = cache.get()
    const stop = start()
    await clock.run(asked)
    expect(server.sent).toHaveLength(1)
    await stop()
  })

  test("a caller's abort ends its own wait only, and its request serves the next one", async () => {
    const { cache, server, clock } = tokenWorld()
    server.replies(grants({ delayMs: 500 }))
    const impatient = new AbortController()
    const first = cache.get(impatient.signal)
    const reason = new Error('enough')
    impatient.abort(reason)
    await expect(first).rejects.toBe(reason)
    await expect(cache.get(impatient.signal)).rejects.toBe(reason)
    expect((await clock.run(cache.get())).value).toBe('token-1')
    expect(server.sent).toHaveLength(1)
  })

  test('the token shows itself in no log', async () => {
    const { cache } = tokenWorld()
    const token = await cache.get()
    expect(token.value).toBe('token-1')
    const shown = [
      inspect(token, { showHidden: true, depth: 5 }),
      JSON.stringify({ token }),
      String(token),
      JSON.stringify({ ...token }),
      Object.values(token).join(),
    ]
    for (const text of shown) expect(text).not.toContain('token-1')
  })
})

describe('a life', () => {
  test.each([
    [0, 0.6],
    [0.999_999, 0.7],
  ])('is renewed in the background, jitter %s: at %s of it', async (jitter, part) => {
    const { clock, server, start } = tokenWorld({}, { random: () => jitter })
    const stop = start()
    await clock.advance(3_600_000 * part - 10)
    expect(server.sent).toHaveLength(1)
    await clock.advance(20)
    expect(server.sent).toHaveLength(2)
    await stop()
  })

  test('is shown on the host clock, also after a jump of it', async () => {
    const { cache, clock } = tokenWorld()
    expect(cache.expiresAt()).toBeUndefined()
    const token = await cache.get()
    clock.jump(-7_200_000)
    expect(await cache.get()).toBe(token)
    expect(cache.expiresAt()).toBe(clock.now() + 3_590_000)
    cache.invalidate(token, worked)
    expect(cache.expiresAt()).toBeUndefined()
  })

  test.each([
    [3600, 3_600_000 * 0.65, 3_590_000],
    [20, 13_000, 16_000],
  ])('of %s s: callers keep the old token from %s ms on, wait from %s ms on', async (expiresIn, should, must) => {
    const { cache, server, clock } = tokenWorld()
    server.replies(grants({ expiresIn }), grants({ expiresIn, delayMs: 200 }))
    const old = await cache.get()
    await clock.advance(should - 1)
    expect(await cache.get()).toBe(old)
    expect(server.sent).toHaveLength(1)
    await clock.advance(2)
    expect(await cache.get()).toBe(old)
    await clock.settle()
    expect(server.sent).toHaveLength(2)
    await clock.advance(200)
    expect((await cache.get()).value).toBe('token-2')
    await clock.advance(must)
    const third = cache.get()
    await clock.settle()
    expect(server.sent).toHaveLength(3)
    expect((await clock.run(third)).value).toBe('token-3')
  })

  test.each([
    ['of a second', 0, 50, 61],
    ['that is over when the answer comes', 3_000, 10, 22],
  ])('%s does not become a hot loop', async (_, delayMs, min, max) => {
    const { server, clock, start } = tokenWorld()
    server.replies(grants({ expiresIn: 1, delayMs }))
    const stop = start()
    await clock.advance(60_000)
    expect(server.sent.length).toBeGreaterThan(min)
    expect(server.sent.length).toBeLessThanOrEqual(max)
    await stop()
  })
})

describe('an event reports', () => {
  test('a request and a refresh, with their times', async () => {
    const { cache, server, clock, events } = tokenWorld()
    server.replies(grants({ delayMs: 250 }))
    await clock.run(cache.get())
    expect(events).toEqual([
      { type: 'token-request', reason: 'ok', seconds: 0.25 },
      { type: 'token-refreshed', result: 'success', reason: 'ok', expiresInSeconds: 3600 },
    ])
  })

  test.each([
    ['api', 'openid api profile', false],
    ['api', undefined, false],
    ['', 'whatever', false],
    ['api', 'openid', true],
    ['api read', 'api', true],
    ['api', 'API', true],
  ])('asked for scope "%s", granted "%s": a missing one (%s), once', async (scope, granted, isMissing) => {
    const { cache, server, clock, events } = tokenWorld({ scope })
    server.replies({ body: { access_token: 'abc', token_type: 'Bearer', expires_in: 3600, scope: granted } })
    for (let i = 0; i < 3; i++) {
      cache.invalidate(await cache.get(), worked)
      await clock.advance(1_000)
    }
    const told = events.filter(({ type }) => type === 'token-scope-missing')
    expect(told).toEqual(isMissing ? [{ type: 'token-scope-missing', requested: scope, granted }] : [])
  })
})

describe('the end', () => {
  test.each([false, true])(
    'ends the background; a request goes on only for a caller that waits (%s)',
    async (waits) => {
      const { cache, server, clock } = tokenWorld()
      server.replies({ ...grant(1), delayMs: 900 })
      const controller = new AbortController()
      const running = cache.run(controller.signal)
      const waiting = waits ? cache.get() : undefined
      await clock.advance(100)
      controller.abort(new Error('stopping'))
      await running
      await clock.settle()
      expect(clock.sleepers()).toBe(waits ? 1 : 0)
      expect(server.sent[0]?.request.signal?.aborted).toBe(!waits)
      if (waiting !== undefined) expect((await clock.run(waiting)).value).toBe('token-1')
    },
  )

  test('before the start starts nothing, and a caller still gets a token', async () => {
    const { cache, server, clock } = tokenWorld()
    await cache.run(AbortSignal.abort())
    expect(server.sent).toHaveLength(0)
    expect(clock.sleepers()).toBe(0)
    await expect(cache.get()).resolves.toBeDefined()
  })
})
