// Plants secrets, names, account numbers and receiver texts everywhere, lets everything go wrong, and searches all that the daemon writes:
// log, ops server, audit lines and a diagnostic report of Node.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { startOpsServer } from '../../src/ops/server.ts'
import { logFields } from '../../tools/generate.ts'
import { sandboxEnv, startPlatform } from '../support/platform.ts'
import { endsOf, findCanaries, type Canaries } from '../support/canaries.ts'
import { ask, token } from '../support/ops-server.ts'
import { startDaemon } from '../support/daemon.ts'
import {
  collectSecrets,
  encryptedKey,
  forbidden,
  keyEnv,
  planted,
  plantRecords,
  refusedAssertion,
  strayJwt,
  troubles,
} from '../support/planted.ts'
import { makeFolder, ofDaemon, startDaemon as startProcess, type LogLine } from '../support/process.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const tellsAll = { RECONCILER_LOG_LEVEL: 'debug', RECONCILER_CONTROL_TOKEN: token }
const settings = {
  ...ofDaemon,
  ...tellsAll,
  RECONCILER_PLATFORM_REQUEST_TIMEOUT: '300ms',
  RECONCILER_RETRY_BACKOFF_INITIAL: '1s',
  RECONCILER_RETRY_BACKOFF_MAX: '2s',
  RECONCILER_RETRY_MAX_ATTEMPTS: '1000',
}

/** A daemon's bad day: every trouble at the token endpoint, then at the list, then at the retries, then a receiver that talks. */
async function badDay() {
  const { pem, encrypted } = await encryptedKey()
  const secrets = collectSecrets(pem, encrypted)
  const clock = createVirtualClock()
  const shown: string[] = []
  const sent: string[] = []
  const heard: string[] = []
  await using sandbox = await startPlatform({ inProcess: true, clock })
  plantRecords(sandbox, clock.now())
  sandbox.faults.set(secrets.watch)
  await using daemon = startDaemon({
    clock,
    sandbox,
    env: { ...settings, ...keyEnv(encrypted), RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined },
    startServer: startOpsServer,
    between: (transport) => async (request) => {
      sent.push(JSON.stringify(request))
      const answer = await transport(request)
      heard.push(answer.body)
      return answer
    },
  })
  const { port } = await daemon.listening
  sandbox.receiver.fail({
    status: 500,
    body: `${planted['what the receiver answers later']} ${planted.name}`,
    headers: { 'x-canary': planted['receiver header'] },
  })

  /** Ticks, in a time that goes on, until it is so. */
  async function until(stepMs: number, isSo: () => boolean): Promise<void> {
    for (let turn = 0; !isSo(); turn += 1) {
      if (turn === 200) throw new Error(`not so after ${turn} ticks`)
      daemon.tick()
      await clock.advance(stepMs)
    }
  }
  const hits = (): number => Object.values(sandbox.faults.hits()).reduce((sum, count) => sum + count, 0)
  const none = () => ({ live: new Set<number | undefined>(), ready: new Set<number | undefined>() })
  /** What the probes answered during the troubles of each operation, and in the end. */
  const probes = { token: none(), list: none(), retry: none(), end: none() }

  async function look(at: keyof typeof probes): Promise<void> {
    for (const path of ['/metrics', '/status', '/', '/none']) shown.push((await ask(port, path)).body)
    const [live, ready] = [await ask(port, '/livez'), await ask(port, '/readyz')]
    shown.push(live.body, ready.body)
    probes[at].live.add(live.status)
    probes[at].ready.add(ready.status)
  }

  for (const operation of ['token', 'list', 'retry'] as const) {
    // A response of the token endpoint has no id that could be wrong.
    const own = troubles.filter(({ kind }) => operation !== 'token' || kind !== 'wrong-id')
    for (const fault of own) {
      sandbox.faults.set(secrets.watch, { operation, fault })
      const before = hits()
      await until(60_000, () => {
        if (operation === 'token') sandbox.revokeTokens()
        return hits() > before
      })
      await look(operation)
    }
  }
  sandbox.faults.set(secrets.watch)
  await until(20_000, () => sandbox.stats.deliveries.failed > 12)
  sandbox.receiver.heal()
  await until(20_000, () => sandbox.counts().successful > 12)
  await look('end')
  await daemon.end()
  return {
    written: [...daemon.written, ...shown].join('\n'),
    sent: sent.join('\n'),
    heard: heard.join('\n'),
    canaries: new Map([...secrets.canaries(), ['control token', token]]),
    log: daemon.written.map((line) => JSON.parse(line) as LogLine),
    probes,
    repeated: sandbox.receiver.counts().repeated,
  }
}

const events = logFields()
const everyLine = ['level', 'time', 'instance', 'audit', 'event', 'msg']

