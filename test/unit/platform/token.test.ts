// The token cache: one request for all callers, renewed in time, calm without a token, exact in what it says, correct about clocks.
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { runScript } from '../../support/script.ts'
import { givenOf } from '../../support/script-parts.ts'
import { claimsOf, fakeKeySource, formOf, issuer, tokenWorld } from '../../support/token-world.ts'

const times = (count: number, step: string): string => Array<string>(count).fill(step).join('; ')

const scripts: Record<string, string> = {
  'a storm of 401 causes one refresh: 200 callers void the same token, the last of them after the new one is there': `
    get -> token-1; replies grant:takes=50ms; wait 10s; ${times(200, 'void token-1; ask; wait 1ms')}; sent -> 2; answers -> token-2 200`,
  'in the background a voided token is replaced before anybody asks':
    'start; get -> token-1; wait 10s; void token-1; sent -> 2; get -> token-2; sent -> 2; stop',
  'the background waits for the request of a caller':
    'replies grant:takes=500ms; ask; start; wait 500ms; sent -> 1; answers -> token-1 1; stop',
  'trouble lasts since its own first failure': `
    replies refusal; get -> rejected invalid_client; wait 60s; get -> rejected invalid_client; trouble -> for 60s
    replies grant; wait 60s; get -> token-3; trouble -> none; wait 1h; replies refusal; get -> rejected invalid_client
    wait 5s; trouble -> for 5s`,
  'a request that a doubt about a held token made in vain is repeated soon': `
    start; replies grant; get -> token-1; replies refusal; doubt token-1; retry -> 0.5s; replies grant; wait 10s
    trouble -> none; stop`,
  'a life is renewed in the background from 60 %':
    'given jitter=0; start; wait 2159.9s; sent -> 1; wait 200ms; sent -> 2; stop',
  'to 70 % of it': 'given jitter=0.999999; start; wait 2519.9s; sent -> 1; wait 200ms; sent -> 2; stop',
  'its end is shown on the host clock, also after a jump of it':
    'expires -> never; get -> token-1; jump -2h 0s; get -> token-1; expires -> 3600s; wait 10s; void token-1; expires -> never',
  ...Object.fromEntries(
    [
      [3600, '2339.999s', '3600s'],
      [20, '12.999s', '20s'],
    ].map(([life, should, must]) => [
      `of ${life} s: callers keep the old token from ${should} on, and wait from ${must} on`,
      `replies grant:expires=${life} grant:expires=${life}:takes=200ms; get -> token-1; wait ${should}; get -> token-1
         sent -> 1; wait 2ms; get -> token-1; sent -> 2; wait 200ms; get -> token-2; wait ${must}
         ask; sent -> 3; answers -> none; wait 200ms; answers -> token-3 1`,
    ]),
  ),
  'a life of a second is no hot loop': 'replies grant:expires=1; start; wait 60s; gaps -> 1; sent -> at most 61; stop',
  'nor one that is over when the answer comes, which is used for a second': `
    replies grant:expires=1:takes=3s; start; ask; wait 3.9s; answers -> token-1 1; get -> token-1; sent -> 1; wait 60s
    gaps -> 4; stop`,
  'a failed refresh with a valid token stops nothing': `
    start; get -> token-1; replies refusal; ${times(59, 'wait 60s; get -> token-1')}; wait 59s; get -> token-1
    wait 2s; get -> rejected invalid_client; stop`,
  'a failure is reported to all who wait, and at once to all who come until the next try': `
    replies refusal:takes=100ms grant; ask 20; wait 100ms; answers -> rejected invalid_client 20
    get -> rejected invalid_client; retry -> 0.5s; sent -> 1; wait 500ms; get -> token-2`,
  'timed out may pass, as may a 401 without a word': `
    replies grant:takes=1h 401; ask; wait 10s; answers -> transient timeout 1; wait 0.5s
    get -> transient unauthorized`,
  'at most 2 tries in 30 s, then full jitter from 1 s doubling to 1 min, for days':
    'given jitter=0.999999; replies outage; start; wait 2d; gaps -> 1 29 4 26 16 32 60; stop',
  'to 5 min while it rejects them':
    'given jitter=0.999999; replies refusal; start; wait 2d; gaps -> 1 29 4 26 16 32 64 128 256 300; stop',
  'a success starts the backoff over': `
    given jitter=0.999999
    replies ${'outage '.repeat(8)}grant outage; ${times(8, 'get -> transient connection; wait 5min')}
    get -> token-9; wait 10s; void token-9; get -> transient connection; retry -> 1s`,
  ...Object.fromEntries(
    [
      ['503:after=7200', 'server-error', 7200],
      ['429', 'throttled', 0.5],
    ].map(([reply, reason, s]) => [
      `after ${reply} the next try is after ${s} s`,
      `replies ${reply} grant; get -> transient ${reason}; retry -> ${s}s; wait ${Number(s) - 0.001}s
         get -> transient ${reason}; sent -> 1; wait 1ms; get -> token-2`,
    ]),
  ),
  'a young token that the API refuses rests before it is tried again, longer each time, however many calls were refused': `
    get -> token-1; refuse token-1; refuse token-1; ask; wait 999ms; answers -> none; wait 1ms; answers -> token-1 1
    refuse token-1; ask; wait 1s; answers -> token-1 1; refuse token-1; ask; wait 1.9s; answers -> none; wait 100ms
    answers -> token-1 1; refuse token-1; ask; wait 4s; answers -> token-1 1; sent -> 1`,
  'meanwhile the one before it is given out, and takes its place when the API does not come to know it': `
    replies grant:expires=100; get -> token-1; wait 65s; ask; answers -> token-1 1; get -> token-2; refuse token-2
    get -> token-1; wait 1s; get -> token-2; wait 9s; refuse token-2; replies outage; get -> token-1; sent -> 3`,
  'but not if it is refused, too': `
    replies grant:expires=100; get -> token-1; wait 65s; ask; answers -> token-1 1
    get -> token-2; refuse token-2; void token-1; ask; answers -> none; wait 1s; answers -> token-2 1`,
  'tokens that the API refuses to the end are not fetched for ever': `
    get -> token-1; wait 10s; refuse token-1; get -> token-2; wait 10s; refuse token-2; get -> rejected unauthorized
    retry -> 20s; sent -> 2; wait 20s; get -> token-3`,
  'a young token that has worked is not void, however often one of several servers rejects it': `
    get -> token-1; void token-1; get -> token-1; wait 9.9s; void token-1; get -> token-1
    wait 100ms; void token-1; get -> token-2; void token-2; get -> token-2; sent -> 2`,
  'a refused token with which a call succeeded, or that is not young, is no failure': `
    get -> token-1; wait 10s; void token-1; get -> token-2; wait 10s; void token-2; get -> token-3; wait 30s; refuse token-3
    get -> token-4; wait 30s; refuse token-4; get -> token-5`,
  'refused tokens and failed tries have one budget': `
    given jitter=0; replies grant outage; get -> token-1; wait 10s; refuse token-1; get -> transient connection
    get -> transient connection; retry -> 30s; sent -> 2`,
  'a host that names its own pauses is asked again after them, whatever else failed: two of three times here': `
    given jitter=0; replies 503:after=1 503:after=1 grant:expires=5; get -> transient server-error; wait 1s
    get -> transient server-error; wait 1s; get -> token-3; wait 4.9s; get -> token-3`,
  'a token that takes longer than its life to be renewed is used to its end': `
    replies grant:expires=12:takes=9.9s; start; ask; wait 9.9s; answers -> token-1 1; wait 2s; get -> token-1
    wait 100ms; ask; wait 8.9s; answers -> token-2 1; stop`,
  'a server that is behind: the refusal is repeated once, at once, with the time corrected': `
    given skewMs=-3600000
    replies judge; get -> token-2; wait 10s; void token-2; wait 20s; get -> token-3; expires -> 3600s; judged -> bad good good; gaps -> 0 30; said -> none`,
  'a server that is set: again': `
    given skewMs=-3600000
    replies judge; get -> token-2; wait 10s; void token-2; jump 0s -50s; wait 20s; get -> token-4; expires -> 3600s
    judged -> bad good bad good; gaps -> 0 30`,
  // The monotonic clock stood still, the host's own was put right.
  'a host that was suspended: again':
    'replies judge; get -> token-1; wait 10s; void token-1; jump 2h 2h; wait 20s; get -> token-3; judged -> good bad good; gaps -> 30 0',
  'a host clock that is set does not matter':
    'replies judge; get -> token-1; wait 10s; void token-1; jump -2h 0s; wait 20s; get -> token-2; expires -> 3600s; judged -> good good',
  'a refusal that stays is not repeated a third time': `
    given jitter=0.999999 skewMs=3600000
    replies refusal; get -> rejected invalid_client; sent -> 2; wait 29.9s; get -> rejected invalid_client; sent -> 2`,
  'a refusal with a Date as expected is not repeated': `
    given jitter=0.999999
    replies refusal; get -> rejected invalid_client; sent -> 1; wait 900ms; get -> rejected invalid_client; sent -> 1`,
  'nor is a failure that may pass': `
    given jitter=0.999999 skewMs=3600000
    replies 500; get -> transient server-error; sent -> 1`,
  'a refusal that spends the budget is not repeated, whatever its Date says': `
    given skewMs=3600000 jitter=0
    replies outage refusal; get -> transient connection; get -> rejected invalid_client; sent -> 2`,
  'a server whose Date is different each time gets no extra tries for ever':
    'given jitter=0.999999; replies anotherDate; start; wait 1d; sent -> at most 299; stop',
  'a key that changes is found within 10 s, reported, and tried at once while the old token works': `
    start; wait 15s; key beef; wait 4.999s; sent -> 1; wait 1ms; sent -> 2; get -> token-2; wait 60s; sent -> 2
    reloads -> {"type":"credential-reloaded","file":"auth.privateKeyFile","fingerprint":"beef","bits":4096} 1; stop`,
  'and ends the backoff': `
    given jitter=0.999999
    replies refusal; start; wait 1003s; replies grant:expires=60; key beef; wait 7s; expires -> 60s; stop`,
  'it is tried next, without a backoff, when the old one is refused meanwhile': `
    given jitter=0.999999 requestTimeoutMs=60000
    replies oldKeyRefused:takes=15s; start; key beef; wait 60s; sent -> 2; gaps -> 15; stop`,
  'or when the old one is granted a token': `
    given jitter=0.999999 requestTimeoutMs=60000
    replies grant:takes=15s; start; key beef; wait 60s; sent -> 2; gaps -> 15; stop`,
  'and the pause that the server asked for':
    'replies 503:after=7200; start; key beef; wait 60s; sent -> 2; gaps -> 10; stop',
  'a new key that is not registered costs no token: the former one signs, and the new one is tried once a minute': `
    replies newKeyRefused:expires=60; start; get -> token-1; problem -> none; key beef; wait 15s; sent -> 2; get -> token-1
    problem -> the platform rejects the key beef: its certificate is not registered; trouble -> none
    wait 25s; get -> token-3; wait 31s; sent -> 4; wait 10s; get -> token-5; said -> rejected new key 2
    replies grant; wait 50s; sent -> 7; problem -> none; replies oldKeyRefused; get -> token-7; wait 10s; void token-7; get -> token-8; stop`,
  'nor does a new certificate for which the program does not sign yet': `
    replies grant:expires=60; start; get -> token-1; certificate beef; wait 15s; problem -> auth.signCommand signs with another key than beef
    trouble -> none; wait 40s; get -> token-2; said -> transient new key 1; wait 30s; said -> transient new key 2
    key beef; wait 70s; problem -> none; stop`,
  'also without a token, at once': `
    given jitter=0.999999
    replies newKeyRefused; get -> token-1; start; key beef; wait 10s; void token-1; get -> token-3; sent -> 3
    said -> rejected new key 1; stop`,
  'when the former one is rejected the new one is next': `
    given jitter=0
    replies newKeyRefused; start; get -> token-1; key beef; wait 45s; replies oldKeyRefused; void token-1
    get -> rejected invalid_client; wait 1s; get -> token-4; stop`,
  'two keys that are both rejected are no hot loop': `
    given jitter=0.999999
    get -> token-1; wait 1s; start; key beef; wait 9s; replies refusal; void token-1; wait 1h; sent -> at most 25; stop`,
  'one that meets an outage is not rejected':
    'start; get -> token-1; key beef; replies outage; wait 10s; problem -> none; stop',
  'also not after the former one was, while the file changed': `
    replies newKeyRefused:expires=60; start; get -> token-1; key beef; wait 10s
    problem -> the platform rejects the key beef: its certificate is not registered; key f00d; wait 20s; problem -> none
    replies oldKeyRefused:takes=9s outage; wait 8s; key cafe; wait 12s; said -> rejected 1, rejected new key 1, transient 1
    problem -> none; stop`,
  'nor is one that takes the place of a rejected new one meanwhile: it is tried at once': `
    given requestTimeoutMs=60000
    replies grant refusal:takes=15s 500; start; get -> token-1; key beef; wait 12s; key cafe; wait 13s; problem -> none; sent -> 3; stop`,
  'one that is put back is used at once': `
    replies newKeyRefused; start; get -> token-1; key beef; wait 10s; sent -> 2; key f00d; wait 70s; sent -> 2
    void token-1; get -> token-3; stop`,
}

