// Listing: what is asked, and what is made of every answer.
import { describe, expect, test } from 'vitest'
import type { ListQuery } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { Reason } from '../../../src/platform/http/http.ts'
import { createClientUnderTest, noToken, type ClientUnderTest, type Reply } from '../../support/platform-client.ts'
import { webhookId, wireInvalidStatus, wirePage, wireWebhook } from '../../support/webhooks.ts'

const query: ListQuery = { status: 'failed', page: 0, size: 100 }
const { signal } = new AbortController()
const good: Reply = { body: wirePage([wireWebhook()]) }

function list(under: ClientUnderTest, asked: ListQuery = query): Promise<unknown> {
  return under.clock.run(under.client.list(asked, signal))
}

describe('what is asked', () => {
  test.each([
    ['https://api.test', 'https://api.test/webhooks'],
    ['https://api.test/', 'https://api.test/webhooks'],
    ['https://api.test/v1/instance', 'https://api.test/v1/instance/webhooks'],
    ['https://api.test/v1/instance///', 'https://api.test/v1/instance/webhooks'],
    ['https://api.test/a%2Fb/', 'https://api.test/a%2Fb/webhooks'],
  ])('below %s it is %s', async (baseUrl, expected) => {
    await using under = createClientUnderTest({ baseUrl })
    under.replies(good)
    await list(under)
    expect(under.sent[0]?.url.split('?')[0]).toBe(expected)
  })

  test('every parameter by its name, times to the second, one status', async () => {
    await using under = createClientUnderTest()
    under.replies(good)
    await list(under, { status: 'processing', from: Date.UTC(2026, 0, 15, 11) / 1000, to: 0, page: 7, size: 100 })
    const { searchParams } = new URL(under.sent[0]?.url ?? '')
    expect(Object.fromEntries(searchParams)).toEqual({
      'metadata.page.number': '7',
      'metadata.page.size': '100',
      'data.webhook.status': 'processing',
      'data.webhook.eventDateTimeFrom': '2026-01-15T11:00:00',
      'data.webhook.eventDateTimeTo': '1970-01-01T00:00:00',
    })
  })

  test('what is not given is not sent; the token is, in its header only', async () => {
    await using under = createClientUnderTest()
    under.replies(good)
    await list(under, { page: 0, size: 1 })
    expect(under.sent).toMatchObject([
      {
        method: 'GET',
        url: 'https://api.test/v1/instance/webhooks?metadata.page.number=0&metadata.page.size=1',
        headers: { accept: 'application/json', 'accept-encoding': 'identity', authorization: 'Bearer token-1' },
        body: undefined,
      },
    ])
    expect(under.sent[0]?.headers).not.toHaveProperty('content-type')
  })
})

describe('a page', () => {
  test('gives its records and what it says of itself', async () => {
    await using under = createClientUnderTest()
    const other = wireWebhook({ id: webhookId.replace('1', 'A') })
    under.replies({
      body: wirePage([wireWebhook(), other], { size: 50, number: 0, totalElements: 1234, totalPages: 25 }),
    })
    const page = await list(under)
    expect(page).toMatchObject({
      rows: 2,
      size: 50,
      total: 1234,
      unreadable: [],
      records: [{ id: webhookId }, { id: other.id }],
    })
    expect(JSON.stringify(page)).not.toContain('CANARY')
    expect(under.facts).toMatchObject([{ operation: 'list', reason: 'ok' }])
  })

  test.each([
    ['without metadata', { data: { webhooks: [] } }],
    ['metadata null', { data: { webhooks: [] }, metadata: null }],
    ['page null', wirePage([], null)],
    ['page a list', wirePage([], [])],
    ['texts', wirePage([], { size: '100', totalElements: '1' })],
    ['negative', wirePage([], { size: -1, totalElements: -1 })],
    ['broken', wirePage([], { size: 0.5, totalElements: 1.5 })],
    ['beyond what can be counted', wirePage([], { size: 1e300, totalElements: 1e300 })],
    ['a page of nothing', wirePage([], { size: 0, totalElements: null })],
  ])('%s: its size and total are not known', async (_, body) => {
    await using under = createClientUnderTest()
    under.replies({ body })
    expect(await list(under)).toEqual({ records: [], unreadable: [], rows: 0, size: undefined, total: undefined })
  })

  test('an unreadable row is reported, the rest goes on', async () => {
    await using under = createClientUnderTest()
    const rows = [
      null,
      'text',
      { ...wireWebhook(), id: '..' },
      { ...wireWebhook(), eventDateTime: null },
      wireWebhook(),
    ]
    under.replies({ body: wirePage(rows) })
    expect(await list(under)).toMatchObject({
      rows: 5,
      records: [{ id: webhookId }],
      unreadable: [
        { field: 'row' },
        { field: 'row' },
        { field: 'id', id: undefined },
        { field: 'eventDateTime', id: webhookId },
      ],
    })
  })
})

describe('what is no page', () => {
  test.each<[string, Reply, Exclude<Reason, 'ok'>, number | undefined]>([
    ['another shape', { body: { data: { webhooks: { 0: {} } } } }, 'invalid-body', 200],
    ['an empty object', { body: {} }, 'invalid-body', 200],
    ['a bare list', { body: [] }, 'invalid-body', 200],
    ['a login page', { body: '<html>' }, 'invalid-body', 200],
    ['cut JSON', { body: '{"data":{"webhooks":[{"id"' }, 'invalid-body', 200],
    ['nothing', { status: 204 }, 'invalid-body', 204],
    ['an error under 200', { body: { code: 'svc.x', message: 'CANARY' } }, 'other', 200],
    ['the known error', { status: 409, body: wireInvalidStatus() }, 'conflict', 409],
    ['a redirect', { status: 302, headers: { location: 'https://elsewhere.test/' } }, 'redirect', 302],
    ['400', { status: 400 }, 'bad-request', 400],
    ['403', { status: 403 }, 'forbidden', 403],
    ['404', { status: 404 }, 'not-found', 404],
    ['418', { status: 418 }, 'other', 418],
    ['408', { status: 408 }, 'timeout', 408],
    ['500', { status: 500, body: 'CANARY' }, 'server-error', 500],
    ['503', { status: 503, headers: { 'retry-after': '1' } }, 'server-error', 503],
    ['429', { status: 429 }, 'throttled', 429],
    ['more than 8 MiB', { headers: { 'content-length': '8388609' } }, 'too-large', undefined],
    ['a reset', { breaks: 'ECONNRESET' }, 'connection', undefined],
    ['a bad certificate', { breaks: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, 'tls', undefined],
    ['a connect timeout', { breaks: 'UND_ERR_CONNECT_TIMEOUT' }, 'timeout', undefined],
  ])('%s', async (_, reply, reason, status) => {
    await using under = createClientUnderTest()
    under.always(reply)
    const failure: unknown = await list(under).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(PlatformFailure)
    expect(failure).toMatchObject({ reason, status })
    expect(String(failure)).not.toMatch(/CANARY|api\.test|token-1/)
    // The metric says the same reason as the failure, once for every exchange.
    expect(under.facts).toEqual(under.sent.map(() => expect.objectContaining({ operation: 'list', reason }) as object))
  })
})

describe('without a token', () => {
  test('nothing is sent, nothing of the rate is used up, and the reason is reported', async () => {
    await using under = createClientUnderTest()
    under.tokens.error = noToken
    await expect(list(under)).rejects.toBe(noToken)
    expect(under.sent).toEqual([])
    expect(under.facts).toEqual([])
    expect(under.taken.list).toBe(0)
  })
})
