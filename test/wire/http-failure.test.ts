// The real transport against a network that is half dead: what breaks, hangs, drips or is given up, and what is left of it.
import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { callAdvice } from '../../src/platform/http/call-advice.ts'
import { startRawServer, type OnRequest } from '../support/raw-server.ts'
import { failureOf, json, ok, says, timeoutMs, useTransport } from '../support/transport.ts'

const http = useTransport()

describe('a connection that breaks', () => {
  const half = `${json}Content-Length: 100\r\n\r\n{"data":`
  const chunk = `${json}Transfer-Encoding: chunked\r\n\r\n8\r\n{"data":\r\n`

  test.each<[string, OnRequest]>([
    ['reset before the head', (socket) => socket.resetAndDestroy()],
    ['closed within the head', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-')],
    ['reset within the body', (socket) => socket.write(half, () => socket.resetAndDestroy())],
    ['closed between chunks', (socket) => socket.end(chunk)],
    ['to what speaks no HTTP', says('SSH-2.0-OpenSSH_9.2\r\n\r\n')],
    ['switched to another protocol', says('HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n')],
  ])('%s is a failure, reported once and not repeated', async (_, onRequest) => {
    await using server = await startRawServer(onRequest)
    const failure = await failureOf(http.request(server.url, { method: 'PATCH', body: '{}' }))
    expect(failure.reason).toBe('connection')
    await server.idle()
    expect(server.requests).toHaveLength(1)
  })

  test.each([
    ['refused', 'http://127.0.0.1:1/webhooks', /^ECONNREFUSED$/],
    ['no such host', 'http://nobody.invalid/webhooks', /^(?:ENOTFOUND|EAI_AGAIN)$/],
  ])('%s', async (_, url, code) => {
    const failure = await failureOf(http.request(new URL(url)))
    expect(failure).toMatchObject({ reason: 'connection', requestNotSent: true })
    expect(failure.code).toMatch(code)
    expect(failure.message).not.toContain('webhooks')
  })
})

test('a 100 Continue that nobody asked for is a failure, which the advice names', async () => {
  await using server = await startRawServer(says(`HTTP/1.1 100 Continue\r\n\r\n${ok}`))
  const failure = await failureOf(http.request(server.url, { method: 'POST', body: '{}' }))
  expect(failure).toMatchObject({ reason: 'connection', requestNotSent: false })
  expect(callAdvice(failure, { address: 'here', late: 'soon' })).toMatch(/sends an unrequested 100 Continue/)
  await server.idle()
})

describe('the deadline', () => {
  test.each<[string, OnRequest]>([
    ['a head that never comes', () => undefined],
    ['a body that stops half way', says(`${json}Content-Length: 10\r\n\r\n{"a"`)],
    ['a connection that stays open after HTTP/1.0', says('HTTP/1.0 200 OK\r\n\r\n{}')],
  ])('ends %s, and its connection', async (_, onRequest) => {
    await using server = await startRawServer(onRequest)
    const answer = failureOf(http.request(server.url))
    await server.received(1)
    await http.clock().advance(timeoutMs - 1)
    expect(http.clock().sleepers()).toBe(1)
    await http.clock().advance(1)
    expect(await answer).toMatchObject({ reason: 'timeout', code: 'DEADLINE', requestNotSent: false })
    await server.idle()
  })

  test('ends a body that drips: every byte in time, the whole never', async () => {
    let drips = 0
    await using server = await startRawServer((socket) => {
      socket.setNoDelay(true)
      socket.write(`${json}Content-Length: 900\r\n\r\n`)
      const drip = async (): Promise<void> => {
        while (!socket.destroyed) {
          await http.clock().sleep(500)
          drips += 1
          socket.write('x')
        }
      }
      void drip()
    })
    const answer = failureOf(http.request(server.url))
    await server.received(1)
    await http.clock().advance(timeoutMs)
    expect(await answer).toMatchObject({ reason: 'timeout', code: 'DEADLINE' })
    await server.idle()
    expect(drips).toBeGreaterThanOrEqual(19)
    await http.clock().advance(500)
  })

  test('covers the wait for a free connection; what waited was never sent', async () => {
    await http.reopen({ connections: 1 })
    await using server = await startRawServer((socket, index) => {
      if (index > 0) socket.write(ok)
    })
    const first = failureOf(http.request(server.url, { timeoutMs: 5_000 }))
    await server.received(1)
    const second = failureOf(http.request(server.url, { timeoutMs: 2_000 }))
    await http.clock().advance(2_000)
    expect(await second).toMatchObject({ reason: 'timeout', code: 'DEADLINE', requestNotSent: true })
    await http.clock().advance(3_000)
    expect((await first).code).toBe('DEADLINE')
    expect(server.requests).toHaveLength(1)
    expect((await http.request(server.url)).status).toBe(200)
  })
})

describe('an abort', () => {
  const reason = new Error('enough')

  test('before the call sends nothing', async () => {
    await using server = await startRawServer(says(''))
    await expect(http.request(server.url, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    expect(server.connections()).toBe(0)
  })

  test.each<[string, OnRequest]>([
    ['for the head', () => undefined],
    ['for the body', says(`${json}Content-Length: 10\r\n\r\n{`)],
  ])('while it waits %s rejects with its reason, and ends the connection', async (_, onRequest) => {
    await using server = await startRawServer(onRequest)
    const cancel = new AbortController()
    const answer = http.request(server.url, { signal: cancel.signal })
    await server.received(1)
    await http.clock().settle()
    cancel.abort(reason)
    await expect(answer).rejects.toBe(reason)
    await server.idle()
  })

  test('while it waits for a connection takes it out of the queue', async () => {
    await http.reopen({ connections: 1 })
    await using server = await startRawServer(() => undefined)
    const first = failureOf(http.request(server.url))
    await server.received(1)
    const cancel = new AbortController()
    const second = http.request(server.url, { signal: cancel.signal })
    cancel.abort(reason)
    await expect(second).rejects.toBe(reason)
    await http.clock().advance(timeoutMs)
    await first
    expect(server.requests).toHaveLength(1)
  })

  test('leaves no listener on a signal that lives on', async () => {
    await using server = await startRawServer((socket, index) => {
      if (index % 2 === 0) socket.write(ok)
      else socket.resetAndDestroy()
    })
    const { signal } = new AbortController()
    for (let i = 0; i < 6; i += 1) await http.request(server.url, { signal }).catch(() => undefined)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

describe('connections', () => {
  test('are kept and used again', async () => {
    await using server = await startRawServer(says(ok))
    for (let i = 0; i < 5; i += 1) {
      await http.request(server.url)
      // undici takes a connection back a turn after its response.
      await http.clock().settle()
    }
    expect(server.connections()).toBe(1)
  })

  test('that die under a second request fail it; a PATCH is not sent twice', async () => {
    await using server = await startRawServer((socket, index) => {
      if (index === 1) socket.resetAndDestroy()
      else socket.write(ok)
    })
    await http.request(server.url)
    const failure = await failureOf(http.request(server.url, { method: 'PATCH', body: '{}' }))
    expect(failure.reason).toBe('connection')
    expect(server.requests).toHaveLength(2)
    expect((await http.request(server.url)).status).toBe(200)
  })

  test('are at most as many as allowed', async () => {
    await using server = await startRawServer((socket) => setImmediate(() => socket.write(ok)))
    await Promise.all(Array.from({ length: 40 }, () => http.request(server.url)))
    expect(server.connections()).toBeLessThanOrEqual(4)
    expect(server.requests).toHaveLength(40)
  })

  test('all end with close, and what was under way fails', async () => {
    await using server = await startRawServer((socket, index) => {
      if (index === 0) socket.write(ok)
    })
    await http.request(server.url)
    const answer = failureOf(http.request(server.url))
    await server.received(2)
    await http.close()
    expect((await answer).reason).toBe('connection')
    await server.idle()
    expect((await failureOf(http.request(server.url))).reason).toBe('connection')
  })
})
