// The control listener over real HTTP: who holds the token gets what it asks for, everybody else gets one and the same answer.
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../src/runtime/errors.ts'
import { command, startTestControl, token } from '../support/control.ts'
import { closed, dial, talk } from '../support/ops-server.ts'

const since = '2026-01-15T12:00:00.000Z'
const head = `Host: x\r\nAuthorization: Bearer ${token}\r\n`

describe('pause and resume', () => {
  test('say what is so now, and whether it was so before', async () => {
    await using control = await startTestControl()
    const ask = async (path: string): Promise<unknown> => {
      const { status, headers, body } = await command(control.port, path)
      expect(status).toBe(200)
      expect(headers).toMatchObject({ 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' })
      return JSON.parse(body)
    }
    expect(await ask('/-/resume')).toEqual({ paused: false, changed: false })
    expect(await ask('/-/pause')).toEqual({ paused: true, since, changed: true })
    await control.clock.advance(60_000)
    expect(await ask('/-/pause')).toEqual({ paused: true, since, changed: false })
    expect(control.pause.since()).toBe(Date.parse(since))
    expect(await ask('/-/resume')).toEqual({ paused: false, changed: true })
    expect(control.pause.since()).toBeUndefined()
  })
})

describe('sweep', () => {
  test('is started', async () => {
    await using control = await startTestControl()
    const { status, body } = await command(control.port, '/-/sweep')
    expect([status, JSON.parse(body)]).toEqual([202, { sweep: 'started' }])
    expect(control.sweeps()).toBe(1)
  })

  test.each([
    ['under-way', /under way/],
    ['stopping', /stopping/],
  ] as const)('that can not be started is 409: %s', async (asked, words) => {
    await using control = await startTestControl({ sweep: () => asked })
    const { status, body } = await command(control.port, '/-/sweep')
    expect([status, JSON.parse(body)]).toEqual([409, { sweep: asked, error: expect.stringMatching(words) as string }])
  })

  test('that meets a bug is 500, and told to who may know', async () => {
    const [bug, told]: [Error, unknown[]] = [new Error('CANARY'), []]
    await using control = await startTestControl({
      sweep: () => {
        throw bug
      },
      onError: (error) => told.push(error),
    })
    const { status, body } = await command(control.port, '/-/sweep')
    expect(status).toBe(500)
    expect(body).not.toContain('CANARY')
    expect(told).toEqual([bug])
  })
})

describe('without the token', () => {
  const wrong: [string, string | undefined][] = [
    ['nothing', undefined],
    ['an empty one', ''],
    ['only the scheme', 'Bearer'],
    ['an empty token', 'Bearer '],
    ['another token', 'Bearer CANARY-b7f1c2d3e4a6'],
    ['the beginning of it', `Bearer ${token.slice(0, -1)}`],
    ['more than it', `Bearer ${token}x`],
    ['it twice', `Bearer ${token} ${token}`],
    ['another case', `Bearer ${token.toLowerCase()}`],
    ['another scheme', `Token ${token}`],
    ['Basic', `Basic ${Buffer.from(`:${token}`).toString('base64')}`],
    ['no scheme', token],
    ['its hash', 'Bearer 5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8'],
    ['a very long one', `Bearer ${token.repeat(500)}`],
    ['other bytes', `Bearer \xe4${token}`],
  ]

  test.each(wrong)('%s: 401, and nothing happens', async (_, authorization) => {
    await using control = await startTestControl()
    for (const path of ['/-/pause', '/-/sweep']) {
      const answer = await command(control.port, path, { authorization })
      expect(answer).toMatchObject({ status: 401, headers: { 'www-authenticate': 'Bearer', connection: 'close' } })
      expect(answer.body).not.toContain('CANARY')
    }
    expect([control.pause.since(), control.sweeps()]).toEqual([undefined, 0])
  })

  test('nobody learns what there is: every path and method has the same answer', async () => {
    await using control = await startTestControl()
    const ask = async (path: string, method: string): Promise<unknown> => {
      const { status, headers, body } = await command(control.port, path, { method, authorization: undefined })
      return { status, headers: { ...headers, date: undefined }, body }
    }
    const first = await ask('/-/pause', 'POST')
    for (const [path, method] of [
      ['/-/resume', 'POST'],
      ['/-/nothing', 'POST'],
      ['/', 'GET'],
      ['/metrics', 'GET'],
      ['/-/pause', 'GET'],
      ['/-/pause', 'DELETE'],
      ['/-/pause', 'OPTIONS'],
      [`/${'x'.repeat(8000)}`, 'POST'],
    ] as const) {
      expect(await ask(path, method)).toEqual(first)
    }
  })

  test('a token in the query or in a cookie is none', async () => {
    await using control = await startTestControl()
    const headers = { cookie: `authorization=Bearer ${token}`, 'x-authorization': `Bearer ${token}` }
    const answer = await command(control.port, `/-/pause?access_token=${token}`, { authorization: undefined, headers })
    expect(answer.status).toBe(401)
    expect(control.pause.since()).toBeUndefined()
  })

  test('of two headers the second does not count', async () => {
    await using control = await startTestControl()
    const text = await talk(control.port, `POST /-/pause HTTP/1.1\r\nAuthorization: Bearer no\r\n${head}\r\n`)
    expect(text).toMatch(/^HTTP\/1.1 401 /)
    expect(control.pause.since()).toBeUndefined()
  })
})

describe('with the token', () => {
  test.each([`bearer ${token}`, `BEARER  ${token}`])('the scheme is taken in any case: %s', async (authorization) => {
    await using control = await startTestControl()
    expect((await command(control.port, '/-/pause', { authorization })).status).toBe(200)
  })

  test.each(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'])('%s is refused, and told what is allowed', async (method) => {
    await using control = await startTestControl()
    expect(await command(control.port, '/-/pause', { method })).toMatchObject({
      status: 405,
      headers: { allow: 'POST' },
    })
    expect(control.pause.since()).toBeUndefined()
  })

  test.each(['/', '/-/', '/-/pause/', '/-/PAUSE', '/pause', '/-/constructor', '/-/pause%00', '/metrics', '/status'])(
    '%s is 404',
    async (path) => {
      await using control = await startTestControl()
      const answer = await command(control.port, path)
      expect(answer.status).toBe(404)
      expect(answer.body).toContain('/-/pause')
      expect(control.pause.since()).toBeUndefined()
    },
  )

  test.each([
    ['a query', '/-/pause?reason=x', {}],
    ['a name that points here', '/-/pause', { headers: { host: 'evil.example' } }],
    ['a body', '/-/pause', { body: '{"paused":false}' }],
    ['a body of 16 KiB', '/-/pause', { body: 'x'.repeat(16_384) }],
  ])('%s is passed over', async (_, path, more) => {
    await using control = await startTestControl()
    expect((await command(control.port, path, more)).status).toBe(200)
    expect(control.pause.since()).toBeDefined()
  })

  test('a body that comes after its head is waited for, and passed over', async () => {
    await using control = await startTestControl()
    const socket = dial(control.port, `POST /-/pause HTTP/1.1\r\n${head}Content-Length: 2\r\n\r\n{`)
    // The other one's answer shows that the first has been read.
    await command(control.port, '/-/nothing')
    expect(control.pause.since()).toBeUndefined()
    socket.write('}')
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1.1 200 /)
    await closed(socket)
  })

  test('a body that is too large is not read to its end, and nothing happens', async () => {
    await using control = await startTestControl()
    const start = `POST /-/pause HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n`
    const socket = dial(control.port, `${start}4001\r\n${'x'.repeat(0x4001)}\r\n`)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1.1 413 /)
    await closed(socket)
    expect(control.pause.since()).toBeUndefined()
  })

  test('a client that goes away in the middle has asked for nothing', async () => {
    await using control = await startTestControl()
    const socket = dial(control.port, `POST /-/sweep HTTP/1.1\r\n${head}Content-Length: 9\r\n\r\n{`)
    await command(control.port, '/-/nothing')
    socket.resetAndDestroy()
    await closed(socket)
    await command(control.port, '/-/nothing')
    expect(control.sweeps()).toBe(0)
  })

  test('every answer ends its connection, and a second command on it is not heard', async () => {
    await using control = await startTestControl()
    const one = `POST /-/sweep HTTP/1.1\r\n${head}Content-Length: 0\r\n\r\n`
    expect(await talk(control.port, one + one)).toMatch(/^HTTP\/1.1 202 [^]*connection: close/i)
    expect(control.sweeps()).toBe(1)
  })
})

describe('the listener', () => {
  test('names control.port when the port is taken', async () => {
    const other = createServer()
    other.listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const failure: unknown = await startTestControl({ port }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(ConfigurationError)
    expect(failure).toMatchObject({
      problems: [
        { key: 'control.port', origin: `127.0.0.1:${port}`, message: expect.stringContaining('taken') as string },
      ],
    })
    expect(String(failure)).not.toContain('CANARY')
    other.close()
    await once(other, 'close')
  })

  test('names control.host when there is no such address', async () => {
    const failure: unknown = await startTestControl({ host: '192.0.2.1' }).catch((error: unknown) => error)
    expect(failure).toMatchObject({ problems: [{ key: 'control.host' }] })
  })

  test('ends although half a command is being sent', async () => {
    await using control = await startTestControl()
    const socket = dial(control.port, `POST /-/pause HTTP/1.1\r\n${head}Content-Length: 2\r\n\r\n{`)
    await command(control.port, '/-/nothing')
    const closing = control.close()
    await control.clock.advance(1000)
    await closing
    await closed(socket)
    expect(control.pause.since()).toBeUndefined()
  })
})
