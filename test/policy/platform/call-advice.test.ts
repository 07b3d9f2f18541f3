// Each failure of a call has its own advice, which names the keys to check.
import { expect, test } from 'vitest'
import { reasons } from '../../../src/platform/http/http.ts'
import { callAdvice } from '../../../src/platform/http/call-advice.ts'

const keys = { address: 'platform.baseUrl', timeout: 'platform.requestTimeout' }

test.each([
  ['ERR_TLS_CERT_ALTNAME_INVALID', /another host/],
  ['CERT_HAS_EXPIRED', /has expired/],
  ['CERT_NOT_YET_VALID', /clock/],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', /NODE_EXTRA_CA_CERTS/],
  ['SELF_SIGNED_CERT_IN_CHAIN', /NODE_EXTRA_CA_CERTS/],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', /NODE_EXTRA_CA_CERTS/],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', /NODE_EXTRA_CA_CERTS/],
  ['EPROTO', /handshake failed/],
  [undefined, /NODE_EXTRA_CA_CERTS/],
])('TLS, %s', (code, advice) => {
  expect(callAdvice({ reason: 'tls', code }, keys)).toMatch(advice)
})

test.each([
  ['ECONNREFUSED', /^nothing listens there: check platform\.baseUrl/],
  ['ENOTFOUND', /^DNS does not know its host: check platform\.baseUrl/],
  ['EAI_AGAIN', /^DNS does not answer/],
  ['ECONNRESET', /^the connection failed: check platform\.baseUrl/],
  [undefined, /^the connection failed: check platform\.baseUrl/],
])('connection, %s', (code, advice) => {
  expect(callAdvice({ reason: 'connection', code }, keys)).toMatch(advice)
})

test('a deadline names its key; an address that is wrong names that one', () => {
  expect(callAdvice({ reason: 'timeout' }, keys)).toContain('platform.requestTimeout')
  for (const reason of ['redirect', 'not-found', 'invalid-body'] as const) {
    expect(callAdvice({ reason }, keys)).toContain('check platform.baseUrl')
  }
})

test('an answer of the server itself brings no advice of ours', () => {
  const advised = reasons.filter((reason) => callAdvice({ reason }, keys) !== undefined)
  expect(advised).toEqual(['not-found', 'timeout', 'connection', 'tls', 'redirect', 'invalid-body'])
})
