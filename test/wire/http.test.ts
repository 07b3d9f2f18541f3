// The real transport against servers on loopback: whole responses, odd ones, too large ones and redirects.
import { inspect } from 'node:util'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { startRawServer, type OnRequest } from '../support/raw-server.ts'
import { failureOf, json, maxBytes, ok, says, useTransport } from '../support/transport.ts'

const http = useTransport()

const compressed =
  (encoding: string, body: Buffer): OnRequest =>
  (socket) => {
    socket.write(`${json}Content-Encoding: ${encoding}\r\nContent-Length: ${body.length}\r\n\r\n`)
    socket.write(body)
  }

describe('a whole answer', () => {
  test('is given as it is: status, first of each header, body', async () => {
    await using server = await startRawServer(
      says(`${json}X-Twice: one\r\nX-Twice: two\r\nDATE: now\r\nContent-Length: 13\r\n\r\n{"a":"ä€"}`),
    )
    const answer = await http.request(server.url)
    expect(answer).toMatchObject({ status: 200, body: '{"a":"ä€"}' })
    expect(answer.headers).toMatchObject({ 'x-twice': 'one', date: 'now', 'content-type': 'application/json' })
  })

  const euro = Buffer.from('€')

  test.each<[string, string | (string | Buffer)[], number, string]>([
    ['no content', 'HTTP/1.1 204 No Content\r\n\r\n', 204, ''],
    ['early hints before', `HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${json}Content-Length: 2\r\n\r\n{}`, 200, '{}'],
    [
      'chunks that cut a character in two',
      [
        `${json}Transfer-Encoding: chunked\r\n\r\n1\r\n`,
        euro.subarray(0, 1),
        '\r\n2\r\n',
        euro.subarray(1),
        '\r\n0\r\n\r\n',
      ],
      200,
      '€',
    ],
    ['long headers', `${json}${'X-Cookie: CANARY\r\n'.repeat(5000)}Content-Length: 2\r\n\r\n{}`, 200, '{}'],
    ['a status of its own', 'HTTP/1.1 799 Oh\r\nContent-Length: 2\r\n\r\nno', 799, 'no'],
  ])('with %s', async (_, bytes, status, body) => {
    await using server = await startRawServer(says(...[bytes].flat()))
    expect(await http.request(server.url)).toMatchObject({ status, body })
  })

  test('carries the times of the monotonic clock: sent before, received when the head had come', async () => {
    const clock = http.clock()
    const before = clock.monotonic()
    await using server = await startRawServer((socket) => {
      const answer = async (): Promise<void> => {
        await clock.advance(300)
        socket.write(`${json}Content-Length: 2\r\n\r\n`)
        await clock.advance(500)
        socket.write('{}')
      }
      void answer()
    })
    const { sentAt, receivedAt } = await http.request(server.url)
    expect(sentAt).toBe(before)
    expect(receivedAt).toBeGreaterThanOrEqual(before + 300)
    expect(receivedAt).toBeLessThanOrEqual(before + 800)
  })
})

describe('what is sent', () => {
  test('a PATCH with its body, a GET without one, both as asked', async () => {
    await using server = await startRawServer(says(ok))
    const headers = { accept: 'application/json', 'accept-encoding': 'identity', authorization: 'Bearer t' }
    await http.request(server.url, { method: 'PATCH', body: '{"ä":1}', headers })
    await http.request(server.url, { headers })
    const [patch = '', get = ''] = server.requests.map((text) => Buffer.from(text, 'latin1').toString())
    expect(patch).toMatch(/^PATCH \/webhooks HTTP\/1\.1\r\n/)
    expect(patch).toMatch(/content-length: 8\r\n/i)
    expect(patch.endsWith('\r\n\r\n{"ä":1}')).toBe(true)
    expect(get).toMatch(/^GET \/webhooks HTTP\/1\.1\r\n/)
    expect(get.endsWith('\r\n\r\n')).toBe(true)
    for (const text of [patch, get]) {
      expect(text).toContain('accept-encoding: identity\r\n')
      expect(text).toContain('authorization: Bearer t\r\n')
      expect(text).toContain('user-agent: webhook-reconciler/1.2.3\r\n')
    }
  })

  test.each(['a\r\nX-Evil: 1', 'a\nb', 'a\0b', '\u{1F600}'])(
    'a header value %j never goes out, is not reported, and uses up no connection',
    async (value) => {
      await http.reopen({ connections: 1 })
      await using server = await startRawServer(says(ok))
      const failure = await failureOf(http.request(server.url, { headers: { authorization: `Bearer CANARY${value}` } }))
      expect(failure).toMatchObject({ reason: 'connection', code: 'ERR_INVALID_CHAR', requestNotSent: true })
      expect(inspect(failure, { depth: 9, showHidden: true })).not.toContain('CANARY')
      expect(server.requests).toEqual([])
      expect((await http.request(server.url)).status).toBe(200)
    },
  )
})

