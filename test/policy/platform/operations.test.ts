// What came of a PATCH, and above all whether it may have been taken although no answer said so.
import { describe, expect, test } from 'vitest'
import { classify } from '../../../src/platform/http/response.ts'
import { TransportError } from '../../../src/platform/http/http.ts'
import {
  readRetryAnswer,
  retryOperation,
  type RetryAnswer,
  type RetryResult,
} from '../../../src/platform/operations.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import { webhookId, wireInvalidStatus, wireRetried, wireWebhook } from '../../support/webhooks.ts'

const { read } = retryOperation('https://api.test/webhooks', webhookId, createTimeZone('UTC'))

/** What the client makes of an answer: one that does not hold the record is no good answer. */
function answered(status: number, body: unknown = ''): RetryAnswer {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const answer = classify({ status, headers: {}, body: text, sentAt: 0, receivedAt: 0 })
  if (answer.reason !== 'ok') return readRetryAnswer({ ...answer, reason: answer.reason, status })
  const content = read(answer.body)
  return readRetryAnswer(
    content === undefined
      ? { ...answer, reason: 'invalid-body', status }
      : { ...answer, reason: 'ok', status, content },
  )
}

/** No whole answer came. */
function broken(reason: TransportError['reason'], code: string, sent?: { requestNotSent: boolean }): RetryAnswer {
  const { requestNotSent } = new TransportError(reason, code, sent)
  const answer = { reason, body: undefined, code: undefined }
  return readRetryAnswer({ ...answer, status: undefined, requestNotSent })
}

describe('it is not known whether it was taken', () => {
  test.each<[string, TransportError['reason'], string, RetryResult]>([
    ['no answer in time', 'timeout', 'UND_ERR_HEADERS_TIMEOUT', 'unreachable'],
    ['half an answer in time', 'timeout', 'UND_ERR_BODY_TIMEOUT', 'unreachable'],
    ['our own deadline', 'timeout', 'DEADLINE', 'unreachable'],
    ['a reset', 'connection', 'ECONNRESET', 'unreachable'],
    ['a closed connection', 'connection', 'UND_ERR_SOCKET', 'unreachable'],
    ['a pipe that broke', 'connection', 'EPIPE', 'unreachable'],
    ['an error that is not known', 'connection', 'E_NEW', 'unreachable'],
    ['TLS that broke half way', 'tls', 'EPROTO', 'unreachable'],
    ['too much of an answer', 'too-large', 'TOO_LARGE', 'platform-error'],
  ])('after %s', (_, reason, code, result) => {
    expect(broken(reason, code)).toEqual({ result, reason, sent: true, lost: true })
  })

  test.each([500, 502, 503, 504, 599])('after HTTP %i without a code', (status) => {
    const lost = { result: 'platform-error', reason: 'server-error', sent: true, lost: true }
    expect(answered(status)).toEqual(lost)
    expect(answered(status, '<html>Bad Gateway</html>')).toEqual(lost)
    expect(answered(status, { message: 'no code' })).toEqual(lost)
    expect(answered(status, { code: '' })).toEqual(lost)
    expect(answered(status, { code: 7 })).toEqual(lost)
  })

  test.each<[string, number, unknown]>([
    ['nothing', 204, ''],
    ['cut in half', 200, '{"workflow":{"code":"retry"},"data":{"webh'],
    ['a login page', 200, '<html></html>'],
    ['another record', 200, wireRetried(wireWebhook({ id: webhookId.replace('1', '9') }))],
    ['no record', 202, { data: {} }],
  ])('after a 2xx that is broken: %s', (_, status, body) => {
    const lost = { result: 'platform-error', reason: 'invalid-body', sent: true, lost: true }
    expect(answered(status, body)).toEqual(lost)
  })
})

describe('it was not taken', () => {
  test.each<[string, TransportError['reason'], string]>([
    ['no server listened', 'connection', 'ECONNREFUSED'],
    ['the name is not known', 'connection', 'ENOTFOUND'],
    ['the name server did not answer', 'connection', 'EAI_AGAIN'],
    ['no way to the host', 'connection', 'EHOSTUNREACH'],
    ['no connection in time', 'timeout', 'UND_ERR_CONNECT_TIMEOUT'],
    ['its certificate is not trusted', 'tls', 'CERT_HAS_EXPIRED'],
  ])('as it never left: %s', (_, reason, code) => {
    expect(broken(reason, code, { requestNotSent: true })).toEqual({ result: 'unreachable', reason, sent: true })
  })

  test.each([500, 502, 503, 504])('as the platform itself refused it with a code under HTTP %i', (status) => {
    expect(answered(status, { code: 'svc.x' })).toEqual({
      result: 'platform-error',
      reason: 'server-error',
      sent: true,
    })
  })

  test('as an error stands under 200', () => {
    expect(answered(200, { code: 'svc.x' })).toEqual({ result: 'rejected', reason: 'other', sent: true })
  })

  test.each([300, 302, 307, 400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 418, 422, 425, 429])(
    'as it was turned away with HTTP %i',
    (status) => {
      expect(answered(status)).not.toHaveProperty('lost')
      expect(answered(status, { code: 'svc.x' })).not.toHaveProperty('lost')
    },
  )

  test.each([200, 400, 500, 503])('as the record was not failed, under HTTP %i', (status) => {
    const found = { result: 'already-resolved', reason: 'conflict', sent: true, found: 'processing' }
    expect(answered(status, wireInvalidStatus())).toEqual(found)
  })
})

test('what was accepted is not lost, even when its record can’t be read', () => {
  expect(answered(200, wireRetried())).toMatchObject({ result: 'accepted', record: { id: webhookId } })
  expect(answered(200, wireRetried())).not.toHaveProperty('lost')
  expect(answered(202, wireRetried({ id: webhookId }))).toEqual({ result: 'accepted', reason: 'ok', sent: true })
})
