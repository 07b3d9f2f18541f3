// Every fault as a client meets it on the wire, and which calls it hits.
import { request, type IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { retryRequestBody } from '../../src/platform/wire.ts'
import { createFaults, type Fault, type FaultRule } from '../../sandbox/api/faults.ts'
import type { CallKind, SandboxRequest } from '../../sandbox/api/http.ts'
import { createSequence } from '../../sandbox/records/hash.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { claimsFor, client, errorOf, formOf, postForm, sign, token } from './client.ts'
import { startPlatform } from '../support/platform.ts'

interface RawAnswer {
  status: number
  headers: IncomingMessage['headers']
  body: string
  /** True when the HTTP message came whole. */
  complete: boolean
}

/** A call on a connection of its own; rejects with the socket's error when no answer begins. */
function call(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: string },
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      url,
      { method: options.method ?? 'GET', headers: options.headers ?? {}, agent: false },
      (answer) => {
        let body = ''
        answer.setEncoding('utf8').on('data', (part: string) => (body += part))
        const end = (): void => {
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body, complete: answer.complete })
        }
        answer.on('end', end).on('error', end)
      },
    )
    outgoing.on('error', reject).end(options.body)
  })
}

interface Raw {
  list(): Promise<RawAnswer>
  retry(id: string): Promise<RawAnswer>
}

async function raw(sandbox: Sandbox): Promise<Raw> {
  const headers = { authorization: `Bearer ${await token(sandbox)}`, 'content-type': 'application/json' }
  const body = JSON.stringify(retryRequestBody)
  return {
    list: () => call(`${sandbox.baseUrl}/webhooks`, { headers }),
    retry: (id) => call(`${sandbox.baseUrl}/webhooks/${id}`, { method: 'PATCH', headers, body }),
  }
}

test.each<[Fault, Partial<RawAnswer>]>([
  [
    { kind: 'status', status: 503 },
    { status: 503, body: expect.stringContaining('"code":"sandbox.fault"') as string },
  ],
  [
    { kind: 'status', status: 500, code: 'some.code' },
    { status: 500, body: expect.stringContaining('"code":"some.code"') as string },
  ],
  [
    { kind: 'status', status: 502, body: 'html' },
    { status: 502, body: expect.stringContaining('<html>') as string },
  ],
  [
    { kind: 'status', status: 204, body: 'empty' },
    { status: 204, body: '' },
  ],
  [
    { kind: 'status', status: 200, body: { text: 'null' } },
    { status: 200, body: 'null' },
  ],
  [
    { kind: 'redirect', location: 'http://127.0.0.1:1/' },
    { status: 302, body: '' },
  ],
  [
    { kind: 'redirect', location: '/', status: 307 },
    { status: 307, body: '' },
  ],
])('%o answers in place of the work', async (fault, expected) => {
  await using sandbox = await startPlatform()
  const id = sandbox.addWebhook()
  const platform = await raw(sandbox)
  sandbox.faults.set({ operation: 'api', fault })
  expect(await platform.list()).toMatchObject(expected)
  expect(await platform.retry(id)).toMatchObject(expected)
  expect(sandbox.acceptedRetries(id)).toBe(0)
  sandbox.faults.set()
  expect((await platform.list()).status).toBe(200)
})

test.each([
  [{ seconds: 7 }, 7],
  [{ seconds: 7, form: 'date' }, 7],
  ['absent', NaN],
] as const)('throttling, once, with Retry-After %o', async (retryAfter, seconds) => {
  await using sandbox = await startPlatform()
  const platform = await raw(sandbox)
  sandbox.faults.set({ operation: 'list', count: 1, fault: { kind: 'throttle', retryAfter } })
  const { headers, status } = await platform.list()
  expect(status).toBe(429)
  const told = headers['retry-after'] ?? ''
  const until = /^\d+$/.test(told) ? Number(told) : (Date.parse(told) - Date.parse(headers.date ?? '')) / 1000
  expect(until).toBe(seconds)
  expect((await platform.list()).status).toBe(200)
})

