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

test.each([
  ['PROXY_STATUS_407', /^the proxy wants a user and password: put them into the URL of HTTPS_PROXY/],
  ['PROXY_STATUS_403', /^the proxy refuses \(403\): .*HTTPS_PROXY.*NO_PROXY/],
  ['PROXY_STATUS_502', /^the proxy does not reach the host \(502\): check platform\.baseUrl/],
  ['PROXY_ECONNREFUSED', /^the proxy cannot be used: nothing listens there: check HTTPS_PROXY.*NO_PROXY/],
  ['PROXY_ENOTFOUND', /^the proxy cannot be used: DNS does not know its host: check HTTPS_PROXY/],
  ['PROXY_UND_ERR_HEADERS_TIMEOUT', /^the proxy cannot be used: no answer in time: check HTTPS_PROXY/],
  ['PROXY_CERT_HAS_EXPIRED', /^the proxy cannot be used: its certificate has expired.*HTTPS_PROXY/],
])('the proxy, %s: its variables, not the address of the call', (code, advice) => {
  const reason = code.includes('TIMEOUT') ? 'timeout' : code.includes('CERT') ? 'tls' : 'connection'
  expect(callAdvice({ reason, code }, keys)).toMatch(advice)
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
