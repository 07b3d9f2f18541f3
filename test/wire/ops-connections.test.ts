// Slow clients, idle clients, crowds: memory stays bounded, and no client is kept out. Real sockets, virtual time.
import diagnostics from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { ConnectionLimits } from '../../src/ops/connections.ts'
import { listen, plainText, type Listener } from '../../src/ops/listen.ts'
import { ask, dial, talk } from '../support/ops-server.ts'
import { createVirtualClock, type VirtualClock } from '../support/virtual-clock.ts'

const get = (path = '/'): string => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
const last = 'GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
/** More than the kernel takes of unread bytes: at most 4 MiB sent and 6 MiB received by default. */
const large = Buffer.alloc(16_777_216, 'x')

interface Scene extends Listener, AsyncDisposable {
  clock: VirtualClock
  /** Paths in the order in which they were answered. */
  answered: string[]
}

type Body = (path: string) => string | Uint8Array | Promise<string>

async function open(limits: Partial<ConnectionLimits> = {}, body: Body = (path) => path): Promise<Scene> {
  const clock = createVirtualClock()
  const answered: string[] = []
  const listener = await listen({
    host: '127.0.0.1',
    port: 0,
    limits,
    clock,
    answer: async ({ url = '' }) => {
      answered.push(url)
      return { status: 200, contentType: plainText, body: await body(url) }
    },
    onError: (error) => {
      throw error as Error
    },
  })
  return {
    ...listener,
    clock,
    answered,
    async [Symbol.asyncDispose]() {
      await clock.run(listener.close())
      // The sockets may close a moment after the listener.
      await expect.poll(() => clock.sleepers()).toBe(0)
    },
  }
}

/** A client that reads nothing, once its first bytes are there. */
async function dialAndWait(port: number, bytes: string): Promise<Socket> {
  const socket = dial(port, bytes)
  await once(socket, 'readable')
  return socket
}

/** Resolves when the server has ended it, in any way. */
async function gone(socket: Socket): Promise<void> {
  socket.resume()
  if (socket.closed) return
  await new Promise((resolve) => socket.once('close', resolve))
}

/** Resolves when the server has ended so many of them. */
async function goneAmong(sockets: readonly Socket[], count: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  let left = count
  for (const socket of sockets) {
    void gone(socket).then(() => {
      left -= 1
      if (left === 0) resolve(undefined)
    })
  }
  await promise
}

/** True when the server has ended it by the time that another connection has two more answers: not by a timeout of Node. */
async function isEndedBeside(other: Socket, socket: Socket): Promise<boolean> {
  socket.resume()
  for (let answers = 0; answers < 2; answers += 1) {
    other.write(get())
    await once(other, 'data')
  }
  return socket.closed
}

/** Resolves when the server has dropped what the client did not take. A client that reads late would get all, and an orderly end. */
async function dropped(socket: Socket): Promise<void> {
  await gone(socket)
  expect(socket.errored).toMatchObject({ code: 'ECONNRESET' })
  expect(socket.bytesRead).toBeLessThan(large.length)
}

/** A client that has got one answer and keeps its connection. */
async function keep(port: number): Promise<Socket> {
  const socket = dial(port, get())
  await once(socket, 'data')
  return socket
}

const statusLines = (text: string): number => text.match(/HTTP\/1\.1 200 /g)?.length ?? 0