/** What is logged that the closed set does not know. */
function strangeIn(lines: readonly LogLine[]): string[] {
  return lines.flatMap(({ event, ...fields }) => {
    const known = [...everyLine, ...(events.get(event) ?? [])]
    const strange = Object.keys(fields).filter((name) => !known.includes(name))
    return !events.has(event) ? [event] : strange.map((name) => `${event}: ${name}`)
  })
}

test('a bad day of the daemon: alive all the time, all arrives once, and nothing that was planted is written', async () => {
  const { canaries, heard, log, probes, repeated, sent, written } = await badDay()

  expect(findCanaries(written, canaries)).toEqual([])
  expect(strangeIn(log)).toEqual([])
  expect(probes).toMatchObject({
    token: { live: new Set([200]), ready: new Set([503]) },
    list: { live: new Set([200]) },
    retry: { live: new Set([200]), ready: new Set([200]) },
    end: { live: new Set([200]), ready: new Set([200]) },
  })
  expect(repeated).toBe(0)

  // It has said what happened, so there was something to search.
  expect(log.map(({ event }) => event)).toEqual(
    expect.arrayContaining(['token_rejected', 'sweep_failed', 'record_unreadable', 'circuit_opened']),
  )
  expect(log).toContainEqual(expect.objectContaining({ event: 'retry_outcome', outcome: 'failed-again' }))
  expect(written).toMatch(/webhook_reconciler_outcomes_total\{outcome="recovered"\} [1-9]/)
  expect(written).toContain('webhook_reconciler_retries_total{result="already-resolved"}')
  expect(findCanaries(heard, canaries)).toEqual(
    expect.arrayContaining(['name', 'receiver body', 'receiver error', 'parameter of an error', 'text of a page']),
  )
  const inRequests = findCanaries(sent, canaries)
  for (const kind of ['token ', 'assertion '])
    expect(inRequests.filter((name) => name.startsWith(kind)).length).toBeGreaterThan(2)
})

test('nothing that was planted is written by the process, or in its diagnostic report', async () => {
  const { pem, encrypted } = await encryptedKey()
  const secrets = collectSecrets(pem, encrypted)
  await using folder = await makeFolder()
  await using sandbox = await startPlatform()
  plantRecords(sandbox, systemClock.now())
  sandbox.faults.set(
    secrets.watch,
    { operation: 'token', fault: refusedAssertion, count: 1 },
    { operation: 'retry', fault: forbidden, count: 1 },
  )
  const env = await sandboxEnv(sandbox)
  delete env['RECONCILER_AUTH_PRIVATE_KEY_FILE']
  const quick = {
    RECONCILER_SCHEDULE_CRON: '* * * * * *',
    RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '200',
    RECONCILER_RETRY_BACKOFF_INITIAL: '100ms',
    RECONCILER_RETRY_BACKOFF_MAX: '200ms',
  }
  await using daemon = await startProcess(
    { ...env, ...quick, ...tellsAll, ...keyEnv(encrypted), RECONCILER_AUDIT_ENABLED: 'true' },
    { nodeArgs: ['--report-on-signal', '--report-signal=SIGUSR2', `--report-directory=${folder.path}`] },
  )

  await expect.poll(() => sandbox.counts().successful).toBeGreaterThan(11)
  const reportOf = (): string =>
    readdirSync(folder.path)
      .filter((name) => name.endsWith('.json'))
      .map((name) => readFileSync(join(folder.path, name), 'utf8'))
      .join('')
  daemon.kill('SIGUSR2')
  await expect.poll(reportOf).toMatch(/\}\s*$/)
  const report = reportOf()
  daemon.kill('SIGTERM')
  const { code, stderr, stdout } = await daemon.ended()
  expect(code).toBe(0)

  const canaries = new Map([...secrets.canaries(), ['control token', token]])
  for (const [place, written] of Object.entries({ stdout, stderr, report })) {
    expect({ place, found: findCanaries(written, canaries) }).toEqual({ place, found: [] })
  }
  // There was something to search.
  expect(report).toContain('"javascriptStack"')
  expect([...canaries.keys()].some((name) => name.startsWith('token '))).toBe(true)
  expect(daemon.log().map(({ event }) => event)).toContain('token_rejected')
  const audited = daemon.log().flatMap(({ audit, event }) => (audit === true ? [event] : []))
  expect(new Set(audited)).toEqual(new Set(['retry_answered', 'retry_outcome']))
})

test('each planted text is found in every form', () => {
  const canaries: Canaries = new Map([...Object.entries(planted), ...endsOf('token', strayJwt)])
  for (const [name, value] of canaries) {
    const forms = [
      value,
      value.toUpperCase(),
      JSON.stringify({ nested: JSON.stringify({ value }) }),
      `https://host/?q=${encodeURIComponent(value)}`,
      Buffer.from(value).toString('base64'),
      Buffer.from(value).toString('hex'),
    ]
    for (const form of forms) expect(findCanaries(`before ${form} after`, canaries)).toContain(name)
  }
  expect(findCanaries('nothing of it', canaries)).toEqual([])
})
