// The end of the ops server: answers under way are finished, and no other client is waited for.
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { ask, closed, contentType, dial, start, startSlow } from '../support/ops-server.ts'

describe('the end', () => {
  test('waits a second for half a request, not longer', async () => {
    await using server = await start()
    const socket = dial(server.port, 'GET /livez HTTP/1.1\r\nHo')
    // The other one's answer shows that the server has seen the first.
    await ask(server.port, '/livez')
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

  test('waits a second for who is being answered, not longer', async () => {
    await using server = await startSlow()
    const socket = dial(server.port, 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n')
    await server.asked
    const closing = server.close()
    await server.clock.advance(1_000)
    await closing
    await closed(socket)
  })

  test('waits a second for who reads slowly, not longer', async () => {
    await using server = await start({ metrics: () => Promise.resolve({ text: 'x'.repeat(50_000_000), contentType }) })
    const socket = dial(server.port, 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(socket, 'readable')
    const closing = server.close()
    await server.clock.advance(1_000)
    await closing
    socket.destroy()
  })

  test('takes no new connection', async () => {
    await using server = await start()
    await server.close()
    await expect(ask(server.port, '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })

  test('may come twice', async () => {
    await using server = await start()
    await Promise.all([server.close(), server.close()])
    await server.close()
  })
})
