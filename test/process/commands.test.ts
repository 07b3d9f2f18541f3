// The commands for the person on call against a real sandbox: what they show, what they touch, and how they end.
import { generateKeyPairSync } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { startRawServer } from '../support/raw-server.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { runCommand } from '../support/command.ts'
import { token } from '../support/ops-server.ts'
import { sandboxEnv, seedDue, startPlatform } from '../support/platform.ts'
import { get, startDaemon, startDaemonHere } from '../support/process.ts'

test('every command has a help, and a line in that of the program', async () => {
  const { out } = await runCommand(['--help'])
  const names = [...out.matchAll(/\n {2}([a-z-]+) /g)].map(([, name = '']) => name).filter((name) => name !== 'help')
  expect(names.length).toBeGreaterThan(11)
  for (const name of names) {
    const help = await runCommand([name, '--help'])
    expect(help.code).toBe(0)
    expect(help.out).toContain(`Usage: webhook-reconciler ${name}`)
    if (name !== 'version') expect(help.out).toContain(`Examples:\n  webhook-reconciler ${name}`)
  }
})

const required = {
  RECONCILER_PLATFORM_BASE_URL: 'https://api.example.com/v1',
  RECONCILER_AUTH_AUTH_URL: 'https://id.example.com',
  RECONCILER_AUTH_REALM: 'main',
  RECONCILER_AUTH_CLIENT_ID: 'client',
  RECONCILER_AUTH_PRIVATE_KEY_FILE: '/run/key.pem',
}

test('print-config shows every key with its value and origin, and no secret', async () => {
  const env = {
    ...required,
    RECONCILER_CONTROL_TOKEN: 'CANARY-b7f1c2d3e4a5b7f1c2d3e4a5b7f1c2d3e4a5',
    RECONCILER_WINDOW_LOOKBACK: '48h',
    RECONCILER_AUTH_SCOPE: '',
  }
  const { code, out } = await runCommand(['print-config'], { env })
  expect(code).toBe(0)
  expect(out).toMatch(/\nwindow\.lookback +2d +RECONCILER_WINDOW_LOOKBACK\n/)
  expect(out).toMatch(/\nretry\.backoff\.initial +1m +default\n/)
  expect(out).toMatch(
    /\nauth\.issuerUrl +https:\/\/id\.example\.com\/auth\/realms\/main +auth\.authUrl and auth\.realm\n/,
  )
  expect(out).toMatch(/\ncontrol\.token +\(hidden\) +RECONCILER_CONTROL_TOKEN\n/)
  expect(out).toMatch(/\nauth\.privateKey +unset +default\n/)
  expect(out).toMatch(/\nauth\.scope +"" +RECONCILER_AUTH_SCOPE\n/)
  const others = Object.entries(env).filter(([key]) => !/_(AUTH_URL|REALM|KEY_FILE)$/.test(key))
  const given = {
    ...{ ...Object.fromEntries(others), RECONCILER_AUTH_ISSUER_URL: 'https://id.example.com' },
    ...{ RECONCILER_AUTH_SIGN_COMMAND: '["sign", "CANARY"]', RECONCILER_AUTH_CERTIFICATE_FILE: '/run/certificate.pem' },
  }
  const asJson = await runCommand(['print-config', '--json'], { env: given })
  type Key = Record<'key' | 'origin' | 'value', unknown>
  const { configuration } = JSON.parse(asJson.out) as { configuration: Key[] }
  const one = (wanted: string): Key | undefined => configuration.find(({ key }) => key === wanted)
  const value = (key: string): unknown => one(key)?.value
  expect(one('auth.issuerUrl')?.origin).toBe('RECONCILER_AUTH_ISSUER_URL')
  expect([value('retry.concurrency'), value('retry.enabled'), value('select.eventTypes')]).toEqual([24, true, []])
  expect([value('window.notBefore'), value('platform.requestTimeout')]).toEqual([null, '10s'])
  expect(out + asJson.out).not.toContain('CANARY')
})