test.each(Object.entries(scripts))('%s', async (_, script) => {
  const [given, steps] = givenOf(script, ['jitter', 'requestTimeoutMs', 'skewMs'])
  await runScript(steps, tokenWorld(given).commands)
})

test('the request is the form of the specification; an empty scope is left out', async () => {
  const { cache, server, clock } = tokenWorld()
  await clock.advance(900)
  await cache.get()
  const [sent] = server.sent
  if (sent === undefined) throw new Error('nothing was sent')
  expect(sent.request).toMatchObject({
    method: 'POST',
    url: new URL(`${issuer}/protocol/openid-connect/token`),
    headers: {
      accept: 'application/json',
      'accept-encoding': 'identity',
      'content-type': 'application/x-www-form-urlencoded',
    },
    timeoutMs: 10_000,
    maxBytes: 65_536,
  })
  expect(Object.fromEntries(formOf(sent))).toEqual({
    grant_type: 'client_credentials',
    client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    client_assertion: expect.any(String) as string,
    scope: 'api',
  })
  const iat = Math.floor(clock.now() / 1000) - 5
  const claims = { jti: 'uuid-1', iss: 'client-1', sub: 'client-1', aud: issuer, iat, exp: iat + 60 }
  expect(JSON.stringify(claimsOf(sent))).toBe(JSON.stringify(claims))
  const without = tokenWorld({ scope: '' })
  await without.cache.get()
  expect(without.server.sent.map((one) => formOf(one).has('scope'))).toEqual([false])
})

