// What commands say of a platform that answers wrongly or not at all: what happened, to what, and what to do.
import { describe, expect, test } from 'vitest'
import { envOf } from '../support/causes.ts'
import { runCommand } from '../support/command.ts'
import { startPlatform } from '../support/platform.ts'
import { htmlPage } from '../support/planted.ts'

describe('what a command says of the platform', () => {
  test.each([
    [
      'a wrong realm',
      { RECONCILER_AUTH_REALM: 'nope' },
      78,
      /FAILED +token .*; POST http:\S+\/realms\/nope\/\S+\n +-> .*auth\.realm/,
    ],
    [
      'a wrong path',
      { RECONCILER_PLATFORM_BASE_URL: '/v9' },
      78,
      /FAILED +list call .*404\); GET http:\S+\/v9\/webhooks\n +-> .*platform\.baseUrl/,
    ],
  ])('check: %s is a matter of the configuration', async (_name, changes, expected, words) => {
    await using sandbox = await startPlatform()
    const env = await envOf(sandbox)
    const more = Object.entries(changes).map(([name, value]) => [
      name,
      value.startsWith('/') ? `${env[name] ?? ''}${value}` : value,
    ])
    const { code, out } = await runCommand(['check'], { env: { ...env, ...(Object.fromEntries(more) as object) } })
    expect(out).toMatch(words)
    expect(code).toBe(expected)
  })

  test('check: HTML in place of a list', async () => {
    await using sandbox = await startPlatform({ faults: [{ operation: 'list', fault: htmlPage }] })
    const { code, out } = await runCommand(['check'], { env: await envOf(sandbox) })
    expect(out).toMatch(
      /FAILED +list call +list: \S+ \(HTTP 200\); GET .*\n +-> a login page or a proxy answers in its place/,
    )
    expect(code).toBe(78)
  })

  test('check: where nothing listens, with address and error code; every step in its order', async () => {
    await using sandbox = await startPlatform()
    const env = { ...(await envOf(sandbox)), RECONCILER_PLATFORM_BASE_URL: 'http://127.0.0.1:1/v1' }
    const { code, err, out } = await runCommand(['check', '--verbose'], { env })
    expect(code).toBe(69)
    expect(out).toContain('list: connection (ECONNREFUSED); GET http://127.0.0.1:1/v1/webhooks\n')
    expect(out).toMatch(/clock skew .*platform unknown\n/)
    const steps = [...out.matchAll(/^(?:ok|warning|FAILED|-) +([a-z]+(?: [a-z]+)?) {2}/gm)].map(([, step]) => step)
    const order = [
      'configuration',
      'key',
      'certificate',
      'token',
      'list call',
      'clock skew',
      'time zone',
      'receiver',
      'daemon',
    ]
    expect(steps).toEqual(order)
    expect(err).toContain('"event":"token_obtained"')
  })

  test('plan: where nothing listens, what to check', async () => {
    await using sandbox = await startPlatform()
    const env = { ...(await envOf(sandbox)), RECONCILER_PLATFORM_BASE_URL: 'http://127.0.0.1:1/v1' }
    const { code, err, out } = await runCommand(['plan'], { env })
    expect({ code, out }).toEqual({ code: 69, out: '' })
    expect(err).toContain('list: connection (ECONNREFUSED)\n-> nothing listens there: check platform.baseUrl')
  })

  test('once: nothing is known when the sweep failed', async () => {
    await using sandbox = await startPlatform({ faults: [{ operation: 'token', fault: { kind: 'refuse-token' } }] })
    const { code, err, out } = await runCommand(['once'], { env: await envOf(sandbox) })
    expect({ code, out }).toEqual({ code: 4, out: '' })
    expect(err).toContain('nothing is known, because the list call failed')
  })

  test('print-config and check: no query of receiver.healthUrl', async () => {
    await using sandbox = await startPlatform()
    const { receiverHealthUrl: healthUrl } = sandbox
    const env = await envOf(sandbox, { RECONCILER_RECEIVER_HEALTH_URL: `${healthUrl}?token=CANARY` })
    for (const [command = '', shown = ''] of [
      ['print-config', `${healthUrl}?(hidden)`],
      ['check', `${healthUrl}: HTTP 200`],
    ]) {
      const { out } = await runCommand([command], { env })
      const asJson = await runCommand([command, '--json'], { env })
      expect([out, asJson.out]).toEqual([expect.stringContaining(shown), expect.not.stringContaining('CANARY')])
      expect(out).not.toContain('CANARY')
    }
  })
})
