// The commands for the person on call against a real sandbox: what they show, what they touch, and how they end.
import { describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { RetryReport } from '../../src/cli/retry-report.ts'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import { runCommand } from '../support/command.ts'
import { token } from '../support/control.ts'
import { sandboxEnv } from '../support/engine.ts'
import { createGate, seedDue, startPlatform } from '../support/gate.ts'
import { testKeys } from '../support/keys.ts'
import { get, patience, runProgram, startDaemon, startProgram } from '../support/process.ts'

vi.setConfig({ testTimeout: 60_000 })

const hour = 3_600_000
const missing = '11111111-2222-4333-8444-555555555555'
const team = '77777777-2222-4333-8444-555555555555'

async function envOf(sandbox: Sandbox, more: Record<string, string> = {}): Promise<Record<string, string>> {
  return { ...(await sandboxEnv(sandbox)), RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000', ...more }
}

/** Records of three causes: 20 due by 503, 5 backing off without a response, 3 parked; and 4 of another team. */
function seedCauses(sandbox: Sandbox): { due: string[]; parked: string[]; others: string[] } {
  const now = systemClock.now()
  const common = { eventTypes: ['account-activated'], subscriptions: [missing] }
  const old = { from: now - 20 * hour, to: now - 10 * hour, attempts: 1 }
  const due = sandbox.seed({ ...common, ...old, count: 20, result: { responseStatusCode: 503 } }).ids()
  const soon = { from: now - 2 * hour, to: now - hour, attempts: 20, lastAttemptAfterMs: 3000 }
  sandbox.seed({ ...common, ...soon, count: 5, result: { responseStatusCode: null } })
  const limit = { ...old, attempts: 30 }
  const parked = sandbox.seed({ ...common, ...limit, count: 3, result: { responseStatusCode: 503 } }).ids()
  const others = sandbox.seed({ ...old, count: 4, subscriptions: [team] }).ids()
  return { due, parked, others }
}

function reportOf({ out }: { out: string }): RetryReport {
  return JSON.parse(out) as RetryReport
}

describe('plan', () => {
  test('shows the causes, what comes now and later, and touches nothing', async () => {
    await using sandbox = await startPlatform()
    seedCauses(sandbox)
    const env = await envOf(sandbox, { RECONCILER_SELECT_SUBSCRIPTION_IDS: missing })
    const { code, err, out } = await runCommand(['plan'], { env })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^test at 127\.0\.0\.1:\d+, \d{4}-\d\d-\d\dT[\d:]+Z\nOne full sweep in /)
    expect(out).toContain('32 failed records in the last 7d. Nothing was touched.')
    expect(out).toMatch(/\n {3}23 {2}account-activated {2}1{8}-[\d-]+ {2}503 {12}\S+Z {2}20 due, 3 parked {2}now\n/)
    expect(out).toMatch(/\n {4}5 {2}account-activated {2}\S+ {2}no response {4}\S+Z {2}backing-off {7}\d{4}-\S+Z\n/)
    expect(out).toMatch(/Would be retried now: 20, in about \d s at 1000 calls\/s/)
    expect(out).toContain('Later, by itself: 5 backing-off.')
    expect(out).toContain('3 parked (retry.maxAttempts 30)')
    expect(out).toContain('Not at all: 4 excluded')
    expect(sandbox.stats.requests.retry).toEqual({})
  })

  test('as JSON, with all records', async () => {
    await using sandbox = await startPlatform()
    const { due } = seedCauses(sandbox)
    const { code, out } = await runCommand(['plan', '--json', '--records'], { env: await envOf(sandbox) })
    expect(code).toBe(0)
    const document = JSON.parse(out) as { causes: { records: number }[]; records: { webhookId: string }[] }
    expect(document).toMatchObject({
      schemaVersion: 1,
      instance: 'test',
      failed: { due: 24, 'backing-off': 5, parked: 3 },
      leftOut: false,
      estimate: { records: 24 },
      exitCode: 0,
    })
    expect(document.causes.reduce((sum, { records }) => sum + records, 0)).toBe(32)
    expect(document.records).toHaveLength(32)
    expect(document.records.map(({ webhookId }) => webhookId)).toEqual(expect.arrayContaining(due))
  })

  test('tells that the receiver holds all back, and that retries are not enabled', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 7)
    const health = { RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiver.healthUrl }
    expect((await runCommand(['plan'], { env: await envOf(sandbox, health) })).out).toContain('retried now: 7')
    sandbox.receiver.down()
    const down = await runCommand(['plan'], { env: await envOf(sandbox, health) })
    expect(down.out).toContain('Held: 7, because the receiver is down (receiver.healthUrl).')
    const off = await runCommand(['plan'], { env: await envOf(sandbox, { RECONCILER_RETRY_ENABLED: 'false' }) })
    expect(off.out).toContain('Held: 7, because retry.enabled is false.')
  })

  test.each([
    [{ operation: 'list', fault: { kind: 'status', status: 403 } }, 4, 'list: forbidden (HTTP 403)'],
    [{ operation: 'list', fault: { kind: 'status', status: 503 } }, 69, 'list: server-error (HTTP 503)'],
  ] as const)('a platform that answers %j: %i, in words', async (fault, expected, words) => {
    await using sandbox = await startPlatform({ faults: [fault] })
    const { code, err, out } = await runCommand(['plan'], { env: await envOf(sandbox) })
    expect({ code, out }).toEqual({ code: expected, out: '' })
    expect(err).toContain(words)
    expect(err).toContain('webhook-reconciler check')
  })

  test('a process prints progress only on a terminal, and nothing else on stderr', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 300)
    const { code, stderr, stdout } = await runProgram(['plan'], { env: await envOf(sandbox) })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('300 failed records')
    const seen = await runCommand(['plan'], { env: await envOf(sandbox), isTTY: true, columns: 200 })
    expect(seen.err).toMatch(/^\r\u001b\[KListing the failed records of test at /)
    expect(seen.err.endsWith('\r\u001b[K')).toBe(true)
  })
})

