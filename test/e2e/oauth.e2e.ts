// Against a real OAuth server: the sandbox and the client share `wire.ts`, so that both could be wrong together.
import { afterEach, beforeAll, expect, test, vi } from 'vitest'
import { systemClock, systemRandom } from '../../src/runtime/clock.ts'
import { createConnection } from '../../src/platform/connection.ts'
import { loadKey } from '../../src/platform/auth/private-key.ts'
import type { TokenCache } from '../../src/platform/auth/token.ts'
import { createHttpTransport } from '../../src/platform/http/http.ts'
import { runCommand } from '../support/command.ts'
import { testKeys, type TestKeys } from '../support/keys.ts'
import {
  clientId,
  realmPath,
  startOauthServer,
  type OauthServer,
  type OauthServerOptions,
} from '../support/oauth-server.ts'
import { makeFolder } from '../support/process.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

let [first, second]: TestKeys[] = []

beforeAll(async () => {
  ;[first, second] = [await testKeys(), await testKeys('other')]
})

afterEach(() => {
  vi.useRealTimers()
})

const minute = 60_000
const certificateOf = (keys: TestKeys | undefined): string => keys?.certificatePem ?? ''

test.each<[string, Partial<OauthServerOptions> & { aheadMs?: number }, number, RegExp]>([
  [
    'a key that is registered',
    {},
    0,
    /\nok +token +assertion accepted; the token is valid for (59\d|600) s\nok +list call/,
  ],
  [
    'a host whose clock is ahead',
    { aheadMs: 10 * minute },
    0,
    /\nok +list call[^]*\nwarning +clock skew +identity host (599|600)/,
  ],
  [
    'a host whose clock is behind',
    { aheadMs: -10 * minute },
    0,
    /\nok +list call[^]*\nwarning +clock skew +identity host (599|600)/,
  ],
  [
    'a host whose clock is behind, and a server that sends no Date',
    { aheadMs: -10 * minute, sendsDate: false },
    4,
    /\nFAILED +token [^]*invalid_client[^]*and this host's clock/,
  ],
  [
    'an issuer that calls itself otherwise',
    { issuer: `https://id.example.com${realmPath}` },
    4,
    /\nFAILED +token [^]*invalid_client[^]*auth\.authUrl and auth\.realm \(or auth\.issuerUrl\)/,
  ],
])('check: %s', async (_, { aheadMs = 0, ...options }, code, out) => {
  await using server = await startOauthServer({
    certificates: [certificateOf(second), certificateOf(first)],
    ...options,
  })
  const env = {
    RECONCILER_PLATFORM_BASE_URL: `${server.url}/v1`,
    RECONCILER_AUTH_AUTH_URL: server.url,
    RECONCILER_AUTH_REALM: 'demo',
    RECONCILER_AUTH_CLIENT_ID: clientId,
    RECONCILER_AUTH_PRIVATE_KEY_FILE: first?.privateKeyFile,
    RECONCILER_SERVER_PORT: '1',
  }
  const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }
  const ran = await runCommand(['check'], { env, clock })
  expect(ran.out.replaceAll(/\n {2,}(?! *->)/g, ' ')).toMatch(out)
  expect(ran.code).toBe(code)
})

interface World extends AsyncDisposable {
  tokens: TokenCache
  /** Lets time go by; in each second the token that is given out must be one that the platform takes. */
  pass(ms: number): Promise<void>
}

/** The token cache in a time that the server shares. */
function tokensOf(server: OauthServer, file: string): World {
  const clock = createVirtualClock(systemClock.now())
  vi.useFakeTimers({ toFake: ['Date'], now: clock.now() })
  const http = createHttpTransport({ clock, version: '1.2.3', connections: 2 })
  let pending = 0
  const { tokens } = createConnection(
    {
      platform: { baseUrl: server.url, requestTimeout: 10_000, timeZone: 'UTC' },
      auth: { issuerUrl: server.issuer, clientId, scope: 'api' },
      window: { lookback: minute },
    },
    {
      ...{ clock, transport: http.transport, key: loadKey({ file }) },
      random: {
        next: () => 0.5,
        uuid() {
          // Of an assertion: a request begins.
          pending += 1
          return systemRandom.uuid()
        },
      },
      emit({ type }) {
        if (type === 'token-request') pending -= 1
      },
    },
  )
  const controller = new AbortController()
  const running = tokens.run(controller.signal)
  return {
    tokens,
    async pass(ms) {
      for (let left = ms; left > 0; left -= 1000) {
        vi.setSystemTime(clock.now() + 1000)
        await clock.advance(1000)
        while (pending > 0) await clock.settle()
        expect(await server.takes((await tokens.get()).value)).toBe(true)
      }
    },
    async [Symbol.asyncDispose]() {
      controller.abort(new Error('the test is over'))
      await expect(running).rejects.toThrow('the test is over')
      await http.close()
    },
  }
}

const twentySeconds = 20_000

test('a token is renewed before its end, and a key that is registered late signs as soon as it is', async () => {
  await using folder = await makeFolder()
  await using server = await startOauthServer({ certificates: [certificateOf(first)], lifetimeSeconds: 20 })
  const file = await folder.write('key.pem', first?.privateKeyPem ?? '')
  await using world = tokensOf(server, file)
  await world.pass(minute)
  expect(server.answers.splice(0)).toEqual(Array(5).fill('granted'))

  // The key is swapped here, and not registered there.
  await folder.write('key.pem', second?.privateKeyPem ?? '')
  await world.pass(2 * minute)
  expect(server.answers.splice(0).filter((answer) => answer === 'refused')).toHaveLength(2)
  expect(world.tokens.keyProblem()).toContain('the platform rejects the key')

  server.register(certificateOf(first), certificateOf(second))
  await world.pass(minute)
  server.register(certificateOf(second))
  await world.pass(minute)
  expect(server.answers).not.toContain('refused')
  expect(world.tokens.keyProblem()).toBeUndefined()

  // Registered first, swapped later.
  server.register(certificateOf(second), certificateOf(first))
  await folder.write('key.pem', first?.privateKeyPem ?? '')
  await world.pass(twentySeconds)
  server.register(certificateOf(first))
  await world.pass(minute)
  expect(server.answers).not.toContain('refused')
})
