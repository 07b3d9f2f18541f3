// What the client makes of every answer to a list and to a retry, under any HTTP status.
import { describe, expect, test } from 'vitest'
import type { RetryAnswer, RetryResult } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { TransportError, type Reason } from '../../../src/platform/http/http.ts'
import { TokenError } from '../../../src/platform/auth/token-answer.ts'
import { createClientUnderTest, type ClientUnderTest } from '../../support/platform-client.ts'
import type { Reply } from '../../support/scripted-server.ts'
import { webhookId, wireInvalidStatus, wirePage, wireRetried, wireWebhook } from '../../support/webhooks.ts'

const { signal } = new AbortController()

async function list(reply: Reply): Promise<unknown> {
  const { client, clock, server } = createClientUnderTest()
  server.replies(reply)
  return clock.run(client.list({ status: 'failed', page: 0, size: 100 }, signal))
}

async function retry(reply: Reply, id = webhookId): Promise<{ answer: RetryAnswer; under: ClientUnderTest }> {
  const under = createClientUnderTest()
  under.server.replies(reply)
  return { answer: await under.clock.run(under.client.retry(id, signal)), under }
}

describe('a page', () => {
  test('gives its records and what it says of itself; an unreadable row is reported, the rest goes on', async () => {
    const other = wireWebhook({ id: webhookId.replace('1', 'A') })
    const odd = [null, { ...wireWebhook(), id: '..' }, { ...wireWebhook(), eventDateTime: null }]
    const page = await list({ body: wirePage([...odd, wireWebhook(), other], { size: 50, totalElements: 1234 }) })
    expect(page).toMatchObject({
      rows: 5,
      size: 50,
      total: 1234,
      records: [{ id: webhookId }, { id: other.id }],
      unreadable: [{ field: 'row' }, { field: 'id', id: undefined }, { field: 'eventDateTime', id: webhookId }],
    })
    expect(JSON.stringify(page)).not.toContain('CANARY')
  })

  test.each([
    ['without metadata', { data: { webhooks: [] } }],
    ['page a list', wirePage([], [])],
    ['texts', wirePage([], { size: '100', totalElements: '1' })],
    ['negative', wirePage([], { size: -1, totalElements: -1 })],
    ['broken', wirePage([], { size: 0.5, totalElements: 1.5 })],
    ['beyond what can be counted', wirePage([], { size: 1e300, totalElements: 1e300 })],
    ['a page of nothing', wirePage([], { size: 0, totalElements: null })],
  ])('%s: its size and total are not known', async (_, body) => {
    expect(await list({ body })).toEqual({ records: [], unreadable: [], rows: 0, size: undefined, total: undefined })
  })

  test.each<[string, Reply, Reason, number | undefined]>([
    ['another shape', { body: { data: { webhooks: { 0: {} } } } }, 'invalid-body', 200],
    ['an empty object', { body: {} }, 'invalid-body', 200],
    ['cut JSON', { body: '{"data":{"webhooks":[{"id"' }, 'invalid-body', 200],
    ['nothing', { status: 204 }, 'invalid-body', 204],
    ['an error under 200', { body: { code: 'svc.x', message: 'CANARY' } }, 'other', 200],
    ['the known error', { status: 409, body: wireInvalidStatus() }, 'conflict', 409],
    ['500', { status: 500, body: 'CANARY' }, 'server-error', 500],
    ['a reset', { error: new TransportError('connection', 'ECONNRESET') }, 'connection', undefined],
  ])('is not %s', async (_, reply, reason, status) => {
    const failure = await list(reply).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(PlatformFailure)
    expect(failure).toMatchObject({ reason, status })
    expect(String(failure)).not.toMatch(/CANARY|api\.test|token-1/)
  })
})

describe('a retry is accepted', () => {
  test.each([200, 202, 299])('by HTTP %i with the record that was asked for', async (status) => {
    const { answer } = await retry({ status, body: wireRetried() })
    expect(answer).toMatchObject({ result: 'accepted', reason: 'ok', sent: true })
    expect(answer.record).toMatchObject({ id: webhookId, status: 'processing', attempts: 1 })
    expect(JSON.stringify(answer)).not.toContain('CANARY')
  })

  test('by an id in the other case, which goes out as it came', async () => {
    const id = 'AAAAAAAA-2222-4333-8444-555555555555'
    const { answer, under } = await retry({ body: wireRetried(wireWebhook({ id: id.toLowerCase() })) }, id)
    expect(answer).toMatchObject({ result: 'accepted' })
    expect(under.server.sent[0]?.request.url.href).toContain(id)
  })

  test('by a record that cannot be read: the id is what counts', async () => {
    const { answer } = await retry({ body: wireRetried({ id: webhookId, status: null }) })
    expect(answer).toEqual({ result: 'accepted', reason: 'ok', sent: true })
  })

  test.each([
    ['another record', wireRetried(wireWebhook({ id: webhookId.replace('1', '9') }))],
    ['no record', wireRetried(null)],
    ['a list', { data: { webhook: [wireWebhook()] } }],
    ['a login page', '<html>CANARY</html>'],
    ['nothing', ''],
  ])('not by %s: what came of it is not known', async (_, body) => {
    const { answer, under } = await retry({ body })
    expect(answer).toEqual({ result: 'platform-error', reason: 'invalid-body', sent: true, lost: true })
    // The metric says the same.
    expect(under.events).toMatchObject([{ operation: 'retry', reason: 'invalid-body' }])
  })
})

