// The assertion: exactly what the specification asks for, checked without jose.
import { verify } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { loadKey } from '../../../src/platform/auth/private-key.ts'
import { createServerClock } from '../../../src/platform/server-clock.ts'
import { createTokenEndpoint } from '../../../src/platform/auth/token-endpoint.ts'
import { testKeys, type TestKeys } from '../../support/keys.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

let keys: TestKeys

beforeAll(async () => {
  keys = await testKeys()
})

const jti = '0b8c3c6e-5a65-4b0c-9a53-6f3b3f2a9d10'
const clientId = 'client "Ü" 1'
const issuer = 'https://auth.example.test/auth/realms/demo'
const clock = createVirtualClock(1_768_478_405_900)

/** The assertion that a try sends. */
async function sent(): Promise<string> {
  let form = new URLSearchParams()
  const tryOnce = createTokenEndpoint(
    {
      tokenUrl: new URL(issuer),
      clientId,
      issuer,
      scope: '',
      assertionLifetimeMs: 60_900,
      requestTimeoutMs: 1_000,
      key: loadKey({ file: keys.privateKeyFile }),
      transport(request) {
        form = new URLSearchParams(request.body)
        return Promise.resolve({ status: 500, headers: {}, body: '', sentAt: 0, receivedAt: 0 })
      },
      clock,
      random: { next: () => 0, uuid: () => jti },
      serverClock: createServerClock(clock),
    },
    () => undefined,
  )
  await tryOnce(new AbortController().signal)
  return form.get('client_assertion') ?? ''
}

describe('assertion', () => {
  test('holds the header and the claims of the specification, in order, and nothing else', async () => {
    const [head = '', body = '', signature = '', ...more] = (await sent()).split('.')
    expect(Buffer.from(head, 'base64url').toString()).toBe('{"alg":"RS256","typ":"JWT"}')
    const [iat, exp] = [1_768_478_400, 1_768_478_460]
    expect(Buffer.from(body, 'base64url').toString()).toBe(
      JSON.stringify({ jti, iss: clientId, sub: clientId, aud: issuer, iat, exp }),
    )
    expect(`${head}${body}${signature}`).toMatch(/^[\w-]+$/)
    expect(more).toEqual([])
  })

  test("verifies with the certificate's public key, by node:crypto", async () => {
    const jwt = await sent()
    const signed = Buffer.from(jwt.slice(0, jwt.lastIndexOf('.')))
    const signature = Buffer.from(jwt.slice(jwt.lastIndexOf('.') + 1), 'base64url')
    expect(signature).toHaveLength(512)
    expect(verify('RSA-SHA256', signed, keys.certificatePem, signature)).toBe(true)
    const other = await testKeys('other')
    expect(verify('RSA-SHA256', signed, other.certificatePem, signature)).toBe(false)
  })
})