describe('explain', () => {
  test('shows each record of an event, with why and when', async () => {
    // Several records of one event, as when it has several subscriptions: the sandbox finds only one by its event.
    await using sandbox = await startPlatform({ ignores: ['eventId'] })
    const now = systemClock.now()
    const common = { wire: { eventId: missing }, eventInstant: now - 3 * hour, eventType: 'account-activated' }
    sandbox.addWebhook({ ...common, attempts: 30, responseStatusCode: 500 })
    sandbox.addWebhook({ ...common, status: 'successful', attempts: 1 })
    sandbox.addWebhook({ ...common, attempts: 12, lastAttempt: now - 60_000 })
    seedDue(sandbox, 5)
    const { code, out } = await runCommand(['explain', missing, '--zone', 'Europe/Riga'], { env: await envOf(sandbox) })
    expect(code).toBe(0)
    expect(out).toMatch(new RegExp(`^Event ${missing} of test at \\S+, \\d{4}-\\S+\\+0[23]:00: 3 records\n`))
    expect(out).toMatch(/why +parked: 30 attempts, and retry\.maxAttempts is 30/)
    expect(out).toMatch(/why +delivered: the platform shows it as successful/)
    expect(out).toMatch(/why +backing off until \S+, because attempt 12 was at \S+\n/)
    expect(out.match(/next retry +none by itself/g)).toHaveLength(2)
    expect(out).toContain('The platform also showed records of other events')
    expect(sandbox.stats.requests.retry).toEqual({})
  })

  test('as JSON', async () => {
    await using sandbox = await startPlatform()
    const eventInstant = systemClock.now() - 3 * hour
    sandbox.addWebhook({ eventId: missing, eventInstant, attempts: 1, responseStatusCode: 500 })
    const { code, out } = await runCommand(['explain', missing.toUpperCase(), '--json'], { env: await envOf(sandbox) })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      schemaVersion: 1,
      eventId: missing,
      records: [{ state: 'due', attempts: 1, responseStatusCode: 500, status: 'failed' }],
      remarks: [],
    })
  })

  test('an event that the platform does not know: 1; no UUID: 2', async () => {
    await using sandbox = await startPlatform()
    const unknown = await runCommand(['explain', missing], { env: await envOf(sandbox) })
    expect(unknown.code).toBe(1)
    expect(unknown.out).toContain('The platform shows no record of this event.')
    expect(await runCommand(['explain', 'abc'])).toMatchObject({ code: 2, out: '' })
    expect(await runCommand(['explain', missing, '--zone', 'Mars'])).toMatchObject({ code: 2, out: '' })
  })
})