describe('pipelining', () => {
  test('a request is heard whole, in any pieces', async () => {
    await using scene = await open()
    const header = `X-Long: ${'y'.repeat(10_000)}\r\n`
    const socket = dial(scene.port, `GET /whole HTTP/1.1\r\nHost: x\r\n${header}`)
    await once(socket, 'connect')
    socket.write(`${header.slice(0, 3000)}\r\n\r\n`)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1.1 200 [^]*\/whole$/)
    socket.destroy()
  })

  test('requests of one chunk are answered one after another', async () => {
    let [under, most] = [0, 0]
    await using scene = await open({}, async (path) => {
      most = Math.max(most, (under += 1))
      await new Promise((resolve) => setImmediate(resolve))
      under -= 1
      return path
    })
    const paths = Array.from({ length: 10 }, (_, n) => `/${n}`)
    const text = await talk(scene.port, paths.map((path) => get(path)).join('') + last)
    expect(most).toBe(1)
    expect(scene.answered).toEqual([...paths, '/last'])
    const bodies = text.split(/HTTP\/1.1 200 [^]*?\r\n\r\n/).slice(1)
    expect(bodies).toEqual([...paths, '/last'])
  })

  test.each([
    [1, 65_536],
    [8, 65_536],
    [200, 65_536],
  ])('%i connections with %i bytes of requests each, whose answers stay unread', async (count, length) => {
    let parsed = 0
    const note = (): void => void (parsed += 1)
    diagnostics.subscribe('http.server.request.start', note)
    try {
      await using scene = await open({}, () => 'x'.repeat(200_000))
      const bytes = get().repeat(Math.floor(length / get().length))
      const sockets = Array.from({ length: count }, () => dial(scene.port, bytes))
      await Promise.all(sockets.map(gone))
      // Of 2,340 requests a connection: those of the first KiB are seen, and one is answered.
      expect(parsed).toBeLessThanOrEqual(count * 40)
      expect(scene.answered.length).toBeLessThanOrEqual(count)
      expect((await ask(scene.port, '/livez')).status).toBe(200)
    } finally {
      diagnostics.unsubscribe('http.server.request.start', note)
    }
  })

  test.each([
    ['an Expect that Node would refuse by itself', 'GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n'],
    ['a request without Host', 'GET / HTTP/1.1\r\n\r\n'],
  ])('%s counts, too', async (_, request) => {
    await using scene = await open({}, () => large)
    await gone(dial(scene.port, get() + request.repeat(17)))
    expect(scene.answered).toEqual(['/'])
  })

  test('HTTP/1.1 without Host is 400, HTTP/1.0 without is not', async () => {
    await using scene = await open()
    expect(await talk(scene.port, 'GET / HTTP/1.1\r\n\r\n')).toMatch(/^HTTP\/1.1 400 [^]*Send a Host header/)
    expect(await talk(scene.port, 'GET / HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1.1 200 /)
  })
})

describe('an answer that is not taken', () => {
  test('ends its connection after 5 s, not before', async () => {
    await using scene = await open({}, () => large)
    const socket = await dialAndWait(scene.port, get())
    await scene.clock.advance(4_999)
    expect([scene.clock.sleepers(), socket.closed]).toEqual([1, false])
    await scene.clock.advance(1)
    await dropped(socket)
    expect(scene.clock.sleepers()).toBe(0)
  })

  test('holds up no others, and one that is taken ends its wait', async () => {
    await using scene = await open({ maxWaitingBytes: 4 * large.length }, (path) => (path === '/small' ? 'ok' : large))
    const socket = await dialAndWait(scene.port, get())
    expect((await ask(scene.port, '/small')).status).toBe(200)
    expect((await ask(scene.port, '/large')).body.length).toBe(large.length)
    await scene.clock.settle()
    expect(scene.clock.sleepers()).toBe(1)
    socket.destroy()
  })
})

describe('bytes that wait to be written', () => {
  const maxWaitingBytes = 4 * large.length

  test('are bounded: those whose answers have waited longest are ended', async () => {
    await using scene = await open({ maxWaitingBytes }, () => Buffer.alloc(large.length))
    const sockets: Socket[] = []
    for (let n = 0; n < 10; n += 1) sockets.push(await dialAndWait(scene.port, get()))
    await Promise.all(sockets.slice(0, 6).map(dropped))
    // Each waiting answer has a deadline: four answers are left.
    expect(scene.clock.sleepers()).toBe(4)
    expect(sockets.map((socket) => socket.closed)).toEqual(sockets.map((_, n) => n < 6))
    for (const socket of sockets) socket.destroy()
  })

  test('that are shared count once', async () => {
    await using scene = await open({ maxWaitingBytes }, () => large)
    const sockets: Socket[] = []
    for (let n = 0; n < 10; n += 1) sockets.push(await dialAndWait(scene.port, get()))
    expect(scene.clock.sleepers()).toBe(10)
    for (const socket of sockets) socket.destroy()
  })

  test('may be more when they are those of one answer', async () => {
    await using scene = await open({ maxWaitingBytes: 1000 }, () => large)
    expect((await ask(scene.port, '/')).body.length).toBe(large.length)
  })
})

describe('a connection', () => {
  test('ends with the answer to its last request', async () => {
    await using scene = await open({ maxRequests: 3 })
    const text = await talk(scene.port, get().repeat(5))
    expect(statusLines(text)).toBe(3)
    expect(text.match(/connection: close/gi)).toHaveLength(1)
    expect(scene.answered).toHaveLength(3)
  })

  test('ends with an answer when it is a minute old', async () => {
    await using scene = await open()
    const socket = dial(scene.port, get())
    const [first] = (await once(socket, 'data')) as [Buffer]
    expect(first.toString()).toMatch(/connection: keep-alive/i)
    await scene.clock.advance(60_000)
    socket.write(get())
    const [second] = (await once(socket, 'data')) as [Buffer]
    expect(second.toString()).toMatch(/^HTTP\/1.1 200 [^]*connection: close/i)
    await gone(socket)
  })

  test('ends with its answer while more are open than may be kept', async () => {
    await using scene = await open({ maxKept: 2 })
    const sockets = [await keep(scene.port), await keep(scene.port), await keep(scene.port)]
    await Promise.any(sockets.map(gone))
    expect(sockets.map((socket) => socket.closed)).toEqual([false, false, true])
    for (const socket of sockets) socket.destroy()
  })
})

describe('when all connections are taken', () => {
  test('a new one takes the place of the longest idle one', async () => {
    await using scene = await open({ maxOpen: 3 })
    const [a, b, c] = [await keep(scene.port), await keep(scene.port), await keep(scene.port)]
    a.write(get())
    await once(a, 'data')
    const d = await keep(scene.port)
    expect(await isEndedBeside(d, b)).toBe(true)
    const e = await keep(scene.port)
    expect(await isEndedBeside(e, c)).toBe(true)
    expect([a, d, e].map((socket) => socket.closed)).toEqual([false, false, false])
    for (const socket of [a, d, e]) socket.destroy()
  })

  test('that of one that has asked nothing, when none was answered before', async () => {
    await using scene = await open({ maxOpen: 2 }, (path) => (path === '/large' ? large : 'ok'))
    const answering = await dialAndWait(scene.port, get('/large'))
    const half = dial(scene.port, 'GET / HTTP/1.1\r\nHo')
    await once(half, 'connect')
    expect((await ask(scene.port, '/')).status).toBe(200)
    await gone(half)
    // Not by the timeout of its request, which is answered.
    expect(half.bytesRead).toBe(0)
    expect(answering.closed).toBe(false)
    answering.destroy()
  })

  test('that of the one whose answer has waited longest, when none is idle', async () => {
    const limits = { maxOpen: 2, maxWaitingBytes: 4 * large.length }
    await using scene = await open(limits, (path) => (path === '/large' ? large : 'ok'))
    const [a, b] = [await dialAndWait(scene.port, get('/large')), await dialAndWait(scene.port, get('/large'))]
    expect((await ask(scene.port, '/')).status).toBe(200)
    await dropped(a)
    expect(b.closed).toBe(false)
    b.destroy()
  })

  test('fresh probes are answered while three times as many clients ask again and again', async () => {
    await using scene = await open({ maxOpen: 8 })
    const sockets: Socket[] = []
    for (let n = 0; n < 24; n += 1) {
      sockets.push(await keep(scene.port))
      for (const socket of sockets) if (!socket.closed) socket.write(get())
      expect((await ask(scene.port, '/livez')).status).toBe(200)
    }
    // All but eight, in the time that their ends take to arrive.
    await goneAmong(sockets, 16)
    for (const socket of sockets) socket.destroy()
  })
})

describe('by default', () => {
  test('a connection ends with its hundredth answer', async () => {
    await using scene = await open()
    const socket = await keep(scene.port)
    for (let answers = 1; answers < 99; answers += 1) {
      socket.write(get())
      await once(socket, 'data')
    }
    socket.write(get())
    const [last] = (await once(socket, 'data')) as [Buffer]
    expect(last.toString()).toMatch(/connection: close/i)
    await gone(socket)
    expect(scene.answered).toHaveLength(100)
  })

  test('256 connections are kept between requests', async () => {
    await using scene = await open()
    const sockets: Socket[] = []
    for (let n = 0; n < 257; n += 1) sockets.push(await keep(scene.port))
    const last = sockets.pop()
    if (last !== undefined) await gone(last)
    expect(sockets.filter(({ closed }) => closed)).toEqual([])
    for (const socket of sockets) socket.destroy()
  })

  test('a thousand clients that ask at once are all answered', async () => {
    await using scene = await open()
    const answers = await Promise.all(Array.from({ length: 1000 }, () => ask(scene.port, '/metrics')))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1000)
  })

  test('no more than 1,024 connections are open: the first of 1,025 that ask nothing is ended', async () => {
    await using scene = await open()
    const sockets: Socket[] = []
    for (let n = 0; n < 1025; n += 1) {
      const socket = dial(scene.port, '')
      await once(socket, 'connect')
      sockets.push(socket)
    }
    const [first, ...others] = sockets
    if (first !== undefined) await gone(first)
    // Not by the timeout of its request, which is answered.
    expect(first?.bytesRead).toBe(0)
    expect(others.filter(({ closed }) => closed)).toEqual([])
    for (const socket of others) socket.destroy()
  })
})
