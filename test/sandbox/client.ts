// A plain client of the sandbox for its own tests: signs assertions, lists and retries with nothing of the daemon in between.
import { createPrivateKey, createSign } from 'node:crypto'
import { systemClock } from '../../src/runtime/clock.ts'
import { clientAssertionType, retryRequestBody, tokenPath } from '../../src/platform/wire.ts'
import type { WireError, WireList, WireRetryResponse, WireWebhook } from '../../sandbox/api/wire.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { testKeys } from '../support/keys.ts'

export type Claims = Record<string, unknown>

let assertions = 0

/** What a client has to know to get a token. */
type Issuer = Pick<Sandbox, 'clientId' | 'issuerUrl'>

/** Claims as the specification wants them, of the sandbox's own time. */
export function claimsFor(sandbox: Issuer, now = systemClock.now()): Claims {
  const iat = Math.floor(now / 1000)
  const { clientId, issuerUrl } = sandbox
  return { jti: `jti-${++assertions}`, iss: clientId, sub: clientId, aud: issuerUrl, iat, exp: iat + 60 }
}

export async function sign(
  claims: Claims,
  header: unknown = { alg: 'RS256', typ: 'JWT' },
  keyName = 'default',
): Promise<string> {
  const { privateKeyPem } = await testKeys(keyName)
  const input = `${encode(header)}.${encode(claims)}`
  return `${input}.${createSign('RSA-SHA256').update(input).sign(createPrivateKey(privateKeyPem), 'base64url')}`
}

export function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

export function formOf(assertion: string, more: Record<string, string> = {}): Record<string, string> {
  return {
    grant_type: 'client_credentials',
    client_assertion_type: clientAssertionType,
    client_assertion: assertion,
    ...more,
  }
}

export async function postForm(sandbox: Issuer, form: Record<string, string> | [string, string][]): Promise<Response> {
  return fetch(`${sandbox.issuerUrl}${tokenPath}`, {
    method: 'POST',
    body: new URLSearchParams(form),
    redirect: 'manual',
  })
}

/** `now`: the time of the sandbox, where its clock stands still. */
export async function token(sandbox: Issuer, now?: number): Promise<string> {
  const answer = await postForm(sandbox, formOf(await sign(claimsFor(sandbox, now))))
  const { access_token: accessToken } = (await answer.json()) as { access_token: string }
  return accessToken
}

export interface Client {
  get(query?: Record<string, string>): Promise<Response>
  list(query?: Record<string, string>): Promise<WireList>
  patch(id: string, body?: unknown): Promise<Response>
  retry(id: string): Promise<WireWebhook>
}

/** A client with a token of its own. */
export async function client(sandbox: Sandbox, now?: number): Promise<Client> {
  const headers = { authorization: `Bearer ${await token(sandbox, now)}` }
  const get: Client['get'] = (query) =>
    fetch(`${sandbox.baseUrl}/webhooks?${new URLSearchParams(query).toString()}`, { headers, redirect: 'manual' })
  const list: Client['list'] = async (query) => (await (await get(query)).json()) as WireList
  const patch: Client['patch'] = (id, body = retryRequestBody) =>
    fetch(`${sandbox.baseUrl}/webhooks/${id}`, {
      method: 'PATCH',
      headers: { ...headers, 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  return {
    get,
    list,
    patch,
    retry: async (id) => ((await (await patch(id)).json()) as WireRetryResponse).data.webhook,
  }
}

export async function errorOf(answer: Response): Promise<WireError> {
  return (await answer.json()) as WireError
}