describe('pause and resume', () => {
  test('hold the running daemon and let it go; the audit has each, and the token is shown nowhere', async () => {
    await using sandbox = await startPlatform()
    const env = { ...(await sandboxEnv(sandbox)), RECONCILER_CONTROL_TOKEN: token }
    const watched = { RECONCILER_AUDIT_ENABLED: 'true', RECONCILER_SCHEDULE_CRON: '* * * * * *' }
    await using daemon = await startDaemon({ ...env, ...watched })
    const { port } = new URL(daemon.url)
    const own = { ...env, RECONCILER_SERVER_PORT: port }
    const paused = await runCommand(['pause'], { env: own })
    expect(paused).toMatchObject({ code: 0, err: '' })
    const since = String.raw`since \d{4}-\S+Z`
    expect(paused.out).toMatch(
      new RegExp(`^test: retries paused ${since}; resume with webhook-reconciler resume or a restart\n$`),
    )
    const { body } = await get(`${daemon.url}/status`)
    expect(JSON.parse(body)).toMatchObject({ holding: ['paused'] })
    seedDue(sandbox, 5)
    await expect
      .poll(async () => (await daemon.metrics()).sum('failed_webhooks', { decision: 'blocked' }), { interval: 200 })
      .toBe(5)
    expect(sandbox.stats.requests.retry).toEqual({})
    const over = await runCommand(['resume'], { env: own })
    expect(over.out).toBe('test: retries resumed\n')
    await expect.poll(() => sandbox.counts()).toMatchObject({ failed: 0, successful: 5 })
    await runCommand(['pause'], { env: own })
    const resumed = await runCommand(['resume', '--json', '--port', port], { env })
    expect(JSON.parse(resumed.out)).toEqual({
      ...{ schemaVersion: 2, instance: 'test', subscriptionId: null, paused: false, changed: true, pauses: [] },
      ...{ since: null, until: null, reason: null },
    })
    // As by `kubectl exec`: platform and key are not known there.
    const alone = { RECONCILER_CONTROL_TOKEN: token, RECONCILER_SERVER_PORT: port, RECONCILER_AUTH_REALM: 'main' }
    const byExec = await runCommand(['resume'], { env: alone })
    expect(byExec).toMatchObject({ code: 0, err: '', out: 'test: retries were not paused\n' })
    const wrong = await runCommand(['pause'], { env: { ...own, RECONCILER_CONTROL_TOKEN: `${token}-other` } })
    expect(wrong).toMatchObject({ code: 4, out: '' })
    daemon.kill('SIGTERM')
    const { stderr, stdout } = await daemon.ended()
    for (const { out, err } of [paused, resumed, wrong]) expect(out + err).not.toContain(token)
    expect(stdout + stderr + body).not.toContain(token)
    const told = daemon.log().filter(({ audit, event }) => audit === true && event.startsWith('operator_'))
    expect(told.map(({ changed, event }) => [event, changed])).toEqual([
      ['operator_paused', true],
      ['operator_resumed', true],
      ['operator_paused', true],
      ['operator_resumed', true],
      ['operator_resumed', false],
    ])
  })

  test('need no control.token where the private key can be read; another key opens nothing', async () => {
    await using sandbox = await startPlatform()
    const env = await sandboxEnv(sandbox)
    await using daemon = await startDaemonHere(env)
    const { port } = new URL(daemon.url)
    const { RECONCILER_AUTH_PRIVATE_KEY_FILE: file } = env
    const own = { RECONCILER_SERVER_PORT: port, RECONCILER_AUTH_PRIVATE_KEY_FILE: file }
    expect(
      await runCommand(['pause', '--for', '2h', '--reason', 'INC-7', '--zone', 'Europe/Riga'], { env: own }),
    ).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringMatching(
        /^test: retries paused since \S+, until \S+\+0[23]:00 \(INC-7\); resume with /,
      ) as string,
    })
    const status = await runCommand(['status'], { env: own })
    expect(status.out).toMatch(/It ends at [\d :-]+ UTC\. Reason: INC-7\./)
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    const other = { RECONCILER_SERVER_PORT: port, RECONCILER_AUTH_PRIVATE_KEY: pem }
    const wrong = await runCommand(['resume'], { env: other })
    expect(wrong).toMatchObject({ code: 4, out: '', err: expect.stringContaining('rejects the token') as string })
    const unknown = await runCommand(['resume', '--subscription', 'nobody'], { env: own })
    expect(unknown).toMatchObject({
      code: 2,
      err: expect.stringContaining('subscription: an id (a whole UUID') as string,
    })
  })

  test('no token and no key: 78; no daemon there: 69; no port: 2', async () => {
    const without = await runCommand(['pause'], { env: {} })
    expect(without.code).toBe(78)
    expect(without.err).toContain('auth.privateKeyFile (missing)')
    const with_ = { ...required, RECONCILER_CONTROL_TOKEN: token }
    const nobody = await runCommand(['resume', '--port', '1'], { env: with_ })
    expect(nobody.code).toBe(69)
    expect(nobody.err).toBe(
      'No daemon at http://127.0.0.1:1 (ECONNREFUSED): start it there with webhook-reconciler run (with retry.enabled: false it retries nothing), ' +
        'or run this where it runs: kubectl exec POD -c webhook-reconciler -- webhook-reconciler resume.\n',
    )
    expect((await runCommand(['pause'], { env: { ...with_, RECONCILER_SERVER_PORT: '0' } })).code).toBe(2)
  })

  test.each([
    ['pause', 25_000, 1, 'did not respond within 25 s: the command was sent but not confirmed. It is safe'],
    ['status', 2000, 69, 'did not respond in time: try again, or run this where it runs'],
  ])(
    'a daemon that is silent: %s waits for %i ms, as long as it may take, and does not say that there is none',
    async (name, ms, code, said) => {
      await using silent = await startRawServer(() => undefined)
      const clock = createVirtualClock()
      const env = { ...required, RECONCILER_CONTROL_TOKEN: token }
      const asking = runCommand([name, '--port', silent.url.port], { env, clock })
      await silent.received(1)
      await clock.advance(ms)
      expect(await asking).toMatchObject({ code, err: expect.stringContaining(said) as string })
    },
  )
})
