// Faults as they are on the wire, those that a client need not notice, and which calls a fault hits.
// What the others do to a call, test/daemon/readings.test.ts expects: it fails without it.
import { expect, test } from 'vitest'
import { createFaults, type Fault, type FaultRule } from '../../sandbox/api/faults.ts'
import type { CallKind, SandboxRequest } from '../../sandbox/api/http.ts'
import { createSequence } from '../../sandbox/records/hash.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { claimsFor, client, errorOf, formOf, postForm, sign, token } from './client.ts'
import { startPlatform } from '../support/platform.ts'

test.each<[Fault, number, RegExp]>([
  [{ kind: 'status', status: 500, code: 'some.code' }, 500, /"code":"some.code"/],
  [{ kind: 'status', status: 502, body: 'html' }, 502, /<html>/],
  [{ kind: 'status', status: 200, body: { text: 'null' } }, 200, /^null$/],
  [{ kind: 'broken-json' }, 200, /^\{"workflow"[^]*[^}]$/],
])('%o: a list is answered %d with %s', async (fault, status, body) => {
  await using sandbox = await startPlatform()
  const platform = await client(sandbox)
  sandbox.faults.set({ operation: 'api', count: 1, fault })
  const answer = await platform.get()
  expect(answer.status).toBe(status)
  expect(await answer.text()).toMatch(body)
  expect((await platform.get()).status).toBe(200)
})

test.each<[Fault, string]>([
  [{ kind: 'reset', when: 'before' }, 'fetch failed'],
  [{ kind: 'reset', when: 'after' }, 'fetch failed'],
  [{ kind: 'cut' }, 'terminated'],
])('%o over HTTP: %s', async (fault, message) => {
  await using sandbox = await startPlatform()
  const platform = await client(sandbox)
  sandbox.faults.set({ operation: 'list', fault })
  await expect(platform.get().then((answer) => answer.text())).rejects.toThrow(message)
})

test('a dripping body comes piece by piece as the clock goes on', async () => {
  const clock = createVirtualClock()
  await using sandbox = await startPlatform({ clock })
  const form = formOf(await sign(claimsFor(sandbox, clock.now())))
  sandbox.faults.set({ operation: 'token', fault: { kind: 'drip', bytes: 50, everyMs: 1000 } })
  const answer = await postForm(sandbox, form)
  expect(clock.sleepers()).toBe(1)
  const length = Number(answer.headers.get('content-length'))
  const text = answer.text()
  await clock.advance(Math.ceil(length / 50) * 1000)
  expect(await text).toHaveLength(length)
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
  await expect(fetch(url, { method: 'POST', body: 'x'.repeat(3 * 2 ** 20) })).rejects.toThrow()
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
