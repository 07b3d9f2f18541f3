// Retrying: what is sent, and what every answer means, under any HTTP status.
import { describe, expect, test } from 'vitest'
import { retryResults, type RetryAnswer, type RetryResult } from '../../../src/platform/operations.ts'
import type { Reason } from '../../../src/platform/http/http.ts'
import { TokenError } from '../../../src/platform/auth/token-answer.ts'
import { createClientUnderTest, noToken, type ClientUnderTest, type Reply } from '../../support/platform-client.ts'
import { webhookId, wireInvalidStatus, wireRetried, wireWebhook } from '../../support/webhooks.ts'

const { signal } = new AbortController()

function retry(under: ClientUnderTest, id = webhookId): Promise<RetryAnswer> {
  return under.clock.run(under.client.retry(id, signal))
}

describe('what is sent', () => {
  test.each(['https://api.test/v1/instance', 'https://api.test/v1/instance/'])(
    'below %s: the id in the path, the body as specified',
    async (baseUrl) => {
      await using under = createClientUnderTest({ baseUrl })
      under.replies({ body: wireRetried() })
      await retry(under)
      expect(under.sent).toMatchObject([
        {
          method: 'PATCH',
          url: `https://api.test/v1/instance/webhooks/${webhookId}`,
          headers: { 'content-type': 'application/json', authorization: 'Bearer token-1' },
          body: '{"workflow":{"code":"retry"},"data":{},"connect":{},"metadata":{}}',
        },
      ])
    },
  )

  test.each(['', '..', `${webhookId}/..`])('the id %j never goes into a path', async (id) => {
    await using under = createClientUnderTest()
    await expect(retry(under, id)).rejects.toThrow('odd id')
    expect(under.sent).toEqual([])
  })

  test('an id goes out in the case in which it came, and its answer may come in the other', async () => {
    await using under = createClientUnderTest()
    const id = 'AAAAAAAA-2222-4333-8444-555555555555'
    under.replies({ body: wireRetried(wireWebhook({ id: id.toLowerCase() })) })
    expect(await retry(under, id)).toMatchObject({ result: 'accepted' })
    expect(under.sent[0]?.url).toContain(id)
  })
})

describe('accepted', () => {
  test.each([200, 201, 202, 299])('HTTP %i with the record that was asked for', async (status) => {
    await using under = createClientUnderTest()
    under.replies({ status, body: wireRetried() })
    const answer = await retry(under)
    expect(answer).toMatchObject({ result: 'accepted', reason: 'ok', sent: true })
    expect(answer.record).toMatchObject({ id: webhookId, status: 'processing', attempts: 1 })
    expect(JSON.stringify(answer)).not.toContain('CANARY')
  })

  test('a record that can not be read is accepted all the same: the id is what counts', async () => {
    await using under = createClientUnderTest()
    under.replies({ body: wireRetried({ id: webhookId, status: null }) })
    expect(await retry(under)).toEqual({ result: 'accepted', reason: 'ok', sent: true })
  })

  test.each([
    ['another record', wireRetried(wireWebhook({ id: webhookId.replace('1', '9') }))],
    ['no record', wireRetried(null)],
    ['a list', { data: { webhook: [wireWebhook()] } }],
    ['an id that is none', wireRetried({ ...wireWebhook(), id: 7 })],
    ['an empty object', {}],
    ['null', 'null'],
    ['a login page', '<html>CANARY</html>'],
    ['nothing', ''],
  ])('not with %s: what came of it is not known', async (_, body) => {
    await using under = createClientUnderTest()
    under.replies({ body })
    expect(await retry(under)).toEqual({ result: 'platform-error', reason: 'invalid-body', sent: true, lost: true })
    // The metric says the same.
    expect(under.facts).toMatchObject([{ operation: 'retry', reason: 'invalid-body' }])
  })
})

describe('already resolved', () => {
  test.each([200, 202, 204, 302, 400, 401, 403, 404, 409, 418, 422, 429, 500, 503, 599])(
    'the known code under HTTP %i: the platform spoke, nothing else counts',
    async (status) => {
      await using under = createClientUnderTest()
      under.replies({ status, body: wireInvalidStatus() })
      expect(await retry(under)).toEqual({
        result: 'already-resolved',
        reason: 'conflict',
        sent: true,
        found: 'processing',
      })
      expect(under.tokens.voided).toEqual([])
      expect(under.feedback).toMatchObject([{ kind: 'ok' }])
    },
  )

  test.each([
    [['Failed', 'Processing'], 'processing'],
    [['Failed', 'Successful'], 'successful'],
    [['FAILED', ' SUCCESSFUL '], 'successful'],
    [['Failed', 'processing', 'more'], 'processing'],
    [['Failed', 'Failed'], 'other'],
    [['Failed', 'Cancelled'], 'other'],
    [['Failed', 'constructor'], 'other'],
    [['Failed'], 'other'],
    [[], 'other'],
    [['Failed', null], 'other'],
    [['Failed', { status: 'Processing' }], 'other'],
    [['Failed', ['Processing']], 'other'],
    [{ 0: 'Failed', 1: 'Processing' }, 'other'],
    ['Failed, Processing', 'other'],
    [null, 'other'],
    [undefined, 'other'],
    [7, 'other'],
  ])('messageParameters %j: found %s', async (messageParameters, found) => {
    await using under = createClientUnderTest()
    under.replies({ status: 400, body: wireInvalidStatus({ messageParameters }) })
    expect(await retry(under)).toEqual({ result: 'already-resolved', reason: 'conflict', sent: true, found })
  })
})

