// The assertion: exactly what the specification asks for, never from the server's future, checked without jose.
import { verify } from 'node:crypto'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { assertionTime, buildAssertion } from '../../../src/platform/assertion.ts'
import { loadPrivateKey, type SigningKey } from '../../../src/platform/private-key.ts'
import { createSkew } from '../../../src/platform/skew.ts'
import { testKeys, type TestKeys } from '../../support/keys.ts'

let keys: TestKeys
let key: SigningKey

beforeAll(async () => {
  keys = await testKeys()
  key = (await loadPrivateKey({ file: keys.privateKeyFile })).key
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

describe('time of issue', () => {
  const now = 1_768_478_400_040

  test('lies 5 s back while nothing is known', () => {
    expect(assertionTime(now, undefined)).toBe(1_768_478_395)
  })

  test.each([
    ['the server is exactly with us', [0, 1_000], 1_768_478_399],
    ['the server is up to 60 ms behind', [-60, 940], 1_768_478_398],
    ['the server is an hour behind', [-3_600_000, -3_599_000], 1_768_474_799],
    ['the server is an hour ahead', [3_600_000, 3_601_000], 1_768_481_999],
    ['fractions', [0.7, 900.2], 1_768_478_399],
  ] as const)('is a whole second, not later than the skew allows, when %s', (_, skew, expected) => {
    expect(assertionTime(now, skew)).toBe(expected)
  })

  test("is never in the server's future, whatever was learned from however slow answers", () => {
    const exchange = fc.record({ gap: fc.integer({ min: 0, max: 900_000 }), way: fc.integer({ min: 0, max: 20_000 }) })
    const ppm = fc.integer({ min: -100, max: 100 })
    fc.assert(
      fc.property(
        fc.integer({ min: -1e8, max: 1e8 }),
        ppm,
        fc.array(exchange, { minLength: 1 }),
        (base, drift, exchanges) => {
          const skew = createSkew()
          let at = now
          const server = (host: number): number => host + base + ((host - now) * drift) / 1e6
          for (const { gap, way } of exchanges) {
            at += gap
            const date = new Date(server(at)).toUTCString()
            skew.learn({ dateHeader: date, hasAge: false, sentAt: at - way, receivedAt: at + way })
            at += way
            expect(assertionTime(at, skew.interval()) * 1000).toBeLessThanOrEqual(server(at))
          }
        },
      ),
    )
  })
})