test.each([
  ['before', 0],
  ['after', 1],
] as const)('a connection reset %s the work: the retry was accepted %d times', async (when, accepted) => {
  await using sandbox = await startPlatform()
  const id = sandbox.addWebhook()
  const platform = await raw(sandbox)
  sandbox.faults.set({ operation: 'retry', fault: { kind: 'reset', when } })
  await expect(platform.retry(id)).rejects.toMatchObject({ code: 'ECONNRESET' })
  await sandbox.idle()
  expect(sandbox.acceptedRetries(id)).toBe(accepted)
  expect(sandbox.receiver.deliveries(id)).toBe(accepted)
  expect(sandbox.stats.requests.retry).toEqual({ none: 1 })
})

test('an applied retry whose answer is an error', async () => {
  await using sandbox = await startPlatform()
  const id = sandbox.addWebhook()
  const platform = await raw(sandbox)
  sandbox.faults.set({ operation: 'retry', fault: { kind: 'status', status: 504, body: 'html', applied: true } })
  expect((await platform.retry(id)).status).toBe(504)
  expect(sandbox.record(id)?.status).toBe('successful')
})

test('a cut body promises more than it brings', async () => {
  await using sandbox = await startPlatform()
  sandbox.addWebhook()
  const platform = await raw(sandbox)
  sandbox.faults.set({ operation: 'list', fault: { kind: 'cut' } })
  const answer = await platform.list()
  expect(answer.complete).toBe(false)
  expect(Number(answer.headers['content-length'])).toBeGreaterThan(answer.body.length)
})

test('broken JSON comes whole, but is none', async () => {
  await using sandbox = await startPlatform()
  const platform = await raw(sandbox)
  sandbox.faults.set({ operation: 'list', fault: { kind: 'broken-json' } })
  const answer = await platform.list()
  expect(answer).toMatchObject({ status: 200, complete: true })
  expect(() => JSON.parse(answer.body) as unknown).toThrow(SyntaxError)
})

test('a body of many MiB', async () => {
  await using sandbox = await startPlatform()
  const platform = await raw(sandbox)
  sandbox.faults.set({ operation: 'list', fault: { kind: 'huge-body', mebibytes: 20 } })
  const { body, headers } = await platform.list()
  expect(headers['content-length']).toBe(String(20 * 2 ** 20))
  expect(JSON.parse(body)).toHaveProperty('data.webhooks')
})

test('a dripping body comes piece by piece as the clock goes on', async () => {
  const clock = createVirtualClock()
  await using sandbox = await startPlatform({ clock })
  const form = formOf(await sign(claimsFor(sandbox, clock.now())))
  sandbox.faults.set({ operation: 'token', fault: { kind: 'drip', bytes: 50, everyMs: 1000 } })
  const answer = await postForm(sandbox, form)
  expect(answer.status).toBe(200)
  const length = Number(answer.headers.get('content-length'))
  const text = answer.text()
  await clock.advance(Math.ceil(length / 50) * 1000)
  expect(await text).toHaveLength(length)
})

test('latency holds the answer back by the clock; others go on', async () => {
  const clock = createVirtualClock()
  await using sandbox = await startPlatform({ clock })
  const slow = formOf(await sign(claimsFor(sandbox, clock.now())))
  sandbox.faults.set({ operation: 'token', count: 1, fault: { kind: 'latency', ms: 5000 } })
  const answer = postForm(sandbox, slow)
  await clock.run(answer, 5000)
  expect((await answer).status).toBe(200)
  expect(sandbox.faults.hits()).toEqual({ latency: 1 })
})

test('a call that hangs is left hanging until the client gives up', async () => {
  await using sandbox = await startPlatform()
  const headers = { authorization: `Bearer ${await token(sandbox)}` }
  sandbox.faults.set({ operation: 'list', fault: { kind: 'hang' } })
  const giveUp = new AbortController()
  const answer = fetch(`${sandbox.baseUrl}/webhooks`, { headers, signal: giveUp.signal })
  await expect.poll(() => sandbox.stats.requests.list['none']).toBe(1)
  giveUp.abort()
  await expect(answer).rejects.toThrow()
})

test('the answer to a retry can show another record', async () => {
  await using sandbox = await startPlatform()
  const id = sandbox.addWebhook()
  const platform = await client(sandbox)
  sandbox.faults.set({ operation: 'retry', fault: { kind: 'wrong-id' } })
  expect((await platform.retry(id)).id).not.toBe(id)
  expect(sandbox.record(id)?.status).toBe('successful')
})

