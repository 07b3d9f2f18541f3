// The ops server over real HTTP: answers, refusals, and clients that misbehave.
import diagnostics from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { CommandFailure, ConfigurationError } from '../../src/runtime/errors.ts'
import type { OpsServerOptions } from '../../src/ops/server.ts'
import { pageHeaders } from '../../src/ops/page-styles.ts'
import { toStatus } from '../../src/ops/status.ts'
import { startListening } from '../support/listening.ts'
import { ask, closed, dial, inOneStep, start, startSlow, type Running, type Slow } from '../support/ops-server.ts'
import { aStatusState } from '../support/status.ts'

const metricsRequest = 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'

test.each([
  ['/metrics', 200, 'up 1 # ä\n'],
  ['/metrics?name[]=up', 200, 'up 1 # ä\n'],
  ['/livez?verbose', 200, 'ok\n'],
  ['/readyz', 200, 'ok\n'],
  ['/nothing', 404, expect.stringMatching(/\/, \/metrics.*\/status/)],
  ['/constructor', 404, expect.any(String)],
  ['/<script>alert(1)</script>', 404, expect.not.stringContaining('script')],
])('%s: %i, and HEAD has the same headers without a body', async (path, status, body) => {
  await using server = await start()
  const [get, head] = [await ask(server.port, path), await ask(server.port, path, { method: 'HEAD' })]
  expect(get).toMatchObject({
    status,
    body: body as string,
    headers: { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' },
  })
  // That of metrics is what their library says.
  if (path === '/metrics') expect(get.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
  expect(head).toMatchObject({ status, body: '' })
  expect(head.headers['content-length']).toBe(get.headers['content-length'])
})

test.each(['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'])('%s is refused with what is allowed', async (method) => {
  await using server = await start()
  const answer = await ask(server.port, '/metrics', { method })
  expect(answer).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD', connection: 'close' } })
  expect(answer.body).not.toContain('up 1')
})

test('the page may not be kept, framed or guessed at; /status is JSON that people can read', async () => {
  await using server = await start({ status: () => inOneStep(toStatus(aStatusState())) })
  const [page, status] = [await ask(server.port, '/'), await ask(server.port, '/status')]
  expect(page.headers).toMatchObject({ 'content-type': 'text/html; charset=utf-8', ...pageHeaders })
  expect(status.headers).toMatchObject({ 'content-type': 'application/json; charset=utf-8' })
  expect(status.body).toMatch(/^\{\n {2}"schemaVersion": 2,\n[^]*\}\n$/)
})

test('the page refreshes, unless its query says otherwise', async () => {
  await using server = await start()
  const refreshes = async (path: string): Promise<boolean> =>
    (await ask(server.port, path)).body.includes('http-equiv="refresh"')
  for (const path of ['/', '/?', '/?refresh=on', '/?refresh=%ff']) expect(await refreshes(path), path).toBe(true)
  for (const path of ['/?refresh=off', '/?x=1&refresh=off']) expect(await refreshes(path), path).toBe(false)
})

test('probes list all problems, one a line, and are asked anew each time', async () => {
  const problems = ['no token', 'no page']
  await using server = await start({ live: () => ['the loop is stuck'], ready: () => problems })
  expect(await ask(server.port, '/livez')).toMatchObject({ status: 503, body: 'the loop is stuck\n' })
  expect(await ask(server.port, '/readyz')).toMatchObject({ status: 503, body: 'no token\nno page\n' })
  problems.length = 0
  expect((await ask(server.port, '/readyz')).status).toBe(200)
})

describe('an answer that costs something is made once a second for all who ask', () => {
  test.each(['/', '/?refresh=off', '/metrics', '/status'])('%s', async (path) => {
    let made = 0
    const [metrics, status] = [
      () => Promise.resolve(`made ${(made += 1)}\n`),
      () => inOneStep(toStatus(aStatusState({ awaiting: (made += 1) }))),
    ]
    await using server = await start({ metrics, status })
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, n) => ask(server.port, path, { method: n === 0 ? 'HEAD' : 'GET' })),
    )
    await server.clock.advance(999)
    const [first, late] = [all[1], await ask(server.port, path)]
    expect(made).toBe(1)
    expect(new Set([...all.slice(1), late].map(({ body }) => body))).toEqual(new Set([first?.body]))
    await server.clock.advance(1)
    expect((await ask(server.port, path)).body).not.toBe('')
    expect(made).toBe(2)
  })

  test('also when its making takes longer, and a bug in it is reported once', async () => {
    const made = Promise.withResolvers<never>()
    const [reported, asked]: [unknown[], PromiseWithResolvers<undefined>] = [[], Promise.withResolvers()]
    let makings = 0
    await using server = await start({
      metrics: () => {
        makings += 1
        asked.resolve(undefined)
        return made.promise
      },
      onError: (error) => reported.push(error),
    })
    const first = ask(server.port, '/metrics')
    await asked.promise
    await server.clock.advance(3_000)
    const others = Array.from({ length: 5 }, () => ask(server.port, '/metrics'))
    await ask(server.port, '/livez')
    made.reject(new Error('CANARY'))
    expect((await Promise.all([first, ...others])).map(({ status }) => status)).toEqual(Array(6).fill(500))
    expect(reported).toHaveLength(makings)
    expect(makings).toBe(1)
  })
})

