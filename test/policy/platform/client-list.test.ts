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
    const from = Date.UTC(2026, 0, 15, 11) / 1000
    await list(under, { status: 'processing', eventId: 'e-1', from, to: 0, page: 7, size: 100 })
    const { searchParams } = new URL(under.sent[0]?.url ?? '')
    expect(Object.fromEntries(searchParams)).toEqual({
      'metadata.page.number': '7',
      'metadata.page.size': '100',
      'data.webhook.status': 'processing',
      'data.webhook.eventId': 'e-1',
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

describe('what is no page is asked for again where that may help, three times in all', () => {
  test.each<[string, Reply, Exclude<Reason, 'ok'>, number | undefined, number]>([
    ['another shape', { body: { data: { webhooks: { 0: {} } } } }, 'invalid-body', 200, 3],
    ['an empty object', { body: {} }, 'invalid-body', 200, 3],
    ['a bare list', { body: [] }, 'invalid-body', 200, 3],
    ['a login page', { body: '<html>' }, 'invalid-body', 200, 3],
    ['cut JSON', { body: '{"data":{"webhooks":[{"id"' }, 'invalid-body', 200, 3],
    ['nothing', { status: 204 }, 'invalid-body', 204, 3],
    ['an error under 200', { body: { code: 'svc.x', message: 'CANARY' } }, 'other', 200, 1],
    ['the known error', { status: 409, body: wireInvalidStatus() }, 'conflict', 409, 1],
    ['a redirect', { status: 302, headers: { location: 'https://elsewhere.test/' } }, 'redirect', 302, 1],
    ['400', { status: 400 }, 'bad-request', 400, 1],
    ['403', { status: 403 }, 'forbidden', 403, 1],
    ['404', { status: 404 }, 'not-found', 404, 1],
    ['410', { status: 410 }, 'not-found', 410, 1],
    ['409', { status: 409 }, 'conflict', 409, 1],
    ['422', { status: 422 }, 'bad-request', 422, 1],
    ['418', { status: 418 }, 'other', 418, 1],
    ['408', { status: 408 }, 'timeout', 408, 3],
    ['500', { status: 500, body: 'CANARY' }, 'server-error', 500, 3],
    ['503', { status: 503, headers: { 'retry-after': '1' } }, 'server-error', 503, 3],
    ['429', { status: 429 }, 'throttled', 429, 3],
    ['more than 8 MiB', { headers: { 'content-length': '8388609' } }, 'too-large', undefined, 1],
    ['a reset', { breaks: 'ECONNRESET' }, 'connection', undefined, 3],
    ['a bad certificate', { breaks: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, 'tls', undefined, 3],
    ['a connect timeout', { breaks: 'UND_ERR_CONNECT_TIMEOUT' }, 'timeout', undefined, 3],
  ])('%s', async (_, reply, reason, status, tries) => {
    await using under = createClientUnderTest()
    under.always(reply)
    const failure: unknown = await list(under).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(PlatformFailure)
    expect(failure).toMatchObject({ reason, status })
    expect(String(failure)).not.toMatch(/CANARY|api\.test|token-1/)
    // The metric says the same reason as the failure, once for every exchange.
    expect(under.sent).toHaveLength(tries)
    expect(under.taken.list).toBe(tries)
    expect(under.facts).toEqual(under.sent.map(() => expect.objectContaining({ operation: 'list', reason }) as object))
  })
})

describe('asking again', () => {
  test('a second try may succeed', async () => {
    await using under = createClientUnderTest()
    under.replies({ status: 500 }, good)
    expect(await list(under)).toMatchObject({ rows: 1 })
    expect(under.taken.list).toBe(2)
  })

  test('the waits between are of full jitter: up to half a second, up to one', async () => {
    const draws = [0.999, 0.999, 0, 0]
    await using under = createClientUnderTest({ random: { next: () => draws.shift() ?? 0, uuid: () => '' } })
    under.always({ status: 500 })
    await expect(list(under)).rejects.toThrow('server-error')
    await expect(list(under)).rejects.toThrow('server-error')
    const [first = 0, second = 0, third = 0, ...others] = under.sent.map(({ at }) => at)
    expect(second - first).toBeCloseTo(499.5)
    expect(third - second).toBeCloseTo(999)
    expect(new Set(others).size).toBe(1)
  })

  test('Retry-After holds for the next try as well', async () => {
    await using under = createClientUnderTest()
    under.replies({ status: 503, headers: { 'retry-after': '120' } }, good)
    await list(under)
    const [first = 0, second = 0] = under.sent.map(({ at }) => at)
    expect(second - first).toBeGreaterThanOrEqual(120_000)
    expect(second - first).toBeLessThan(121_500)
  })

  test.each([
    ['one after the other', 1],
    ['ten at once', 10],
  ])('of a thousand failing calls, %s, repeats stay under 10 % of what is sent', async (_, atOnce) => {
    await using under = createClientUnderTest()
    under.always({ status: 500 })
    for (let calls = 0; calls < 1_000; calls += atOnce) {
      const batch = Array.from({ length: atOnce }, () => under.client.list(query, signal))
      await under.clock.run(Promise.allSettled(batch))
    }
    const repeats = under.sent.length - 1_000
    expect(repeats).toBeGreaterThan(80)
    expect(repeats / under.sent.length).toBeLessThan(0.1)
  })

  test('what is saved up in good times is a handful, too', async () => {
    await using under = createClientUnderTest()
    under.replies(...Array.from({ length: 300 }, () => good))
    for (let i = 0; i < 300; i += 1) await list(under)
    under.always({ status: 500 })
    for (let i = 0; i < 20; i += 1) await expect(list(under)).rejects.toThrow('server-error')
    expect(under.sent.length - 320).toBeLessThanOrEqual(7)
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