describe('retry', () => {
  test('by id: also what is backing off, excluded, or before notBefore; what is parked only with --parked', async () => {
    await using sandbox = await startPlatform({ delivery: { mode: 'async', delayMs: 50 } })
    const { due, parked, others } = seedCauses(sandbox)
    const env = await envOf(sandbox, {
      RECONCILER_SELECT_SUBSCRIPTION_IDS: missing,
      RECONCILER_WINDOW_NOT_BEFORE: new Date(systemClock.now() - hour).toISOString(),
    })
    const named = [due[0], others[0]].map(String)
    const ran = await runCommand(['retry', ...named, '--json'], { env })
    expect(ran.code, ran.err).toBe(0)
    expect(reportOf(ran)).toMatchObject({ found: 2, sums: { retried: 2, recovered: 2, refused: 0 }, exitCode: 0 })
    expect(sandbox.counts()).toMatchObject({ successful: 2, failed: 30 })

    const alone = await runCommand(['retry', String(parked[0])], { env })
    expect(alone.code).toBe(1)
    expect(alone.out).toContain('parked        1 left alone (retry.maxAttempts): add --parked for these')
    expect(sandbox.counts().successful).toBe(2)
    expect((await runCommand(['retry', String(parked[0]), '--parked'], { env })).code).toBe(0)
    expect(sandbox.counts().successful).toBe(3)
  })

  test('an id that is not failed any more was resolved; one that is unknown is refused', async () => {
    await using sandbox = await startPlatform()
    const [id = ''] = seedDue(sandbox, 1)
    expect((await runCommand(['retry', id], { env: await envOf(sandbox) })).code).toBe(0)
    const again = await runCommand(['retry', id, missing, '--json'], { env: await envOf(sandbox) })
    expect(again.code).toBe(1)
    expect(reportOf(again)).toMatchObject({ found: 0, sums: { retried: 2, resolved: 1, refused: 1 } })
    expect(reportOf(again).records).toContainEqual(expect.objectContaining({ webhookId: missing, result: 'gone' }))
  })

  test('of an event: its failed records, but not those of others that select.* leaves out', async () => {
    await using sandbox = await startPlatform({ ignores: ['eventId'] })
    const common = { wire: { eventId: missing }, eventInstant: systemClock.now() - 3 * hour, attempts: 25 }
    seedDue(sandbox, 3)
    sandbox.addWebhook({ ...common, subscriptionId: missing })
    sandbox.addWebhook({ ...common, subscriptionId: missing, status: 'successful' })
    sandbox.addWebhook({ ...common, subscriptionId: team })
    const env = await envOf(sandbox, { RECONCILER_SELECT_SUBSCRIPTION_IDS: missing })
    const ran = await runCommand(['retry', '--event', missing, '--json'], { env })
    expect(reportOf(ran)).toMatchObject({ found: 2, excluded: 1, notFailed: 1, sums: { retried: 1, recovered: 1 } })
    expect(ran.code).toBe(1)
  })

  test('of a span: by type and subscription, beyond the window too, and nothing around it', async () => {
    await using sandbox = await startPlatform()
    const now = systemClock.now()
    const at = (days: number, eventType: string): string =>
      sandbox.addWebhook({ eventInstant: now - days * 24 * hour, eventType, subscriptionId: missing, attempts: 4 })
    const meant = [at(20, 'account-activated'), at(21, 'account-activated')]
    const left = [at(20, 'outgoing-transfer-released'), at(23, 'account-activated'), at(1, 'account-activated')]
    const args = ['retry', '--since', '22d', '--until', '19d', '--type', 'account-activated', '--subscription', missing]
    const ran = await runCommand([...args, '--json'], { env: await envOf(sandbox) })
    expect(ran.code, ran.err).toBe(1)
    expect(reportOf(ran)).toMatchObject({ found: 3, excluded: 1, sums: { recovered: 2 } })
    const states = (ids: string[]): unknown[] => ids.map((id) => sandbox.record(id)?.status)
    expect([states(meant), states(left)]).toEqual([
      ['successful', 'successful'],
      ['failed', 'failed', 'failed'],
    ])
  })

  test('more than a hundred are asked for, by name of instance and host', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 101)
    const args = ['retry', '--since', '7d']
    const env = await envOf(sandbox)
    const alone = await runCommand(args, { env })
    expect(alone.code).toBe(2)
    expect(alone.err).toContain('101 records are more than 100, and there is no terminal to ask at: add --yes')
    for (const answer of ['n', '', 'yo']) {
      const no = await runCommand(args, { env, answer })
      expect(no).toMatchObject({ code: 1, out: '', err: 'Nothing was retried.\n' })
      expect(no.questions[0]).toMatch(
        /^Retry 101 failed records of test at 127\.0\.0\.1:\d+ \(events from .*\)\? \[y\/N\] $/,
      )
    }
    expect(sandbox.stats.requests.retry).toEqual({})
    expect(await runCommand(args, { env, answer: 'y' })).toMatchObject({ code: 0 })
    expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 101 })
  })

  test('a hundred are not asked for; one is, while retry.enabled is false', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 100)
    const off = await envOf(sandbox, { RECONCILER_RETRY_ENABLED: 'false' })
    const held = await runCommand(['retry', '--since', '7d'], { env: off })
    expect(held.code).toBe(2)
    expect(held.err).toContain('retry.enabled is false, and there is no terminal')
    expect((await runCommand(['retry', '--since', '7d'], { env: await envOf(sandbox) })).code).toBe(0)
    seedDue(sandbox, 1)
    expect((await runCommand(['retry', '--since', '7d', '--yes'], { env: off })).code).toBe(0)
    expect(sandbox.counts().failed).toBe(0)
  })

  test('a dead receiver is hit ten times and not five hundred, also where circuits are off', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 500)
    sandbox.receiver.down()
    const env = await envOf(sandbox, { RECONCILER_CIRCUIT_ENABLED: 'false' })
    const ran = await runCommand(['retry', '--since', '7d', '--yes'], { env })
    expect(ran.code).toBe(1)
    expect(sandbox.stats.deliveries.failed).toBe(10)
    expect(ran.out).toContain('failed again  10\n')
    expect(ran.out).toContain('Stopped early by: circuit (nearly all retries failed again')
    expect(ran.out).toMatch(/not retried +490\n/)
  })

  test('shows how far it is on a terminal', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 60)
    const args = ['retry', '--since', '7d', '--rate', '30']
    const { code, err } = await runCommand(args, { env: await envOf(sandbox), isTTY: true, columns: 200 })
    expect(code).toBe(0)
    expect(err).toContain('Looking for them on test at ')
    expect(err).toMatch(/\[#+\.+\] \d+\/60, about \d+ s left: \d+ recovered, 0 failed again, 0 refused, \d+ waited for/)
  })

  test('--rate is kept', async () => {
    await using sandbox = await startPlatform()
    seedDue(sandbox, 15)
    const started = systemClock.monotonic()
    expect((await runCommand(['retry', '--since', '7d', '--rate', '10'], { env: await envOf(sandbox) })).code).toBe(0)
    // A burst of one second, and half a second for the other five.
    expect(systemClock.monotonic() - started).toBeGreaterThan(450)
  })

  test('can be cut off and run again', async () => {
    const gate = createGate()
    await using sandbox = await startPlatform({}, gate)
    seedDue(sandbox, 30)
    sandbox.faults.set(gate.hold('retry', { skip: 5 }))
    const env = await envOf(sandbox)
    const args = ['retry', '--since', '7d', '--json']
    await using program = startProgram(args, { env: { ...env, RECONCILER_SHUTDOWN_GRACE: '5s' } })
    await gate.arrived(1)
    program.kill('SIGINT')
    await expect.poll(() => program.stderr() + String(gate.waiting()), patience).toMatch(/[1-9]/)
    gate.open()
    const ended = await program.ended()
    expect(ended.code).toBe(1)
    const first = JSON.parse(ended.stdout) as RetryReport
    expect(first.stoppedBy).toBe('signal')
    expect(first.held).toBeGreaterThan(0)
    sandbox.faults.set()
    const second = await runCommand(args, { env })
    expect(second.code).toBe(0)
    expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 30 })
    expect(reportOf(second).sums.recovered).toBe(first.held)
  })

  test('what is asked for wrongly is refused before the platform is asked', async () => {
    for (const args of [[], ['x'], ['--since', 'soon'], [missing, '--since', '1h'], ['--since', '1h', '--rate', '0']]) {
      const env = { RECONCILER_PLATFORM_BASE_URL: 'http://127.0.0.1:1', RECONCILER_AUTH_CLIENT_ID: 'c' }
      const issuer = { RECONCILER_AUTH_ISSUER_URL: 'http://127.0.0.1:1', RECONCILER_AUTH_PRIVATE_KEY_FILE: 'none' }
      const { privateKeyFile } = await testKeys()
      const all = { ...env, ...issuer, RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile }
      expect(await runCommand(['retry', ...args], { env: all })).toMatchObject({ code: 2, out: '' })
    }
  })

  test('the audit tells each retry and outcome on stderr', async () => {
    await using sandbox = await startPlatform()
    const [id] = seedDue(sandbox, 1)
    const env = await envOf(sandbox, { RECONCILER_AUDIT_ENABLED: 'true' })
    const { err } = await runCommand(['retry', '--since', '7d'], { env })
    const lines = err
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(lines).toMatchObject([
      { audit: true, action: 'retry', webhookId: id, attempt: 2, why: 'due', result: 'accepted' },
      { audit: true, action: 'outcome', webhookId: id, attempt: 2, outcome: 'recovered' },
    ])
  })
})

