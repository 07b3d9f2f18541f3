// Slow clients, idle clients, crowds: memory stays bounded, and no probe is kept out. Real sockets, virtual time.
import diagnostics from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { listen, plainText } from '../../src/ops/listen.ts'
import { ask, closed, dial, running, type Running } from '../support/ops-server.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
/** More than the kernel takes of unread bytes: at most 4 MiB sent and 6 MiB received by default. */
const large = Buffer.alloc(16_777_216, 'x')

interface Scene extends Running {
  answered: () => number
}

async function open(body: string | Uint8Array | AsyncIterable<string> = 'ok'): Promise<Scene> {
  const clock = createVirtualClock()
  let answered = 0
  const listener = await listen({
    host: '127.0.0.1',
    port: 0,
    clock,
    respond({ url }) {
      answered += 1
      return Promise.resolve({ status: 200, contentType: plainText, body: url === '/livez' ? 'ok' : body })
    },
    onError: (error) => {
      throw error as Error
    },
  })
  return { ...running(listener, clock), answered: () => answered }
}

async function connected(port: number, bytes = ''): Promise<Socket> {
  const socket = dial(port, bytes)
  await once(socket, 'connect')
  return socket
}

test('a request is heard whole, in any pieces, and its answer ends the connection', async () => {
  await using scene = await open()
  const answer = await ask(scene.port, '/whole', { headers: { 'x-long': 'y'.repeat(10_000) } })
  expect(answer).toMatchObject({ status: 200, headers: { connection: 'close' }, body: 'ok' })
})

test('200 connections with 64 KiB of requests each: a few are parsed, one is answered', async () => {
  const [count, length] = [200, 65_536]
  let parsed = 0
  const note = (): void => void (parsed += 1)
  diagnostics.subscribe('http.server.request.start', note)
  try {
    await using scene = await open('x'.repeat(200_000))
    const bytes = get.repeat(Math.floor(length / get.length))
    await Promise.all(Array.from({ length: count }, () => closed(dial(scene.port, bytes))))
    // Of 2,340 requests a connection: those of the first KiB.
    expect(parsed).toBeLessThanOrEqual(count * 40)
    expect(scene.answered()).toBeLessThanOrEqual(count)
    expect((await ask(scene.port, '/livez')).status).toBe(200)
  } finally {
    diagnostics.unsubscribe('http.server.request.start', note)
  }
})

test.each([
  ['asks nothing', ''],
  ['sends half a request', 'GET / HTTP/1.1\r\nHo'],
  ['does not take its answer', get],
])('a client that %s is disconnected after 30 s, not before, and holds up no others', async (_, bytes) => {
  await using scene = await open(large)
  const socket = await connected(scene.port, bytes)
  await expect.poll(() => scene.clock.sleepers()).toBe(1)
  expect((await ask(scene.port, '/livez')).status).toBe(200)
  await expect.poll(() => scene.clock.sleepers()).toBe(1)
  await scene.clock.advance(29_999)
  expect(socket.closed).toBe(false)
  await scene.clock.advance(1)
  await closed(socket)
  expect(socket.bytesRead).toBeLessThan(large.length)
})

test('a client that does not take its answer holds up the end for a second', async () => {
  await using scene = await open(large)
  const socket = await connected(scene.port, get)
  await expect.poll(scene.answered).toBe(1)
  const end = scene.close()
  await scene.clock.advance(999)
  expect(socket.closed).toBe(false)
  await scene.clock.advance(1)
  await closed(socket)
  await end
})

test('of more than 256 connections the oldest gives way', async () => {
  await using scene = await open(large)
  const oldest = await connected(scene.port)
  const end = new Promise((resolve) => oldest.resume().once('error', resolve))
  const others: Socket[] = []
  for (let count = 1; count <= 256; count += 1) others.push(await connected(scene.port, count % 2 ? get : ''))
  // Not by the time that Node gives to a request.
  expect(await end).toMatchObject({ code: 'ECONNRESET' })
  expect(others.filter((socket) => socket.closed)).toEqual([])
  for (const socket of others) socket.destroy()
})

/** An endless answer of 64 KiB pieces, and how many were made. */
function pieces(): { body: AsyncIterable<string>; made: () => number; ended: Promise<undefined> } {
  let made = 0
  const ended = Promise.withResolvers<undefined>()
  async function* body(): AsyncGenerator<string> {
    try {
      for (;;) yield await Promise.resolve('x'.repeat(65_536 * Math.sign((made += 1))))
    } finally {
      ended.resolve(undefined)
    }
  }
  return { body: body(), made: () => made, ended: ended.promise }
}

test('an answer in pieces is made no faster than it is read, and not at all when its reader has gone', async () => {
  const endless = pieces()
  await using scene = await open(endless.body)
  const socket = await connected(scene.port, get)
  socket.pause()
  // What the kernel takes of unread bytes, and no more.
  await expect.poll(() => endless.made()).toBeGreaterThan(1)
  let before = -1
  await expect.poll(() => before === (before = endless.made())).toBe(true)
  expect(endless.made()).toBeLessThan(320)
  socket.resetAndDestroy()
  await endless.ended
})

test('an answer in pieces ends with its connection after 30 s', async () => {
  const endless = pieces()
  await using scene = await open(endless.body)
  const socket = await connected(scene.port, get)
  await expect.poll(() => endless.made()).toBeGreaterThan(1)
  await scene.clock.advance(30_000)
  await closed(socket)
  await endless.ended
})
