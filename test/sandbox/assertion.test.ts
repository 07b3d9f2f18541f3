// The assertion, spoilt in every way that the specification forbids.
import { beforeAll, expect, test } from 'vitest'
import { checkAssertion, readKey, type AssertionPolicy } from '../../sandbox/api/assertion.ts'
import { claimsFor, encode, sign, type Claims } from './client.ts'
import { testKeys } from '../support/keys.ts'

const now = Date.parse('2025-03-04T05:06:07.500Z')
const seconds = Math.floor(now / 1000)
const sandbox = { clientId: 'client', issuerUrl: 'http://127.0.0.1/auth/realms/demo' }
let policy: AssertionPolicy

beforeAll(async () => {
  const { certificatePem } = await testKeys()
  policy = {
    clientId: sandbox.clientId,
    audience: sandbox.issuerUrl,
    keys: [readKey(certificatePem)],
    now,
    usedIds: new Map(),
  }
})

function claims(changes: Claims = {}): Claims {
  const all: Claims = { ...claimsFor(sandbox, now), ...changes }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}

test.each([
  ['iss', { iss: 'other' }],
  ['iss', { iss: undefined }],
  ['sub', { sub: 'other' }],
  ['sub', { sub: undefined }],
  ['aud', { aud: `${sandbox.issuerUrl}/` }],
  ['aud', { aud: [sandbox.issuerUrl] }],
  ['aud', { aud: undefined }],
  ['jti', { jti: undefined }],
  ['jti', { jti: '' }],
  ['iat', { iat: undefined }],
  ['iat', { iat: String(seconds) }],
  ['iat', { iat: seconds + 1, exp: seconds + 60 }],
  ['exp', { exp: undefined }],
  ['exp', { exp: seconds }],
  ['lifetime', { exp: seconds + 601 }],
  ['lifetime', { iat: seconds - 10, exp: seconds + 591 }],
])('refused for %s: %o', async (problem, changes) => {
  expect(checkAssertion(await sign(claims(changes)), policy)?.problem).toBe(problem)
})

test.each([
  ['the longest life', { exp: seconds + 600 }],
  ['the last second', { iat: seconds - 599, exp: seconds + 1 }],
  ['a further claim', { nbf: seconds }],
])('taken: %s', async (_, changes) => {
  expect(checkAssertion(await sign(claims(changes)), policy)).toBeUndefined()
})

test.each([
  ['header', { alg: 'RS256' }],
  ['header', { alg: 'RS512', typ: 'JWT' }],
  ['header', { alg: 'none', typ: 'JWT' }],
  ['header', { alg: 'RS256', typ: 'JWT', kid: '1' }],
  ['malformed', ['RS256', 'JWT']],
])('refused for its %s: %o', async (problem, header) => {
  expect(checkAssertion(await sign(claims(), header), policy)?.problem).toBe(problem)
})

test('a jti is taken once, and again only when its assertion would have expired', async () => {
  const first = await sign(claims({ jti: 'once' }))
  expect(checkAssertion(first, policy)).toBeUndefined()
  expect(checkAssertion(first, policy)?.problem).toBe('replayed')
  const later = { ...policy, now: now + 61_000 }
  expect(checkAssertion(await sign({ ...claimsFor(sandbox, later.now), jti: 'once' }), later)).toBeUndefined()
})

test('a refused assertion does not use its jti up', async () => {
  expect(checkAssertion(await sign(claims({ jti: 'again', aud: 'x' })), policy)?.problem).toBe('aud')
  expect(checkAssertion(await sign(claims({ jti: 'again' })), policy)).toBeUndefined()
})

test('signatures: another key, a changed payload, a cut one, and a second certificate', async () => {
  const foreign = await sign(claims(), undefined, 'other')
  expect(checkAssertion(foreign, policy)?.problem).toBe('signature')
  const [header, , signature] = (await sign(claims())).split('.')
  expect(checkAssertion(`${header}.${encode(claims({ sub: 'other' }))}.${signature}`, policy)?.problem).toBe(
    'signature',
  )
  expect(checkAssertion(`${header}.${encode(claims())}.${signature?.slice(0, 40)}`, policy)?.problem).toBe('signature')

  const { certificatePem } = await testKeys('other')
  const both = { ...policy, keys: [...policy.keys, readKey(certificatePem)] }
  expect(checkAssertion(foreign, both)).toBeUndefined()
})

test.each(['', 'a.b.c.d', 'a..c', 'e30=.e30.c2ln'])('malformed: %o', (text) => {
  expect(checkAssertion(text, policy)?.problem).toBe('malformed')
})