describe('everything else', () => {
  test.each<[string, Reply, RetryResult, Reason, 'lost'?]>([
    ['an error under 200', { body: { code: 'svc.x' } }, 'rejected', 'other'],
    ['a code that every object has', { body: { code: 'constructor' } }, 'rejected', 'other'],
    ['a redirect', { status: 307, headers: { location: '/x' } }, 'platform-error', 'redirect'],
    ['400', { status: 400, body: { code: 'svc.x' } }, 'rejected', 'bad-request'],
    ['402', { status: 402 }, 'rejected', 'other'],
    ['403', { status: 403 }, 'unauthorized', 'forbidden'],
    ['408', { status: 408 }, 'unreachable', 'timeout'],
    ['409 without the code', { status: 409 }, 'rejected', 'conflict'],
    ['429', { status: 429 }, 'throttled', 'throttled'],
    ['500', { status: 500, body: 'CANARY' }, 'platform-error', 'server-error', 'lost'],
    ['502', { status: 502, body: { code: 'svc.x' } }, 'platform-error', 'server-error'],
    ['503', { status: 503, body: { code: '' } }, 'platform-error', 'server-error', 'lost'],
    ['504', { status: 504, body: { code: 7 } }, 'platform-error', 'server-error', 'lost'],
    ['600', { status: 600 }, 'platform-error', 'other', 'lost'],
    ['more than 8 MiB', { headers: { 'content-length': '8388609' } }, 'platform-error', 'too-large', 'lost'],
    ['a reset', { breaks: 'ECONNRESET' }, 'unreachable', 'connection', 'lost'],
    ['refused', { breaks: 'ECONNREFUSED', unsent: true }, 'unreachable', 'connection'],
    ['no answer in time', { breaks: 'UND_ERR_HEADERS_TIMEOUT' }, 'unreachable', 'timeout', 'lost'],
    ['no connection in time', { breaks: 'UND_ERR_CONNECT_TIMEOUT', unsent: true }, 'unreachable', 'timeout'],
    ['TLS', { breaks: 'CERT_HAS_EXPIRED', unsent: true }, 'unreachable', 'tls'],
    ['TLS that broke later', { breaks: 'EPROTO' }, 'unreachable', 'tls', 'lost'],
  ])('%s', async (_, reply, result, reason, lost) => {
    await using under = createClientUnderTest()
    under.replies(reply)
    expect(await retry(under)).toEqual({ result, reason, sent: true, ...(lost && { lost: true }) })
    // A PATCH is never repeated for any of these.
    expect(under.sent).toHaveLength(1)
    expect(under.facts).toMatchObject([{ operation: 'retry', reason }])
  })

  test.each([
    [404, undefined],
    [404, { code: 'svc.not_found' }],
    [404, '<html>'],
    [410, undefined],
  ])('%i with %j is gone, but a gateway may have said so', async (status, body) => {
    await using under = createClientUnderTest()
    under.replies({ status, body })
    expect(await retry(under)).toEqual({ result: 'gone', reason: 'not-found', sent: true })
  })

  test('every result can come about', () => {
    expect(new Set(retryResults)).toEqual(
      new Set([
        'accepted',
        'already-resolved',
        'gone',
        'rejected',
        'throttled',
        'unauthorized',
        'platform-error',
        'unreachable',
      ]),
    )
  })

  test('without a token nothing is sent: it is no attempt, and the place in the rate is given back', async () => {
    await using under = createClientUnderTest()
    under.tokens.error = noToken
    await under.rate.acquire('retry')
    const before = under.taken.retry
    // The identity host is down: that is no refusal.
    expect(await retry(under)).toEqual({ result: 'unreachable', reason: 'connection', sent: false })
    expect(under.sent).toEqual([])
    expect(under.taken.retry).toBe(before - 1)
  })

  test('without a token because it is refused we are not authorized', async () => {
    await using under = createClientUnderTest()
    under.tokens.error = new TokenError('refused', { kind: 'rejected', reason: 'bad-request' })
    expect(await retry(under)).toEqual({ result: 'unauthorized', reason: 'unauthorized', sent: false })
    expect(under.sent).toEqual([])
  })
})
