// Mistakes in the configuration that would pass in silence: each is refused at the start, or said by `check`.
import { expect, test } from 'vitest'
import { runCommand } from '../support/command.ts'
import { testKeys } from '../support/keys.ts'

const id = 'http://127.0.0.1:1'
const realm = `${id}/auth/realms/main`
const token = 'a-token-that-is-longer-than-32-characters'

type Given = Record<string, string>

/** The part of each name behind `RECONCILER_`; what is said at the configuration, and the exit code. */
test.each<[given: Given, said: string, code: number]>([
  [
    { PLATFORM_BASE_URL: 'https://a.example/v1/webhooks/' },
    'platform.baseUrl (RECONCILER_PLATFORM_BASE_URL): ends in /webhooks, which each call appends: give the part before it',
    78,
  ],
  [{ PLATFORM_BASE_URL: 'https://a.example/webhooks/123e4567-e89b-12d3-a456-426614174000' }, 'ends in /webhooks', 78],
  [{ PLATFORM_BASE_URL: realm }, 'platform.baseUrl (RECONCILER_PLATFORM_BASE_URL): is an address of the identity', 78],
  [{ AUTH_AUTH_URL: `${id}/auth`, AUTH_REALM: 'main' }, 'ends in /auth, which the issuer appends', 78],
  [{ AUTH_AUTH_URL: realm, AUTH_REALM: 'main' }, 'holds a realm already, so it is an issuer', 78],
  [{ AUTH_AUTH_URL: `${id}/realms/main`, AUTH_REALM: 'main' }, 'holds a realm already', 78],
  [{ AUTH_ISSUER_URL: `${realm}/protocol/openid-connect/token` }, 'is not an issuer, but a URL below one', 78],
  [{ AUTH_ISSUER_URL: `${realm}/.well-known/openid-configuration` }, 'is not an issuer, but a URL below one', 78],
  [{ AUTH_ISSUER_URL: `${id}/oauth2/token` }, 'is not an issuer, but a URL below one', 78],
  [
    { CONTROL_ALLOW_REMOTE: 'true' },
    'control.allowRemote (RECONCILER_CONTROL_ALLOW_REMOTE): has no effect without control.token: set that too, or omit this',
    78,
  ],
  [{ NOTIFY_URL: 'https://hooks.example' }, 'RECONCILER_NOTIFY_URL', 78],
  // An API whose own path has a part of that name.
  [{ PLATFORM_BASE_URL: `${id}/webhooks/v1` }, `issuer ${realm}`, 69],
  [{ LEDGER_KEY: 'webhookId' }, 'has no effect without ledger.url', 78],
  [{ LEDGER_SETTLE: '1h' }, 'has no effect without ledger.url', 78],
  [{ LEDGER_LOOKBACK: '2d' }, 'has no effect without ledger.url', 78],
  [
    { SCHEDULE_CRON: '0 0 0 31 4,6,9,11 *' },
    'must be a cron expression of 6 fields (second minute hour day month weekday) with moments that come',
    78,
  ],
  [{ SCHEDULE_CRON: '0 0 0 L-30 2 *' }, 'with moments that come', 78],
  [{ LEADER_ELECTION_LEASE_NAME: 'mine' }, 'has no effect without leaderElection.kind', 78],
  [{ LEADER_ELECTION_LEASE_DURATION: '30s' }, 'has no effect without leaderElection.kind', 78],
  // A switch that is off, and one that was set on purpose, need nothing.
  [{ CONTROL_ALLOW_REMOTE: 'false' }, `issuer ${realm}`, 69],
  [{ CONTROL_ALLOW_REMOTE: 'true', CONTROL_TOKEN: token }, `issuer ${realm}`, 69],
  [{ LEADER_ELECTION_LEASE_NAME: 'mine', LEADER_ELECTION_KIND: 'none' }, `issuer ${realm}`, 69],
  // A window that is shorter than six hours has a warning of a quarter of it.
  [{ WINDOW_LOOKBACK: '4h' }, `issuer ${realm}`, 69],
])('%j: %s', async (given, said, code) => {
  const { privateKeyFile } = await testKeys()
  const isAuth = Object.keys(given).some((name) => /^AUTH_(AUTH|ISSUER)_URL$/.test(name))
  const all = {
    PLATFORM_BASE_URL: `${id}/v1`,
    ...(!isAuth && { AUTH_ISSUER_URL: realm }),
    ...{ AUTH_CLIENT_ID: 'client', AUTH_PRIVATE_KEY_FILE: privateKeyFile, SERVER_PORT: '1', ...given },
  }
  const env = Object.fromEntries(Object.entries(all).map(([name, value]) => [`RECONCILER_${name}`, value]))
  const ran = await runCommand(['check', '--json'], { env })
  const { steps } = JSON.parse(ran.out) as { steps: { found: string; advice?: string }[] }
  expect([`${steps[0]?.found ?? ''} ${steps[0]?.advice ?? ''}`, ran.code]).toEqual([
    expect.stringContaining(said),
    code,
  ])
})