describe('the size', () => {
  const chunked = (bytes: number): string =>
    `${json}Transfer-Encoding: chunked\r\n\r\n${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`

  test('at the limit is read, with and without a length', async () => {
    await using server = await startRawServer((socket, index) => {
      socket.write(
        index === 0
          ? `${json}Content-Length: ${maxBytes}\r\n\r\n${'x'.repeat(maxBytes)}`
          : `${chunked(maxBytes)}0\r\n\r\n`,
      )
    })
    expect((await http.request(server.url)).body).toHaveLength(maxBytes)
    expect((await http.request(server.url)).body).toHaveLength(maxBytes)
  })

  test.each<[string, string]>([
    ['announced, before a byte of it is read', `${json}Content-Length: ${maxBytes + 1}\r\n\r\n`],
    ['not announced, in small pieces', `${chunked(maxBytes)}1\r\nx\r\n`],
  ])('above the limit, %s, ends the connection', async (_, bytes) => {
    await using server = await startRawServer(says(bytes))
    expect((await failureOf(http.request(server.url))).reason).toBe('too-large')
    await server.idle()
  })

  test.each<[string, (body: Buffer) => Buffer]>([
    ['gzip', gzipSync],
    [' GZip ', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['zstd', zstdCompressSync],
  ])('counts after decoding, of a server that compresses unasked (%s)', async (encoding, encode) => {
    const packed = encode(Buffer.alloc(maxBytes, 'x'))
    await using server = await startRawServer(compressed(encoding, packed))
    expect((await http.request(server.url)).body).toBe('x'.repeat(maxBytes))
    expect(await failureOf(http.request(server.url, { maxBytes: maxBytes - 1 }))).toMatchObject({ reason: 'too-large' })
  })

  test.each<[string, string, string]>([
    ['that nobody reads', 'X-Snappy', 'CONTENT_ENCODING_X_SNAPPY'],
    ['of an object', 'constructor', 'CONTENT_ENCODING_CONSTRUCTOR'],
    ['that it has not', 'gzip', 'CONTENT_ENCODING_GZIP'],
    ['of several', 'gzip, br', 'CONTENT_ENCODING_GZIP_BR'],
    ['of a charset', 'UTF-8', 'CONTENT_ENCODING_UTF_8'],
  ])('of an encoding %s is not known: its name is', async (_, encoding, code) => {
    await using server = await startRawServer(compressed(encoding, Buffer.from('CANARY')))
    expect(await failureOf(http.request(server.url))).toMatchObject({ reason: 'invalid-body', code })
    const streamed = http.request(server.url, { onChunk: () => undefined })
    expect(await failureOf(streamed)).toMatchObject({ reason: 'invalid-body', code })
  })

  test.each([
    ['UTF-8', '{"a":1}'],
    ['none', '\ufeff\n[1]'],
    ['', ' <html>'],
    ['gzip', '{"a":1}'],
  ])(
    'of the encoding %j is read, without a byte order mark, if it begins like JSON or a page: %j',
    async (encoding, body) => {
      await using server = await startRawServer(compressed(encoding, Buffer.from(body)))
      expect(await http.request(server.url)).toMatchObject({ body: body.replace('\ufeff', '') })
      const chunks: Uint8Array[] = []
      await http.request(server.url, { onChunk: (chunk) => chunks.push(chunk) })
      expect(Buffer.concat(chunks).toString()).toBe(body)
    },
  )

  test('an answer without a body has no encoding to read', async () => {
    await using server = await startRawServer(compressed('gzip', Buffer.alloc(0)))
    expect(await http.request(server.url)).toMatchObject({ status: 200, body: '' })
  })
})

test.each([301, 302, 303, 307, 308])('a redirect (%i) is an answer, the other place is never asked', async (status) => {
  await using elsewhere = await startRawServer(says(ok))
  await using server = await startRawServer(
    says(`HTTP/1.1 ${status} Over there\r\nLocation: ${elsewhere.url.href}\r\nContent-Length: 0\r\n\r\n`),
  )
  for (const method of ['GET', 'POST', 'PATCH'] as const) {
    expect(await http.request(server.url, { method })).toMatchObject({ status, body: '' })
  }
  expect(elsewhere.connections()).toBe(0)
})
