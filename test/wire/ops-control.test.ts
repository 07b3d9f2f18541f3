// The operator's commands over real HTTP: taken with the token and from this host, and refused in every other case.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { createControl } from '../../src/ops/control.ts'
import { createPause } from '../../src/reconcile/retry/operator-pause.ts'
import { ask, closed, command, dial, start, startTestControl, token, type Command } from '../support/ops-server.ts'

const since = '2026-01-15T12:00:00.000Z'
const head = `Host: x\r\nAuthorization: Bearer ${token}\r\n`
const paths = ['/-/pause', '/-/resume', '/-/probe']

test('pause and resume answer with what is so now, and whether it was so before; probe with its counts', async () => {
  await using control = await startTestControl()
  const say = async (path: string): Promise<unknown> => {
    const { status, headers, body } = await command(control.port, path)
    expect(status).toBe(200)
    expect(headers).toMatchObject({ 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' })
    return JSON.parse(body)
  }
  expect(await say('/-/resume')).toEqual({ paused: false, changed: false })
  expect(await say('/-/pause')).toEqual({ paused: true, since, changed: true })
  await control.clock.advance(60_000)
  expect(await say('/-/pause')).toEqual({ paused: true, since, changed: false })
  expect(control.pause.since()).toBe(Date.parse(since))
  expect(await say('/-/resume')).toEqual({ paused: false, changed: true })
  expect(control.pause.since()).toBeUndefined()
  expect(await say('/-/probe')).toEqual({ circuits: 1, underWay: 0 })
  Object.assign(control.pause, { outlivesRestart: true })
  expect(await say('/-/pause')).toMatchObject({ paused: true, outlivesRestart: true })
})

test('a command shows at once in answers that are otherwise shared for a second; a refused one renews none', async () => {
  let made = 0
  const metrics = (): Promise<{ text: string; contentType: string }> =>
    Promise.resolve({ text: `made ${(made += 1)}\n`, contentType: 'text/plain' })
  await using control = await startTestControl({ metrics })
  const scrape = async (): Promise<string> => (await ask(control.port, '/metrics')).body
  expect(await scrape()).toBe('made 1\n')
  await command(control.port, '/-/pause', { authorization: 'Bearer no' })
  expect(await scrape()).toBe('made 1\n')
  await command(control.port, '/-/pause')
  expect(await scrape()).toBe('made 2\n')
})

test('without control.token each command is 404 as any other path', async () => {
  await using server = await start()
  const { body } = await ask(server.port, '/x')
  for (const path of paths) expect(await command(server.port, path)).toMatchObject({ status: 404, body })
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
  ])('%s: 401, and nothing happens', async (_, authorization) => {
    await using control = await startTestControl()
    for (const path of paths) {
      const answer = await command(control.port, path, { authorization })
      expect(answer).toMatchObject({ status: 401, headers: { 'www-authenticate': 'Bearer', connection: 'close' } })
      expect(answer.body).not.toContain('CANARY')
    }
    expect([control.pause.since(), control.probes()]).toEqual([undefined, 0])
  })

  test('a token in the query or in a cookie does not count', async () => {
    await using control = await startTestControl()
    const headers = { cookie: `authorization=Bearer ${token}`, 'x-authorization': `Bearer ${token}` }
    const answer = await command(control.port, `/-/pause?access_token=${token}`, { authorization: undefined, headers })
    expect(answer.status).toBe(401)
    expect(control.pause.since()).toBeUndefined()
  })
})

describe('from another host', () => {
  /** A request as the server gets it: no host has every address, so only the address is made up here. */
  function requestFrom(remoteAddress: string | undefined, authorization = `Bearer ${token}`): IncomingMessage {
    const body = Readable.from([])
    return Object.assign(body, { method: 'POST', headers: { authorization }, socket: { remoteAddress } }) as never
  }
  const pause = createPause({ now: () => 0, wake: () => undefined, emit: () => undefined })
  const options = { token, pause, probe: () => ({ circuits: 0, underWay: 0 }) }

  test.each([
    ['127.8.9.10', 200],
    ['::1', 200],
    ['::ffff:127.0.0.1', 200],
    ['10.0.0.1', 403],
    ['128.0.0.1', 403],
    ['::', 403],
    ['::ffff:10.0.0.1', 403],
    [undefined, 403],
  ])('%s with the token: %i, and what to do if it is refused', async (address, status) => {
    const control = createControl({ ...options, allowRemote: false })
    const answer = await control('/-/probe', requestFrom(address))
    const body = expect.stringContaining(status === 403 ? 'control.allowRemote' : 'circuits') as string
    expect(answer).toMatchObject({ status, body })
  })

  test('with control.allowRemote the token is enough, and still needed', async () => {
    const control = createControl({ ...options, allowRemote: true })
    expect(await control('/-/probe', requestFrom('10.0.0.1'))).toMatchObject({ status: 200 })
    expect(await control('/-/probe', requestFrom('10.0.0.1', 'Bearer no'))).toMatchObject({ status: 401 })
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
    expect(control.pause.since()).toBeUndefined()
  })

  test('a query, the case of the scheme, a name that points here and a body of 16 KiB are ignored', async () => {
    await using control = await startTestControl()
    const request = { authorization: `bEARER  ${token}`, headers: { host: 'evil.example' }, body: 'x'.repeat(16_384) }
    expect((await command(control.port, '/-/pause?reason=x', request)).status).toBe(200)
    expect(control.pause.since()).toBeDefined()
  })

  test('a body that comes after its head is waited for, and dropped', async () => {
    await using control = await startTestControl()
    const socket = dial(control.port, `POST /-/pause HTTP/1.1\r\n${head}Content-Length: 2\r\n\r\n{`)
    // The other one's answer shows that the first has been read.
    await ask(control.port, '/livez')
    expect(control.pause.since()).toBeUndefined()
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
    expect(control.pause.since()).toBeUndefined()
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
