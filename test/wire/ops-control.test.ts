// The operator's commands over real HTTP: taken with the token and from this host, and refused in every other case.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import type { AccessOptions, ControlSecrets } from '../../src/ops/access.ts'
import { createControl, type Control } from '../../src/ops/control.ts'
import { createPause } from '../../src/reconcile/retry/operator-pause.ts'
import {
  aControl,
  ask,
  closed,
  command,
  dial,
  proof,
  startTestControl,
  team,
  token,
  type Command,
  type RunningControl,
} from '../support/ops-server.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const since = '2026-01-15T12:00:00.000Z'
const head = `Host: x\r\nAuthorization: Bearer ${token}\r\n`
const other = '123e4567-e89b-42d3-a456-426614174000'
const paths = ['/-/pause', '/-/resume', '/-/probe']

test('pause and resume answer with what is so now, and whether it was so before; probe with its counts', async () => {
  await using control = await startTestControl()
  const say = async (path: string): Promise<unknown> => {
    const { status, headers, body } = await command(control.port, path)
    expect(status).toBe(200)
    expect(headers).toMatchObject({ 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' })
    return JSON.parse(body)
  }
  const pause = { subscriptionId: null, since, until: null, reason: null }
  const free = { instance: 'payments', paused: false, ...pause, since: null, pauses: [] }
  const held = { instance: 'payments', paused: true, ...pause, pauses: [pause] }
  expect(await say('/-/resume')).toEqual({ ...free, changed: false })
  expect(await say('/-/pause')).toEqual({ ...held, changed: true })
  await control.clock.advance(60_000)
  expect(await say('/-/pause')).toEqual({ ...held, changed: false })
  expect(control.pause.list()).toMatchObject([{ since: Date.parse(since) }])
  expect(await say('/-/resume')).toEqual({ ...free, changed: true })
  expect(control.pause.list()).toEqual([])
  expect(await say('/-/probe')).toEqual({ instance: 'payments', circuits: 1, underWay: 0, platform: false })
  const kept = (): Promise<boolean> => Promise.resolve(true)
  Object.assign(control.pause, { outlivesRestart: true, pause: kept, resume: kept })
  for (const path of ['/-/pause', '/-/resume'])
    expect(await say(path)).toMatchObject({ changed: true, outlivesRestart: true })
  Object.assign(control.pause, { pause: () => Promise.resolve({ problem: 'Not confirmed' }) })
  expect(await command(control.port, '/-/pause')).toMatchObject({
    status: 503,
    body: expect.stringContaining('Not confirmed') as string,
  })
})

test('a command shows at once in answers that are otherwise shared for a second; a refused one renews none', async () => {
  let made = 0
  const metrics = (): Promise<string> => Promise.resolve(`made ${(made += 1)}\n`)
  await using control = await startTestControl({ metrics })
  const scrape = async (): Promise<string> => (await ask(control.port, '/metrics')).body
  expect(await scrape()).toBe('made 1\n')
  await command(control.port, '/-/pause', { authorization: 'Bearer no' })
  expect(await scrape()).toBe('made 1\n')
  await command(control.port, '/-/pause')
  expect(await scrape()).toBe('made 2\n')
})

describe('a body', () => {
  const say = async (control: RunningControl, path: string, body: object | string): Promise<unknown[]> => {
    const answer = await command(control.port, path, { body: typeof body === 'string' ? body : JSON.stringify(body) })
    return [answer.status, JSON.parse(answer.body) as unknown]
  }

  test('pauses a subscription by name or id, until an end, for a reason; what was said last holds', async () => {
    await using control = await startTestControl()
    const until = '2026-01-15T14:00:00.000Z'
    const pause = { subscriptionId: team, since, until, reason: 'INC-7' }
    const wish = { subscription: 'payments-eu', for: '2h', reason: ' INC-7 ' }
    const held = { ...pause, paused: true, changed: true, pauses: [pause] }
    expect(await say(control, '/-/pause', wish)).toEqual([200, { instance: 'payments', ...held }])
    expect(await say(control, '/-/resume', {})).toMatchObject([200, { paused: false, changed: false, pauses: [pause] }])
    const endless = { ...pause, until: null, reason: null }
    const again = await say(control, '/-/pause', { subscription: team.toUpperCase() })
    expect(again).toMatchObject([200, { ...endless, changed: true }])
    expect(await say(control, '/-/pause', {})).toMatchObject([200, { pauses: [endless, { subscriptionId: null }] }])
    const resumed = await say(control, '/-/resume', { subscription: 'payments-eu' })
    expect(resumed).toMatchObject([200, { subscriptionId: team, paused: false, pauses: [{ subscriptionId: null }] }])
  })

  test.each<[string, object | string, string]>([
    ['/-/pause', { until: '2h' }, 'There is no field "until": known are subscription, for, reason.'],
    ['/-/resume', { for: '2h' }, 'There is no field "for": known are subscription.'],
    ['/-/probe', { now: 'x' }, 'There is no field "now": known are none.'],
    ['/-/pause', { __proto__: null, constructor: 'x' }, 'There is no field "constructor"'],
    ['/-/pause', '{', 'Invalid JSON body'],
    ['/-/pause', '[]', 'The body: a JSON object.'],
    ['/-/pause', 'null', 'The body: a JSON object.'],
    ['/-/pause', { for: 7200 }, 'for: a text'],
    ['/-/pause', { for: '2 hours' }, 'for: a duration such as 30m'],
    ['/-/pause', { for: '0s' }, 'for: a duration such as 30m'],
    ['/-/pause', { for: '367d' }, 'at most a year'],
    ['/-/pause', { reason: ' ' }, 'reason: 1 to 200 characters'],
    ['/-/pause', { reason: 'x'.repeat(201) }, 'reason: 1 to 200 characters'],
    ['/-/pause', { reason: 'a\nb' }, 'on one line'],
    [
      '/-/pause',
      { subscription: 'nobody' },
      'subscription: an id (a whole UUID, as explain shows it), or a name of subscriptions in the configuration: payments-eu',
    ],
    ['/-/resume', { subscription: '' }, 'subscription: an id'],
  ])('%s with %j: 400 with the field and what is allowed, nothing done', async (path, body, error) => {
    await using control = await startTestControl()
    expect(await say(control, path, body)).toEqual([400, { error: expect.stringContaining(error) as string }])
    expect([control.pause.list(), control.probes()]).toEqual([[], 0])
  })

  test('no more than 100 subscriptions are paused one by one; one of them again, and all, can be', async () => {
    await using control = await startTestControl()
    for (let index = 0; index < 100; index += 1)
      control.pause.pause({ subscriptionId: index === 0 ? other : `id ${index}` })
    const refused = await say(control, '/-/pause', { subscription: team })
    expect(refused).toMatchObject([400, { error: expect.stringContaining('pause all') as string }])
    expect(control.pause.list()).toHaveLength(100)
    expect(await say(control, '/-/pause', { subscription: other, reason: 'INC-7' })).toMatchObject([200, {}])
    expect(await say(control, '/-/pause', {})).toMatchObject([200, {}])
    expect(control.pause.list()).toHaveLength(101)
  })
})

describe('without the token', () => {
  test.each<[string, string | undefined]>([
    ['nothing', undefined],
    ['an empty token', 'Bearer '],
    ['another token', `Bearer ${token.slice(0, -1)}e`],
    ['the beginning of it', `Bearer ${token.slice(0, -1)}`],
    ['more than it', `Bearer ${token}x`],
    ['another case', `Bearer ${token.toLowerCase()}`],
    ['another scheme', `Token ${token}`],
    ['no scheme', token],
    ['other bytes', `Bearer \xe4${token}`],
    ['the beginning of the proof', `Bearer ${proof.slice(0, -1)}`],
  ])('%s: 401, and nothing happens', async (_, authorization) => {
    await using control = await startTestControl()
    for (const path of paths) {
      const answer = await command(control.port, path, { authorization })
      expect(answer).toMatchObject({ status: 401, headers: { 'www-authenticate': 'Bearer', connection: 'close' } })
      expect(answer.body).not.toContain('CANARY')
      // What helps is not taken for a secret.
      expect(answer.body).not.toContain('[')
    }
    expect([control.pause.list(), control.probes()]).toEqual([[], 0])
  })

  test('a token in the query or in a cookie does not count', async () => {
    await using control = await startTestControl()
    const headers = { cookie: `authorization=Bearer ${token}`, 'x-authorization': `Bearer ${token}` }
    const answer = await command(control.port, `/-/pause?access_token=${token}`, { authorization: undefined, headers })
    expect(answer.status).toBe(401)
    expect(control.pause.list()).toEqual([])
  })
})

describe('from another host', () => {
  /** A request as the server gets it: no host has every address, so only the address is made up here. */
  function requestFrom(
    remoteAddress: string | undefined,
    authorization = `Bearer ${token}`,
    localAddress?: string,
  ): IncomingMessage {
    const socket = { remoteAddress, localAddress }
    return Object.assign(Readable.from([]), { method: 'POST', headers: { authorization }, socket }) as never
  }
  const clock = createVirtualClock()
  const pause = createPause({ now: () => 0, wake: () => undefined, emit: () => undefined })
  const controlWith = (changes: Partial<AccessOptions>): Control =>
    createControl(aControl(clock, { pause, ...changes }))

  test.each<[string | undefined, number, string?]>([
    ['127.8.9.10', 200],
    ['::1', 200],
    ['::ffff:127.0.0.1', 200],
    ['10.0.0.1', 403],
    ['128.0.0.1', 403],
    ['::', 403],
    ['::ffff:10.0.0.1', 403],
    [undefined, 403],
    ['10.0.0.1', 200, '10.0.0.1'],
    ['10.0.0.1', 403, '10.0.0.2'],
  ])('%s with the token: %i, and what to do if it is refused', async (address, status, own) => {
    const control = controlWith({ allowRemote: false })
    const answer = await control('/-/probe', requestFrom(address, undefined, own))
    const body = expect.stringContaining(status === 403 ? 'control.allowRemote' : 'circuits') as string
    expect(answer).toMatchObject({ status, body })
  })

  test('with control.allowRemote the token is enough, and still needed', async () => {
    const control = controlWith({ allowRemote: true })
    expect(await control('/-/probe', requestFrom('10.0.0.1'))).toMatchObject({ status: 200 })
    expect(await control('/-/probe', requestFrom('10.0.0.1', 'Bearer no'))).toMatchObject({ status: 401 })
  })

  test('the proof by the private key opens them on this host alone, with control.token or without', async () => {
    for (const own of [token, undefined])
      for (const allowRemote of [true, false]) {
        const control = controlWith({ allowRemote, secrets: () => ({ token: own, proofs: ['new', proof] }) })
        for (const given of ['new', proof])
          expect(await control('/-/probe', requestFrom('127.0.0.1', `Bearer ${given}`))).toMatchObject({ status: 200 })
        const away = await control('/-/probe', requestFrom('10.0.0.1', `Bearer ${proof}`))
        expect(away).toMatchObject({ status: allowRemote ? 401 : 403 })
        // Without control.token no text opens anything from elsewhere.
        const empty = await control('/-/probe', requestFrom('10.0.0.1', 'Bearer '))
        expect(empty?.status).toBe(allowRemote ? 401 : 403)
      }
  })

  test('the files are read again at most once a second, and a token that was taken away opens nothing after it', async () => {
    let [reads, secret] = [0, token]
    const secrets = (): ControlSecrets => ({ token: secret, proofs: (reads += 1) > 0 ? [] : [] })
    const control = controlWith({ secrets })
    const statusOf = async (given: string): Promise<number | undefined> =>
      (await control('/-/probe', requestFrom('::1', `Bearer ${given}`)))?.status
    expect(await statusOf(token)).toBe(200)
    secret = `${token}-rotated`
    for (let asked = 0; asked < 50; asked += 1) expect(await statusOf('no')).toBe(401)
    expect(reads).toBe(1)
    await clock.advance(1000)
    expect([await statusOf(token), await statusOf(secret), reads]).toEqual([401, 200, 2])
  })
})

describe('with the token', () => {
  test.each<[string, string, Command, number]>([
    ['GET', '/-/pause', { method: 'GET' }, 405],
    ['HEAD', '/-/pause', { method: 'HEAD' }, 405],
    ['no command', '/-/', {}, 404],
    ['a name that every object has', '/-/constructor', {}, 404],
    ['a path with a zero', '/-/pause%00', {}, 404],
  ])('%s: nothing happens to %s', async (_, path, how, status) => {
    await using control = await startTestControl()
    const answer = await command(control.port, path, how)
    expect(answer.status).toBe(status)
    expect(answer.headers.allow).toBe(status === 405 ? 'POST' : undefined)
    expect(control.pause.list()).toEqual([])
  })

  test.each([...[...paths, '/-/retry'].map((path) => ['POST', path] as const), ['DELETE', '/-/retry/x'] as const])(
    '%s %s with a query: 400, nothing done',
    async (method, path) => {
      await using control = await startTestControl()
      const { body, status } = await command(control.port, `${path}?subscription=payments-eu&for=2h`, { method })
      expect([status, body]).toEqual([400, expect.stringContaining('in the body')])
      expect([control.pause.list(), control.probes()]).toEqual([[], 0])
    },
  )

  test('the case of the scheme, a name that points here and spaces in a body are ignored', async () => {
    await using control = await startTestControl()
    const request = { authorization: `bEARER  ${token}`, headers: { host: 'evil.example' }, body: ' '.repeat(16_384) }
    expect((await command(control.port, '/-/pause', request)).status).toBe(200)
    expect(control.pause.list()).toHaveLength(1)
  })

  test('a body that comes after its head is waited for', async () => {
    await using control = await startTestControl()
    const socket = dial(control.port, `POST /-/pause HTTP/1.1\r\n${head}Content-Length: 2\r\n\r\n{`)
    // The other one's answer shows that the first has been read.
    await ask(control.port, '/livez')
    expect(control.pause.list()).toEqual([])
    socket.write('}')
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1.1 200 /)
    await closed(socket)
  })

  test('a body that is too large is not read to its end, and nothing happens', async () => {
    await using control = await startTestControl()
    const begin = `POST /-/pause HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n`
    const socket = dial(control.port, `${begin}4001\r\n${'x'.repeat(0x4001)}\r\n`)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1.1 400 /)
    await closed(socket)
    expect(control.pause.list()).toEqual([])
  })

  test('a client that goes away in the middle has given no command', async () => {
    await using control = await startTestControl()
    const socket = dial(control.port, `POST /-/probe HTTP/1.1\r\n${head}Content-Length: 9\r\n\r\n{`)
    await ask(control.port, '/livez')
    socket.resetAndDestroy()
    await closed(socket)
    await ask(control.port, '/livez')
    expect(control.probes()).toBe(0)
  })
})
