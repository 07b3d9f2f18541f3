// Each failure of TLS has its own advice.
import { expect, test } from 'vitest'
import { tlsAdvice } from '../../../src/platform/http/tls-advice.ts'

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
])('%s', (code, advice) => {
  expect(tlsAdvice(code)).toMatch(advice)
})