describe('a record is already resolved', () => {
  test.each([200, 204, 302, 401, 403, 404, 409, 429, 503, 599])(
    'by the known code under HTTP %i: the platform spoke, nothing else counts',
    async (status) => {
      const { answer, under } = await retry({ status, body: wireInvalidStatus() })
      expect(answer).toEqual({ result: 'already-resolved', reason: 'conflict', sent: true, found: 'processing' })
      expect(under.server.sent).toHaveLength(1)
      expect(under.tokens.voided).toEqual([])
    },
  )

  test.each([
    [['Failed', 'Successful'], 'successful'],
    [['FAILED', ' PROCESSING '], 'processing'],
    [['Failed', 'processing', 'more'], 'processing'],
    [['Failed', 'constructor'], 'other'],
    [['Failed'], 'other'],
    [['Failed', null], 'other'],
    [['Failed', ['Processing']], 'other'],
    [{ 0: 'Failed', 1: 'Processing' }, 'other'],
    [undefined, 'other'],
  ])('messageParameters %j: found %s', async (messageParameters, found) => {
    const { answer } = await retry({ status: 400, body: wireInvalidStatus({ messageParameters }) })
    expect(answer.found).toBe(found)
  })
})

describe('a retry fails', () => {
  const broken = (reason: TransportError['reason'], requestNotSent = false): Reply => ({
    error: new TransportError(reason, 'CODE', { requestNotSent }),
  })

  test.each<[string, Reply, RetryResult, Reason, 'lost'?]>([
    ['an error under 200', { body: { code: 'svc.x' } }, 'rejected', 'other'],
    ['a redirect', { status: 307 }, 'platform-error', 'redirect'],
    ['400', { status: 400, body: { code: 'svc.x' } }, 'rejected', 'bad-request'],
    ['402', { status: 402 }, 'rejected', 'other'],
    ['403', { status: 403 }, 'unauthorized', 'forbidden'],
    ['404', { status: 404 }, 'gone', 'not-found'],
    ['408', { status: 408 }, 'unreachable', 'timeout'],
    ['409 without the code', { status: 409 }, 'rejected', 'conflict'],
    ['429', { status: 429 }, 'throttled', 'throttled'],
    ['500', { status: 500, body: 'CANARY' }, 'platform-error', 'server-error', 'lost'],
    ['502 of the platform itself', { status: 502, body: { code: 'svc.x' } }, 'platform-error', 'server-error'],
    ['503 with an empty code', { status: 503, body: { code: '' } }, 'platform-error', 'server-error', 'lost'],
    ['600', { status: 600 }, 'platform-error', 'other', 'lost'],
    ['an answer that is too large', broken('too-large'), 'platform-error', 'too-large', 'lost'],
    ['a reset', broken('connection'), 'unreachable', 'connection', 'lost'],
    ['a refused connection', broken('connection', true), 'unreachable', 'connection'],
    ['no answer in time', broken('timeout'), 'unreachable', 'timeout', 'lost'],
    ['no connection in time', broken('timeout', true), 'unreachable', 'timeout'],
    ['TLS', broken('tls', true), 'unreachable', 'tls'],
    ['TLS that broke later', broken('tls'), 'unreachable', 'tls', 'lost'],
  ])('by %s', async (_, reply, result, reason, lost) => {
    const { answer, under } = await retry(reply)
    expect(answer).toEqual({ result, reason, sent: true, ...(lost && { lost: true }) })
    // A PATCH is never repeated for any of these.
    expect(under.server.sent).toHaveLength(1)
    expect(under.events).toMatchObject([{ operation: 'retry', reason }])
  })

  test('by a refused key: it is not authorized, and nothing is sent', async () => {
    const { client, server, tokens } = createClientUnderTest()
    tokens.error = new TokenError('refused', { kind: 'rejected', reason: 'bad-request' })
    expect(await client.retry(webhookId, signal)).toEqual({
      result: 'unauthorized',
      reason: 'unauthorized',
      sent: false,
    })
    expect(server.sent).toEqual([])
  })
})