describe('check', () => {
  test('all is well: 0, and nothing is touched', async () => {
    await using sandbox = await startPlatform()
    sandbox.addWebhook({ eventInstant: systemClock.now() - 60_000 })
    const { certificateFile } = await testKeys()
    const env = await envOf(sandbox, {
      RECONCILER_AUTH_CERTIFICATE_FILE: certificateFile,
      RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiver.healthUrl,
    })
    const { code, out } = await runCommand(['check', '--json'], { env })
    const document = JSON.parse(out) as { steps: { step: string; verdict: string }[] }
    const verdicts = Object.fromEntries(document.steps.map(({ step, verdict }) => [step, verdict]))
    expect(verdicts).toMatchObject({
      configuration: 'ok',
      certificate: 'ok',
      token: 'ok',
      'list call': 'ok',
      'clock skew': 'ok',
      'time zone': 'ok',
      receiver: 'ok',
    })
    expect(code).toBe(0)
    expect(sandbox.stats.requests.retry).toEqual({})
  })

  test('a configuration that can not be used: 78, and nothing after it is looked at', async () => {
    const { code, out } = await runCommand(['check'], { env: { RECONCILER_PLATFORM_BASE_URL: 'ftp://x' } })
    expect(code).toBe(78)
    expect(out).toMatch(/^FAILED {3}configuration +platform\.baseUrl \(RECONCILER_PLATFORM_BASE_URL\)/)
    expect(out).toMatch(/\n- +token +not looked at/)
  })

  test('a client that is not known: 4; a permission that is missing: 4', async () => {
    await using sandbox = await startPlatform()
    const client = await runCommand(['check'], { env: await envOf(sandbox, { RECONCILER_AUTH_CLIENT_ID: 'stranger' }) })
    expect(client.code).toBe(4)
    expect(client.out).toMatch(/\nFAILED +token +the platform rejected the token request/)
    sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 403 } })
    const list = await runCommand(['check'], { env: await envOf(sandbox) })
    expect(list.code).toBe(4)
    expect(list.out).toMatch(/\nok +token [^\n]*\nFAILED +list call +list: forbidden/)
  })

  test('a platform that is not there: 69', async () => {
    const sandbox = await startPlatform()
    const env = await envOf(sandbox)
    await sandbox.close()
    const { code, out } = await runCommand(['check'], { env })
    expect(code).toBe(69)
    expect(out).toMatch(/\nFAILED +token +no access token: connection/)
  })

  test('a wrong time zone: events of the future: 1', async () => {
    await using sandbox = await startPlatform({ timeZone: 'Asia/Tokyo' })
    sandbox.addWebhook({ eventInstant: systemClock.now() - 60_000 })
    const { code, out } = await runCommand(['check'], { env: await envOf(sandbox) })
    expect(code).toBe(1)
    expect(out).toMatch(/\nFAILED +time zone +the platform shows events of the future/)
    const right = await envOf(sandbox, { RECONCILER_PLATFORM_TIME_ZONE: 'Asia/Tokyo' })
    expect((await runCommand(['check'], { env: right })).out).toMatch(/\nok +time zone +Asia\/Tokyo: there are events/)
  })

  test('a receiver that is down: 1; a server clock that is wrong: a warning', async () => {
    await using sandbox = await startPlatform({ skewMs: 90_000 })
    sandbox.receiver.down()
    const env = await envOf(sandbox, { RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiver.healthUrl })
    const { code, out } = await runCommand(['check'], { env })
    expect(code).toBe(1)
    expect(out).toMatch(
      /\nwarning +clock skew +ahead of this host: identity host (?:89|90)\.\d s, platform (?:89|90)\.\d s/,
    )
    expect(out).toMatch(/\nFAILED +receiver /)
  })
})