test('no Date header, by fault or always', async () => {
  await using sandbox = await startPlatform()
  const platform = await raw(sandbox)
  expect((await platform.list()).headers.date).toBeDefined()
  sandbox.faults.set({ operation: 'list', count: 1, fault: { kind: 'no-date' } })
  expect((await platform.list()).headers.date).toBeUndefined()
  sandbox.read({ dateHeader: false })
  expect((await platform.list()).headers.date).toBeUndefined()
})

test.each<[Fault, number, string]>([
  [{ kind: 'refuse-token' }, 401, '"error":"invalid_client"'],
  [{ kind: 'refuse-token', error: 'unauthorized_client', status: 400 }, 400, '"error":"unauthorized_client"'],
  [{ kind: 'status', status: 200, body: 'html' }, 200, '<html>'],
  [{ kind: 'expires-in' }, 200, '"token_type":"Bearer","scope":"api"'],
  [{ kind: 'expires-in', value: 0 }, 200, '"expires_in":0'],
  [{ kind: 'expires-in', value: '3600' }, 200, '"expires_in":"3600"'],
])('the token endpoint under %o', async (fault, status, body) => {
  await using sandbox = await startPlatform()
  sandbox.faults.set({ operation: 'token', fault })
  const answer = await postForm(sandbox, formOf(await sign(claimsFor(sandbox))))
  expect(answer.status).toBe(status)
  expect(await answer.text()).toContain(body)
})

test('a predicate picks the calls that are hit', async () => {
  await using sandbox = await startPlatform()
  const platform = await client(sandbox)
  sandbox.faults.set({
    operation: 'list',
    fault: { kind: 'status', status: 500 },
    when: ({ query }) => query.get('metadata.page.number') === '2',
  })
  const statuses = await Promise.all(
    ['0', '1', '2'].map(async (page) => (await platform.get({ 'metadata.page.number': page })).status),
  )
  expect(statuses).toEqual([200, 200, 500])
})

test('paths that the platform does not have: 404 without a code', async () => {
  await using sandbox = await startPlatform()
  for (const path of ['/', '/webhooks/', '/v2/webhooks', '/webhooks/a/b']) {
    const answer = await fetch(`${sandbox.baseUrl}${path}`)
    expect(answer.status).toBe(404)
    expect((await errorOf(answer)).code).toBeUndefined()
  }
})

test('a request larger than a mebibyte ends its connection, and the next one is served', async () => {
  await using sandbox = await startPlatform()
  const url = `${sandbox.issuerUrl}/protocol/openid-connect/token`
  await expect(call(url, { method: 'POST', body: 'x'.repeat(3 * 2 ** 20) })).rejects.toThrow()
  expect(await token(sandbox)).toMatch(/\w/)
})

function requestOf(operation: CallKind, webhookId?: string): SandboxRequest {
  return { operation, method: 'GET', path: '/', query: new URLSearchParams(), headers: {}, body: '', webhookId }
}

const oneOfEach = (['token', 'list', 'retry', 'other'] as const).map((operation) => requestOf(operation))
const lists = Array.from({ length: 6 }, () => requestOf('list'))
const named = [requestOf('retry', 'ABC'), requestOf('retry', 'abd'), requestOf('retry')]

test.each<[Omit<FaultRule, 'fault'>, SandboxRequest[], number[]]>([
  [{ operation: 'token' }, oneOfEach, [1, 0, 0, 0]],
  [{ operation: 'list' }, oneOfEach, [0, 1, 0, 0]],
  [{ operation: 'retry' }, oneOfEach, [0, 0, 1, 0]],
  [{ operation: 'api' }, oneOfEach, [0, 1, 1, 0]],
  [{ operation: 'any' }, oneOfEach, [1, 1, 1, 0]],
  [{ operation: 'list', skip: 2, count: 3 }, lists, [0, 0, 1, 1, 1, 0]],
  [{ operation: 'list', probability: 0 }, lists, [0, 0, 0, 0, 0, 0]],
  [{ operation: 'retry', webhookIds: ['abc'] }, named, [1, 0, 0]],
])('the rule %o hits', (rule, calls, expected) => {
  const faults = createFaults(createSequence(1), [{ ...rule, fault: { kind: 'latency', ms: 5 } }])
  expect(calls.map((request) => faults.draw(request).length)).toEqual(expected)
})