test("a caller's abort ends its own wait only, and its request serves the next one", async () => {
  const { cache, server, clock, commands } = tokenWorld()
  await runScript('replies grant:takes=500ms', commands)
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
  const token = await tokenWorld().cache.get()
  expect(token.value).toBe('token-1')
  const texts = [inspect(token, { showHidden: true, depth: 5 }), JSON.stringify({ token }), String(token)]
  for (const text of [...texts, JSON.stringify({ ...token }), Object.values(token).join()]) {
    expect(text).not.toContain('token-1')
  }
})

describe('events', () => {
  test('report a request and a refresh, with their times', async () => {
    const { clock, commands, events } = tokenWorld()
    await runScript('replies grant:takes=250ms; ask; wait 250ms; answers -> token-1 1', commands)
    expect(events).toEqual([
      { type: 'token-request', reason: 'ok', seconds: 0.25 },
      { type: 'token-refreshed', result: 'ok', reason: 'ok', expiresInSeconds: 3600 },
    ])
    await runScript('wait 1h; replies refusal; get -> rejected invalid_client', commands)
    expect(events.slice(2)).toMatchObject([
      { type: 'token-request', reason: 'unauthorized' },
      { type: 'token-refreshed', result: 'rejected', description: 'Invalid client', retryInMs: 500, tokenHeld: false },
    ])
    expect(clock.sleepers()).toBe(0)
  })

  test('and the error say why there was no answer, and nothing of a bug below', async () => {
    const { cache, commands, events, server } = tokenWorld()
    server.replies({ error: new TypeError('Bearer secret1') })
    const error = await cache.get().catch((thrown: unknown) => thrown as Error)
    expect(inspect({ error, events })).not.toContain('secret1')
    await runScript('get -> transient other', commands)
    expect(events.map((event) => 'reason' in event && event.reason)).toEqual(['other', 'other'])
    await runScript('wait 1s; replies outage', commands)
    const outage = await cache.get().catch((thrown: unknown) => thrown as Error)
    expect(outage).toMatchObject({ transportCode: 'ECONNREFUSED' })
    expect(events.at(-1)).toMatchObject({ reason: 'connection', code: 'ECONNREFUSED' })
  })

  test('name a key that cannot be used, and strange errors without their text', async () => {
    const key = fakeKeySource()
    const { clock, commands, events } = tokenWorld({ key })
    await runScript('start', commands)
    key.next = new ConfigurationError([{ key: 'auth.privateKeyFile', origin: '/keys/key.pem', message: 'is empty' }])
    await clock.advance(10_000)
    key.next = new Error('secret detail')
    await clock.advance(10_000)
    const problems = events.flatMap((event) => (event.type === 'credential-reload-failed' ? [event.problem] : []))
    expect(problems).toEqual(['auth.privateKeyFile (/keys/key.pem): is empty', 'the file could not be read again'])
    await runScript('stop', commands)
  })

  test.each([
    ['api', 'openid api profile', false],
    ['api', undefined, false],
    ['', 'whatever', false],
    ['api read', 'api', true],
    ['api', 'API', true],
  ])('asked for scope "%s", granted "%s": a missing one (%s), once', async (scope, granted, isMissing) => {
    const { cache, server, clock, events } = tokenWorld({ scope })
    for (const given of [granted, granted, granted, scope]) {
      server.replies({ body: { access_token: 'abc', token_type: 'Bearer', expires_in: 3600, scope: given } })
      const token = await cache.get()
      await clock.advance(10_000)
      cache.refused(token, { hasWorked: true })
    }
    const told = events.filter(({ type }) => type === 'token-scope-missing')
    expect(told).toEqual(isMissing ? [{ type: 'token-scope-missing', requested: scope, granted }] : [])
  })
})

test.each([false, true])(
  'the end ends the background; a request goes on only for a caller that waits (%s)',
  async (waits) => {
    const { cache, server, clock, commands } = tokenWorld()
    await runScript('replies grant:takes=900ms', commands)
    const controller = new AbortController()
    const running = cache.run(controller.signal)
    const waiting = waits ? cache.get() : undefined
    const given = new AbortController()
    cache.get(given.signal).catch(() => undefined)
    given.abort()
    await clock.advance(100)
    controller.abort(new Error('stopping'))
    await expect(running).rejects.toThrow('stopping')
    await clock.settle()
    expect(clock.sleepers()).toBe(waits ? 1 : 0)
    expect(server.sent[0]?.request.signal?.aborted).toBe(!waits)
    if (waiting !== undefined) expect((await clock.run(waiting)).value).toBe('token-1')
  },
)
