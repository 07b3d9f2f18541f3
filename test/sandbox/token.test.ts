// The token endpoint over HTTP: what it takes, what it refuses and how, and how long its tokens are believed.
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { tokenPath } from '../../src/platform/wire.ts'
import type { WireToken } from '../../sandbox/api/wire.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { claimsFor, client, errorOf, formOf, postForm, sign } from './client.ts'
import { startPlatform } from '../support/platform.ts'

test.each([
  [{}, { scope: 'api' }],
  [{ tokenScope: null }, {}],
  [{ tokenScope: 'profile email' }, { scope: 'profile email' }],
])('under %o it issues a token with %o, and the API takes it', async (readings, scope) => {
  await using sandbox = await startPlatform(readings)
  const answer = await postForm(sandbox, formOf(await sign(claimsFor(sandbox)), { scope: 'api' }))
  expect(answer.status).toBe(200)
  expect(answer.headers.get('cache-control')).toBe('no-store')
  expect(await answer.json()).toEqual({
    access_token: expect.stringMatching(/^[\w-]{40,}$/) as string,
    token_type: 'Bearer',
    expires_in: 3600,
    ...scope,
  })
  const { get } = await client(sandbox)
  expect((await get()).status).toBe(200)
  expect(sandbox.stats.tokens).toEqual({ issued: 2, refused: {} })
})

test.each([
  ['no grant type', { grant_type: undefined }, 400, 'invalid_request'],
  ['another grant type', { grant_type: 'password' }, 400, 'unsupported_grant_type'],
  ['no assertion type', { client_assertion_type: undefined }, 400, 'invalid_request'],
  ['another assertion type', { client_assertion_type: 'urn:other' }, 400, 'invalid_request'],
  ['no assertion', { client_assertion: undefined }, 400, 'invalid_request'],
  ['nonsense for an assertion', { client_assertion: 'x' }, 401, 'invalid_client'],
  ['another client id', { client_id: 'someone' }, 401, 'invalid_client'],
  ['another scope', { scope: 'api admin' }, 400, 'invalid_scope'],
])('refuses %s', async (_, changes, status, error) => {
  await using sandbox = await startPlatform()
  const form: Record<string, string | undefined> = { ...formOf(await sign(claimsFor(sandbox))), ...changes }
  const given = Object.entries(form).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, value]],
  )
  const answer = await postForm(sandbox, given)
  expect(answer.status).toBe(status)
  expect(await answer.json()).toMatchObject({ error, error_description: expect.stringMatching(/\w/) as string })
  expect(sandbox.stats.tokens.issued).toBe(0)
})

test('refuses a parameter given twice, JSON, and every method but POST', async () => {
  await using sandbox = await startPlatform()
  const url = `${sandbox.issuerUrl}${tokenPath}`
  const form = Object.entries(formOf(await sign(claimsFor(sandbox))))
  expect((await postForm(sandbox, [...form, ['grant_type', 'client_credentials']])).status).toBe(400)
  const headers = { 'content-type': 'application/json' }
  const json = await fetch(url, { method: 'POST', headers, body: JSON.stringify(Object.fromEntries(form)) })
  expect(await json.json()).toMatchObject({ error: 'invalid_request' })
  expect((await fetch(`${url}?${new URLSearchParams(form).toString()}`)).status).toBe(405)
  expect(sandbox.stats.tokens.issued).toBe(0)
})

test('says why assertions were refused, by reason', async () => {
  await using sandbox = await startPlatform()
  const replayed = formOf(await sign(claimsFor(sandbox)))
  await postForm(sandbox, replayed)
  await postForm(sandbox, replayed)
  await postForm(sandbox, formOf(await sign(claimsFor(sandbox), undefined, 'other')))
  await postForm(sandbox, formOf(await sign(claimsFor(sandbox, systemClock.now() + 60_000))))
  expect(sandbox.stats.tokens).toEqual({ issued: 1, refused: { replayed: 1, signature: 1, iat: 1 } })
})

test.each([
  ['ahead', 3_600_000, { exp: 1 }],
  ['behind', -3_600_000, { iat: 1 }],
])('a server whose clock is an hour %s judges by it and shows it', async (_, skewMs, refused) => {
  const clock = createVirtualClock()
  await using sandbox = await startPlatform({ clock, skewMs })
  const answer = await postForm(sandbox, formOf(await sign(claimsFor(sandbox, clock.now()))))
  expect(answer.status).toBe(401)
  expect(Math.abs(Date.parse(answer.headers.get('date') ?? '') - clock.now() - skewMs)).toBeLessThan(1000)
  expect(sandbox.stats.tokens.refused).toEqual(refused)
  expect((await postForm(sandbox, formOf(await sign(claimsFor(sandbox, clock.now() + skewMs))))).status).toBe(200)
})

/** Asks for a token, and the status with which the API meets it from then on. */
async function tokenOf(sandbox: Sandbox, now: number): Promise<{ expiresIn: number; status: () => Promise<number> }> {
  const answer = await postForm(sandbox, formOf(await sign(claimsFor(sandbox, now))))
  const body = (await answer.json()) as WireToken
  const headers = { authorization: `Bearer ${body.access_token}` }
  return {
    expiresIn: body.expires_in,
    status: async () => (await fetch(`${sandbox.baseUrl}/webhooks`, { headers })).status,
  }
}

test('a token lives as long as it says, by the clock, or until all are revoked', async () => {
  const clock = createVirtualClock()
  await using sandbox = await startPlatform({ clock, expiresIn: 60 })
  const { expiresIn, status } = await tokenOf(sandbox, clock.now())
  expect(expiresIn).toBe(60)
  await clock.advance(59_999)
  expect(await status()).toBe(200)
  await clock.advance(1)
  expect(await status()).toBe(401)
  const another = await tokenOf(sandbox, clock.now())
  sandbox.revokeTokens()
  expect(await another.status()).toBe(401)
})

test.each([undefined, 'Bearer x', 'Basic abc'])('the API refuses Authorization %o', async (authorization) => {
  await using sandbox = await startPlatform()
  const answer = await fetch(
    `${sandbox.baseUrl}/webhooks`,
    authorization === undefined ? {} : { headers: { authorization } },
  )
  expect(answer.status).toBe(401)
  expect(answer.headers.get('www-authenticate')).toMatch(/invalid_token/)
  expect(await errorOf(answer)).toMatchObject({ code: 'sandbox.unauthorized', messageParameters: [] })
})

test('a certificate that is none is refused at the start, and nothing keeps listening', async () => {
  await expect(startPlatform({ certificatePem: 'PEM' })).rejects.toThrow(/X\.509/)
})