describe('a state that can not be read', () => {
  const bug = new Error('CANARY')
  const fails = (): never => {
    throw bug
  }

  test.each<[string, Partial<OpsServerOptions>]>([
    ['/metrics', { metrics: () => Promise.reject(bug) }],
    ['/livez', { live: fails }],
    ['/readyz', { ready: fails }],
    ['/status', { status: fails }],
  ])('%s is 500, says nothing of why, and is reported', async (path, changes) => {
    const reported: unknown[] = []
    await using server = await start({ ...changes, onError: (error) => reported.push(error) })
    for (const method of ['GET', 'HEAD']) {
      // A second later: a response that is shared is reported once.
      await server.clock.advance(1_000)
      const answer = await ask(server.port, path, { method })
      expect(answer.status).toBe(500)
      expect(answer.body).not.toContain('CANARY')
    }
    expect(reported).toEqual([bug, bug])
    expect((await ask(server.port, '/nothing')).status).toBe(404)
  })
})

describe('the port', () => {
  // A service manager starts it again after 69, and not after 78.
  test('that another process has may become free: the error says what to do, and is no configuration error', async () => {
    await using other = await startListening(createServer())
    const { port } = other
    const message = expect.stringMatching(`^server.port \\(127.0.0.1:${port}\\): the port is taken`) as string
    await expect(start({ port })).rejects.toMatchObject({ code: 69, message })
  })

  test('at 192.0.2.1, which this host may get later', async () => {
    const message = expect.stringContaining('server.host (192.0.2.1:0): this host has no such address') as string
    await expect(start({ host: '192.0.2.1' })).rejects.toMatchObject({ code: 69, message })
  })

  test('of a host that is unknown, or cannot be looked up now', async () => {
    const failure: unknown = await start({ host: 'no-host.invalid' }).catch((error: unknown) => error)
    expect(failure instanceof ConfigurationError || failure instanceof CommandFailure).toBe(true)
    expect((failure as Error).message).toMatch(/^server\.host .*host/)
  })
})

describe('clients that do not behave', () => {
  test('a client that goes away before its answer does no harm', async () => {
    await using server = await startSlow()
    const socket = dial(server.port, metricsRequest)
    await server.asked
    socket.resetAndDestroy()
    await closed(socket)
    server.answer('late')
    expect((await ask(server.port, '/livez')).status).toBe(200)
  })

  test('errors of the listening socket, such as too many open files, do not end the process', async () => {
    let listening: Server | undefined
    const note = (message: unknown): void => {
      listening ??= (message as { server: Server }).server
    }
    diagnostics.subscribe('tracing:net.server.listen:asyncStart', note)
    const reported: unknown[] = []
    await using server = await start({ onError: (error) => reported.push(error) })
    diagnostics.unsubscribe('tracing:net.server.listen:asyncStart', note)
    expect(listening).toBeDefined()
    const trouble = Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' })
    for (let i = 0; i < 3; i += 1) listening?.emit('error', trouble)
    expect(reported).toEqual([trouble, trouble, trouble])
    expect((await ask(server.port, '/livez')).status).toBe(200)
  })
})

describe('the end', () => {
  const large = (): Promise<string> => Promise.resolve('x'.repeat(50_000_000))

  test.each<[string, string, () => Promise<Running>, (socket: Socket, server: Running) => Promise<unknown>]>([
    // Another one's answer shows that the server has seen the half request.
    ['has sent half a request', 'GET /livez HTTP/1.1\r\nHo', start, (_, { port }) => ask(port, '/livez')],
    ['is being answered', metricsRequest, startSlow, (_, server) => (server as Slow).asked],
    ['reads slowly', metricsRequest, () => start({ metrics: large }), (socket) => once(socket, 'readable')],
  ])('waits a second for who %s, not longer', async (_, bytes, startIt, isSeen) => {
    await using server = await startIt()
    const socket = dial(server.port, bytes)
    await isSeen(socket, server)
    const closing = server.close()
    await server.clock.advance(1_000)
    await closing
    await closed(socket)
  })

  test('gives who is being answered the whole answer, and ends the connection', async () => {
    await using server = await startSlow()
    const waiting = ask(server.port, '/metrics')
    await server.asked
    const closing = server.close()
    const text = 'metric 1\n'.repeat(5_000)
    server.answer(text)
    expect(await waiting).toMatchObject({ status: 200, body: text, headers: { connection: 'close' } })
    await closing
  })

  test('takes no new connection, may come twice, and leaves the port to the next', async () => {
    const { close, port } = await start()
    await Promise.all([close(), close()])
    await expect(ask(port, '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    await using second = await start({ port })
    expect(second.port).toBe(port)
  })
})
