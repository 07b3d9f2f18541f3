// The assertion: exactly what the specification asks for, checked without jose.
import { verify } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { buildAssertion } from '../../../src/platform/assertion.ts'
import { loadKey, type SigningKey } from '../../../src/platform/credentials.ts'
import { testKeys, type TestKeys } from '../../support/keys.ts'

let keys: TestKeys
let key: SigningKey

beforeAll(async () => {
  keys = await testKeys()
  key = (await loadKey({ file: keys.privateKeyFile })).current()
})

const options = {
  clientId: 'client "Ü" 1',
  issuer: 'https://auth.example.test/auth/realms/demo',
  lifetimeSeconds: 60,
  issuedAt: 1_768_478_400,
  jti: '0b8c3c6e-5a65-4b0c-9a53-6f3b3f2a9d10',
}

describe('assertion', () => {
  test('holds the header and the claims of the specification, in order, and nothing else', async () => {
    const [head = '', body = '', signature = '', ...more] = (await buildAssertion(key, options)).split('.')
    expect(Buffer.from(head, 'base64url').toString()).toBe('{"alg":"RS256","typ":"JWT"}')
    expect(Buffer.from(body, 'base64url').toString()).toBe(
      JSON.stringify({
        jti: options.jti,
        iss: options.clientId,
        sub: options.clientId,
        aud: options.issuer,
        iat: options.issuedAt,
        exp: options.issuedAt + 60,
      }),
    )
    expect(`${head}${body}${signature}`).toMatch(/^[\w-]+$/)
    expect(more).toEqual([])
  })

  test("verifies with the certificate's public key, by node:crypto", async () => {
    const jwt = await buildAssertion(key, options)
    const signed = Buffer.from(jwt.slice(0, jwt.lastIndexOf('.')))
    const signature = Buffer.from(jwt.slice(jwt.lastIndexOf('.') + 1), 'base64url')
    expect(signature).toHaveLength(512)
    expect(verify('RSA-SHA256', signed, keys.certificatePem, signature)).toBe(true)
    const other = await testKeys('other')
    expect(verify('RSA-SHA256', signed, other.certificatePem, signature)).toBe(false)
  })

  test.each([1, 600])('may live %s s', async (lifetimeSeconds) => {
    await expect(buildAssertion(key, { ...options, lifetimeSeconds })).resolves.toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/)
  })

  test.each([0, -1, 601, 1.5, NaN, Infinity])('may not live %s s', (lifetimeSeconds) => {
    expect(() => buildAssertion(key, { ...options, lifetimeSeconds })).toThrow(RangeError)
  })
})
