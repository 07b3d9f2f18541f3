// Each failure of a call has its own advice, which names the keys to check.
import { expect, test } from 'vitest'
import { reasons, type Reason } from '../../../src/platform/http/http.ts'
import { callAdvice } from '../../../src/platform/http/call-advice.ts'
import { redact } from '../../../src/runtime/redact.ts'

const keys = { address: 'platform.baseUrl', late: 'raise platform.requestTimeout' }

test.each<[Reason, string | undefined, RegExp]>([
  ['tls', 'ERR_TLS_CERT_ALTNAME_INVALID', /another host/],
  ['tls', 'CERT_HAS_EXPIRED', /has expired/],
  ['tls', 'CERT_NOT_YET_VALID', /clock/],
  ['tls', 'DEPTH_ZERO_SELF_SIGNED_CERT', /NODE_EXTRA_CA_CERTS/],
  ['tls', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY', /NODE_EXTRA_CA_CERTS/],
  // Also a file that was replaced after the start, and a server that sends its certificate alone.
  ['tls', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', /read only when the process starts.*intermediate certificates/],
  // A renewed authority, of the same name.
  ['tls', 'CERT_SIGNATURE_FAILURE', /NODE_EXTRA_CA_CERTS/],
  ['tls', 'INVALID_PURPOSE', /cannot be used by a server/],
  ['tls', 'UNSPECIFIED', /cannot be used by a server/],
  ['tls', 'EPROTO', /handshake failed/],
  ['tls', 'ERR_SSL_WRONG_VERSION_NUMBER', /handshake failed/],
  ['tls', undefined, /NODE_EXTRA_CA_CERTS/],
  ['connection', 'ECONNREFUSED', /^nothing listens there: check platform\.baseUrl/],
  ['connection', 'ENOTFOUND', /^DNS does not know its host: check platform\.baseUrl/],
  ['connection', 'EAI_AGAIN', /^DNS does not respond/],
  ['connection', 'ECONNRESET', /^the connection failed: check platform\.baseUrl/],
  ['connection', 'HPE_INVALID_CONSTANT', /^the server does not speak HTTP\/1\.1: .*check platform\.baseUrl/],
  ['connection', 'HTTPParserError', /^the server does not speak HTTP\/1\.1/],
  // Of the proxy: its variables, not the address of the call.
  ['connection', 'PROXY_STATUS_407', /^the proxy requires a user and password; put them into the URL of HTTPS_PROXY/],
  ['connection', 'PROXY_STATUS_403', /^the proxy rejects the call \(403\): .*HTTPS_PROXY.*NO_PROXY/],
  ['connection', 'PROXY_STATUS_502', /^the proxy cannot reach the host \(502\): check platform\.baseUrl/],
  ['connection', 'PROXY_ECONNREFUSED', /^the proxy cannot be used: nothing listens there: check HTTPS_PROXY.*NO_PROXY/],
  ['timeout', 'PROXY_UND_ERR_HEADERS_TIMEOUT', /^the proxy cannot be used: timed out: check HTTPS_PROXY/],
  ['tls', 'PROXY_CERT_HAS_EXPIRED', /^the proxy cannot be used: its certificate has expired.*HTTPS_PROXY/],
  ['timeout', undefined, /platform\.requestTimeout/],
  ['timeout', 'DEADLINE', /platform\.requestTimeout/],
  ['timeout', 'UND_ERR_CONNECT_TIMEOUT', /^no connection could be made: (?!.*requestTimeout)/],
  ['redirect', undefined, /check platform\.baseUrl/],
  ['invalid-body', undefined, /check platform\.baseUrl/],
  ['intercepted', undefined, /in its place: check platform\.baseUrl, then have it allow the call/],
  ['invalid-body', 'CONTENT_ENCODING_X_SNAPPY', /\(Content-Encoding: x_snappy\)/],
])('%s, %s', (reason, code, advice) => {
  const said = callAdvice({ reason, code }, keys) ?? ''
  expect(said).toMatch(advice)
  expect(redact(said), 'what helps is not taken for a secret').toBe(said)
})

test('an answer of the server itself brings no advice of ours', () => {
  const advised = reasons.filter((reason) => callAdvice({ reason }, keys) !== undefined)
  expect(advised).toEqual(['not-found', 'timeout', 'connection', 'tls', 'redirect', 'invalid-body', 'intercepted'])
})
