// The access token over real HTTP: a real key, a server that verifies, clocks that differ, answers that are none.
import { expect, test } from 'vitest'
import { systemClock, systemRandom } from '../../src/runtime/clock.ts'
import { loadKey } from '../../src/platform/auth/private-key.ts'
import { createServerClock } from '../../src/platform/server-clock.ts'
import { createTokenCache, type TokenCache, type TokenEvent } from '../../src/platform/auth/token.ts'
import { TokenError } from '../../src/platform/auth/token-answer.ts'
import { createHttpTransport } from '../../src/platform/http/http.ts'
import { tokenPath } from '../../src/platform/wire.ts'
import type { Fault } from '../../sandbox/api/faults.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { startPlatform } from '../support/platform.ts'
import { testKeys } from '../support/keys.ts'
import { testLimitMs } from '../support/limits.ts'

interface Scene extends AsyncDisposable {
  sandbox: Sandbox
  manager: TokenCache
  facts: TokenEvent[]
}

async function scene(
  options: Partial<SandboxOptions> = {},
  keyName?: string,
  requestTimeoutMs = testLimitMs,
): Promise<Scene> {
  const { privateKeyFile } = await testKeys(keyName)
  const sandbox = await startPlatform(options)
  const http = createHttpTransport({ clock: systemClock, connections: 4 })
  const source = loadKey({ file: privateKeyFile })
  const facts: TokenEvent[] = []
  const manager = createTokenCache({
    tokenUrl: new URL(sandbox.issuerUrl + tokenPath),
    issuer: sandbox.issuerUrl,
    clientId: sandbox.clientId,
    scope: 'api',
    assertionLifetimeMs: 60_000,
    requestTimeoutMs,
    key: source,
    transport: http.transport,
    clock: systemClock,
    random: systemRandom,
    serverClock: createServerClock(systemClock),
    emit: (fact) => facts.push(fact),
  })
  return {
    sandbox,
    manager,
    facts,
    async [Symbol.asyncDispose]() {
      await http.close()
      await sandbox[Symbol.asyncDispose]()
    },
  }
}

async function refusalOf(manager: TokenCache): Promise<TokenError> {
  const error: unknown = await manager.get().catch((thrown: unknown) => thrown)
  if (!(error instanceof TokenError)) throw new Error('expected a TokenError', { cause: error })
  return error
}

test('200 callers at once get one token that the API takes', async () => {
  await using it = await scene()
  const tokens = await Promise.all(Array.from({ length: 200 }, () => it.manager.get()))
  expect(new Set(tokens).size).toBe(1)
  expect(it.sandbox.stats.tokens.issued).toBe(1)
  const answer = await fetch(`${it.sandbox.baseUrl}/webhooks`, {
    headers: { authorization: `Bearer ${tokens[0]?.value ?? ''}` },
  })
  expect(answer.status).toBe(200)
})

test.each([0, 900, 2_000, 30_000, 90_000, 3_600_000, 31_536_000_000].flatMap((ms) => [ms, -ms]))(
  'a server whose clock is %s ms ahead gives a token at the first call',
  async (skewMs) => {
    await using it = await scene({ skewMs })
    await expect(it.manager.get()).resolves.toBeDefined()
    expect(it.facts.filter(({ type }) => type === 'token-request').length).toBeLessThanOrEqual(2)
    for (let i = 0; i < 5; i++) {
      it.manager.invalidate(await it.manager.get(), { hasWorked: true })
      await it.manager.get()
    }
    // What was learned once is right from then on.
    expect(it.facts.filter((fact) => fact.type === 'token-refreshed' && fact.result !== 'success')).toEqual([])
    expect(it.facts.filter((fact) => fact.type === 'token-request' && fact.reason !== 'ok').length).toBeLessThanOrEqual(
      1,
    )
  },
)

test.each<[string, Fault, Partial<TokenError>]>([
  [
    'refused',
    { kind: 'refuse-token', error: 'unauthorized_client' },
    { kind: 'rejected', oauthError: 'unauthorized_client' },
  ],
  ['HTML', { kind: 'status', status: 200, body: 'html' }, { kind: 'transient', reason: 'invalid-body' }],
  ['an HTML error', { kind: 'status', status: 502, body: 'html' }, { kind: 'transient', reason: 'server-error' }],
  ['half of the JSON', { kind: 'broken-json' }, { kind: 'transient', reason: 'invalid-body' }],
  ['half of the message', { kind: 'cut' }, { kind: 'transient', reason: 'connection' }],
  ['a reset', { kind: 'reset', when: 'before' }, { kind: 'transient', reason: 'connection' }],
  ['nothing', { kind: 'hang' }, { kind: 'transient', reason: 'timeout' }],
  ['drops', { kind: 'drip', bytes: 1, everyMs: 100 }, { kind: 'transient', reason: 'timeout' }],
  ['2 MiB', { kind: 'huge-body', mebibytes: 2 }, { kind: 'transient', reason: 'too-large' }],
  ['another place', { kind: 'redirect', location: 'http://127.0.0.1:1/' }, { kind: 'transient', reason: 'redirect' }],
  ['429', { kind: 'throttle', retryAfter: { seconds: 60 } }, { kind: 'transient', reason: 'throttled' }],
])('an endpoint that answers %s is named, and left alone for a while', async (_, fault, expected) => {
  const timeoutMs = expected.reason === 'timeout' ? 500 : testLimitMs
  await using it = await scene({ faults: [{ operation: 'token', fault }] }, undefined, timeoutMs)
  expect(await refusalOf(it.manager)).toMatchObject(expected)
  for (let i = 0; i < 50; i++) await refusalOf(it.manager)
  expect(it.facts.filter(({ type }) => type === 'token-request').length).toBeLessThanOrEqual(2)
})

test('the key of another certificate is rejected, once, and the message says what to check', async () => {
  await using it = await scene({}, 'other')
  const error = await refusalOf(it.manager)
  expect(error).toMatchObject({ kind: 'rejected', oauthError: 'invalid_client' })
  expect(error.advice).toMatch(/auth\.clientId.*certificate registered for it is of this key/)
  expect(it.facts.filter(({ type }) => type === 'token-request')).toHaveLength(1)
})

test.each([
  ['missing', undefined, 60],
  ['0', 0, 60],
  ['negative', -5, 60],
  ['a string', '120', 120],
  ['a year', 31_536_000, 86_400],
])('expires_in that is %s', async (_, value, seconds) => {
  await using it = await scene({ faults: [{ operation: 'token', fault: { kind: 'expires-in', value } }] })
  await it.manager.get()
  expect(it.facts.at(-1)).toEqual({
    type: 'token-refreshed',
    result: 'success',
    reason: 'ok',
    expiresInSeconds: seconds,
  })
})
