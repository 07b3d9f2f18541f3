// The real transport and TLS, directly and through a proxy: which failures never left, and by which code they are known.
import { createServer } from 'node:https'
import { createRequire } from 'node:module'
import { connect, createServer as createTcpServer, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { proxyFromEnvironment } from '../../src/platform/http/proxy.ts'
import { trustedAuthority, type Authority, type ServerCredentials } from '../support/certificates.ts'
import { startConnectProxy } from '../support/connect-proxy.ts'
import { startListening, type Listening } from '../support/listening.ts'
import { startRawServer } from '../support/raw-server.ts'
import { failureOf, ok, says, useTransport } from '../support/transport.ts'

const http = useTransport()
/** undici's own clock, which a test can move on. */
const undiciTimers = createRequire(import.meta.url)('undici/lib/util/timers.js') as { tick(ms?: number): void }
const patch = { method: 'PATCH', body: '{}' } as const

let authority: Authority
let [good, forPlatform, expired, forOther, forClients, odd]: ServerCredentials[] = []

beforeAll(async () => {
  authority = await trustedAuthority()
  ;[good, forPlatform, expired, forOther, forClients, odd] = await Promise.all([
    authority.issue('localhost'),
    authority.issue('platform.example'),
    authority.issue('localhost', -1),
    authority.issue('other.example'),
    authority.issue('localhost', 1, 'for clients'),
    authority.issue('localhost', 1, 'with an unknown critical extension'),
  ])
})

afterAll(() => {
  authority[Symbol.dispose]()
})

const tooOld = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const

interface TlsServer extends Listening {
  /** Requests that came. */
  requests: string[]
}

/** @param onRequest what it does in place of a response */
async function startTlsServer(credentials: ServerCredentials | undefined, onRequest?: () => void): Promise<TlsServer> {
  const requests: string[] = []
  const server = createServer({ ...credentials }, (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    if (onRequest === undefined) response.end('{}')
    else onRequest()
  })
  server.on('tlsClientError', () => undefined)
  return { ...(await startListening(server)), requests }
}

describe('a PATCH never leaves', () => {
  test.each([
    ['whose certificate has expired', 'CERT_HAS_EXPIRED', () => expired],
    ['whose certificate is for another host', 'ERR_TLS_CERT_ALTNAME_INVALID', () => forOther],
    ['whose certificate is for clients alone', 'INVALID_PURPOSE', () => forClients],
    ['whose certificate has an unknown critical extension', 'UNSPECIFIED', () => odd],
    ['that speaks TLS 1.1 alone', 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', () => good && { ...good, ...tooOld }],
  ])('to a server %s: %s', async (_, code, credentials) => {
    await using server = await startTlsServer(credentials())
    const failure = await failureOf(http.request(new URL(`https://localhost:${server.port}/`), patch))
    expect(failure).toMatchObject({ reason: 'tls', code, requestNotSent: true })
    expect(server.requests).toEqual([])
  })

  test('where the connection is reset within the handshake', async () => {
    await using server = await startRawServer(says(''), 'no TLS')
    const failure = await failureOf(http.request(new URL(`https://127.0.0.1:${server.url.port}/`), patch))
    expect(failure).toMatchObject({ reason: 'tls', requestNotSent: true })
  })

  test('where no connection is made within 5 s', async () => {
    await http.reopen({ connections: 1 })
    // It takes the connection, and then says nothing: the handshake never ends.
    await using server = await startRawServer(says(''))
    const answer = failureOf(http.request(new URL(`https://127.0.0.1:${server.url.port}/`), patch))
    await server.connected(1)
    undiciTimers.tick()
    undiciTimers.tick(5_500)
    // Ends the request in any case.
    await http.clock().advance(10_000)
    expect(await answer).toMatchObject({ reason: 'timeout', code: 'UND_ERR_CONNECT_TIMEOUT', requestNotSent: true })
  })
})

describe('it is not known whether a PATCH was taken', () => {
  test('when TLS breaks after the request was written', async () => {
    let client: Socket | undefined
    await using server = await startTlsServer(good, () => client?.write('no TLS record at all'))
    const between = createTcpServer((near) => {
      client = near
      const far = connect(server.port, '127.0.0.1')
      far.on('error', () => undefined)
      near.pipe(far)
      far.pipe(near)
    })
    await using listening = await startListening(between)
    const failure = await failureOf(http.request(new URL(`https://localhost:${listening.port}/`), patch))
    expect(failure.requestNotSent).toBe(false)
    expect(server.requests).toEqual(['PATCH /'])
  })
})

describe('through a proxy', () => {
  const platform = new URL('https://platform.example/v1/webhooks')

  test('goes what is for another host, with the credentials of its URL', async () => {
    await using server = await startTlsServer(forPlatform)
    await using proxy = await startConnectProxy(server.port)
    const HTTPS_PROXY = `http://user:p%40ss@127.0.0.1:${proxy.port}`
    await http.reopen({ connections: 2, proxy: proxyFromEnvironment({ HTTPS_PROXY }) })
    expect(await http.request(platform, patch)).toMatchObject({ status: 200, body: '{}' })
    const authorization = `Basic ${Buffer.from('user:p@ss').toString('base64')}`
    expect(proxy.tunnels).toEqual([{ to: 'platform.example:443', authorization }])
    expect(server.requests).toEqual(['PATCH /v1/webhooks'])
  })

  test('goes nothing that NO_PROXY names, nothing for this machine, and nothing that is to go directly', async () => {
    await using server = await startTlsServer(good)
    await using direct = await startRawServer(says(ok))
    await using proxy = await startConnectProxy(server.port, 502)
    const url = `http://127.0.0.1:${proxy.port}`
    await http.reopen({
      connections: 2,
      proxy: proxyFromEnvironment({ https_proxy: url, HTTP_PROXY: url, NO_PROXY: 'nowhere.invalid' }),
    })
    expect(await http.request(new URL(`https://localhost:${server.port}/`))).toMatchObject({ status: 200 })
    expect(await http.request(direct.url)).toMatchObject({ status: 200 })
    expect((await failureOf(http.request(new URL('https://nowhere.invalid/')))).code).toMatch(/ENOTFOUND|EAI_AGAIN/)
    const health = new URL('https://receiver.invalid/healthz')
    expect((await failureOf(http.request(health, { direct: true }))).code).toMatch(/ENOTFOUND|EAI_AGAIN/)
    expect(proxy.tunnels).toEqual([])
  })

  /** A PATCH through this proxy never leaves. */
  async function expectUnsent(HTTPS_PROXY: string, reason: string, code: RegExp): Promise<void> {
    await http.reopen({ connections: 2, proxy: proxyFromEnvironment({ HTTPS_PROXY }) })
    const failure = await failureOf(http.request(platform, patch))
    expect(failure).toMatchObject({ reason, code: expect.stringMatching(code) as string, requestNotSent: true })
  }

  test.each([
    ['where nothing listens', 'http://127.0.0.1:1', /^PROXY_ECONNREFUSED$/],
    ['that DNS does not know', 'http://proxy.invalid:3128', /^PROXY_(?:ENOTFOUND|EAI_AGAIN)$/],
  ])('%s a PATCH never leaves, and the code says that it is the proxy', async (_, url, code) => {
    await expectUnsent(url, 'connection', code)
  })

  test.each([403, 407])('that refuses with %i a PATCH never leaves, and the code says it', async (status) => {
    await using proxy = await startConnectProxy(1, status)
    await expectUnsent(`http://127.0.0.1:${proxy.port}`, 'connection', new RegExp(`^PROXY_STATUS_${status}$`))
  })

  test('whose certificate is for another host a PATCH never leaves, and the code says that it is the proxy', async () => {
    await using server = await startTlsServer(forOther)
    await expectUnsent(`https://localhost:${server.port}`, 'tls', /^PROXY_ERR_TLS_CERT_ALTNAME_INVALID$/)
  })

  test('that does not answer a PATCH never leaves either, and its place is free again', async () => {
    await using proxy = await startConnectProxy(1, 'nothing')
    const HTTPS_PROXY = `http://127.0.0.1:${proxy.port}`
    await http.reopen({ connections: 1, proxy: proxyFromEnvironment({ HTTPS_PROXY }) })
    for (let i = 0; i < 2; i += 1) {
      const failure = failureOf(http.request(platform, patch))
      await expect.poll(() => proxy.tunnels.length).toBe(i + 1)
      undiciTimers.tick()
      undiciTimers.tick(5_500)
      const told = { reason: 'timeout', code: 'PROXY_UND_ERR_HEADERS_TIMEOUT', requestNotSent: true }
      expect(await failure).toMatchObject(told)
    }
  })

  test('the certificate is the platform’s, checked as ever', async () => {
    await using server = await startTlsServer(forOther)
    await using proxy = await startConnectProxy(server.port)
    await expectUnsent(`http://127.0.0.1:${proxy.port}`, 'tls', /^ERR_TLS_CERT_ALTNAME_INVALID$/)
    expect(server.requests).toEqual([])
  })
})