describe('print-config', () => {
  const required = {
    RECONCILER_PLATFORM_BASE_URL: 'https://api.example.com/v1',
    RECONCILER_AUTH_AUTH_URL: 'https://id.example.com',
    RECONCILER_AUTH_REALM: 'main',
    RECONCILER_AUTH_CLIENT_ID: 'client',
    RECONCILER_AUTH_PRIVATE_KEY_FILE: '/run/key.pem',
  }

  test('every key with its value and origin, and no secret', async () => {
    const env = { ...required, RECONCILER_CONTROL_TOKEN: 'CANARY-b7f1c2d3e4a5', RECONCILER_WINDOW_LOOKBACK: '48h' }
    const { code, out } = await runCommand(['print-config'], { env })
    expect(code).toBe(0)
    expect(out).toMatch(/\nwindow\.lookback +2d +RECONCILER_WINDOW_LOOKBACK\n/)
    expect(out).toMatch(/\nretry\.backoff\.initial +1m +default\n/)
    expect(out).toMatch(
      /\nauth\.issuerUrl +https:\/\/id\.example\.com\/auth\/realms\/main +auth\.authUrl and auth\.realm\n/,
    )
    expect(out).toMatch(/\ncontrol\.token +\(hidden\) +RECONCILER_CONTROL_TOKEN\n/)
    expect(out).toMatch(/\nauth\.privateKey +unset +default\n/)
    expect(out).not.toContain('CANARY')
  })

  test('as JSON', async () => {
    const { out } = await runCommand(['print-config', '--json'], { env: required })
    const { configuration } = JSON.parse(out) as { configuration: { key: string; value: unknown }[] }
    const value = (key: string): unknown => configuration.find((one) => one.key === key)?.value
    expect([value('retry.concurrency'), value('retry.enabled'), value('select.modules')]).toEqual([8, true, []])
    expect([value('window.notBefore'), value('platform.requestTimeout')]).toEqual([null, '10s'])
  })

  test('a configuration that can not be used: 78', async () => {
    expect(await runCommand(['print-config'])).toMatchObject({ code: 78, out: '' })
  })
})

describe('pause and resume', () => {
  test('hold the running daemon and let it go', async () => {
    await using sandbox = await startPlatform()
    const env = { ...(await sandboxEnv(sandbox)), RECONCILER_CONTROL_TOKEN: token }
    await using daemon = await startDaemon({ ...env, RECONCILER_CONTROL_PORT: '0' })
    const port = String((await daemon.said('started'))['controlPort'])
    const own = { ...env, RECONCILER_CONTROL_PORT: port }
    const paused = await runCommand(['pause'], { env: own })
    expect(paused).toMatchObject({ code: 0, err: '' })
    expect(paused.out).toMatch(/^test: no retries from now on; go on with: webhook-reconciler resume/)
    expect((await runCommand(['pause'], { env: own })).out).toMatch(/^test: paused already since \d{4}-\S+Z\n$/)
    expect(JSON.parse((await get(`${daemon.url}/status`)).body)).toMatchObject({ holding: ['paused'] })
    const resumed = await runCommand(['resume', '--json', '--port', port], { env })
    expect(JSON.parse(resumed.out)).toEqual({ schemaVersion: 1, instance: 'test', paused: false, changed: true })
    expect((await runCommand(['resume'], { env: own })).out).toBe('test: was not paused\n')
    const wrong = await runCommand(['pause'], { env: { ...own, RECONCILER_CONTROL_TOKEN: `${token}-other` } })
    expect(wrong).toMatchObject({ code: 4, out: '' })
    // The ops server takes no orders, and is no control listener.
    const ops = await runCommand(['pause', '--port', new URL(daemon.url).port], { env })
    expect(ops).toMatchObject({ code: 1, out: '' })
    expect(ops.err).toContain('not as a control listener does')
    for (const { out, err } of [paused, resumed, wrong, ops]) expect(out + err).not.toContain(token)
  })

  test('no token: 78; nobody there: 1; no port: 2', async () => {
    const env = {
      RECONCILER_PLATFORM_BASE_URL: 'https://api.example.com',
      RECONCILER_AUTH_ISSUER_URL: 'https://id.example.com/auth/realms/main',
      RECONCILER_AUTH_CLIENT_ID: 'client',
      RECONCILER_AUTH_PRIVATE_KEY_FILE: '/run/key.pem',
    }
    const without = await runCommand(['pause'], { env })
    expect(without.code).toBe(78)
    expect(without.err).toContain('control.token (missing)')
    const with_ = { ...env, RECONCILER_CONTROL_TOKEN: token }
    const nobody = await runCommand(['resume', '--port', '1'], { env: with_ })
    expect(nobody.code).toBe(1)
    expect(nobody.err).toContain('http://127.0.0.1:1/-/resume does not answer')
    expect((await runCommand(['pause', '--port', '99999'], { env: with_ })).code).toBe(2)
    expect((await runCommand(['pause'], { env: { ...with_, RECONCILER_CONTROL_PORT: '0' } })).code).toBe(2)
  })
})
