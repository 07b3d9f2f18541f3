// `once` against a real sandbox: its report, its exit codes, and what it leaves alone; as a process where signals and exit codes of the process count.
import { describe, expect, test } from 'vitest'
import type { RoundReport } from '../../src/cli/round/report.ts'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import { envOf } from '../support/causes.ts'
import { runCommand } from '../support/command.ts'
import { createGate } from '../support/gate.ts'
import { sandboxEnv, seedDue, startPlatform } from '../support/platform.ts'
import { startProgram, type Ended } from '../support/process.ts'

type Run = Pick<Ended, 'stdout' | 'stderr'> & { code: number }

/** Runs `once` in this process. */
async function once(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Run> {
  const { code, err, out } = await runCommand(['once', ...args], { env })
  return { code, stdout: out, stderr: err }
}

function reportOf({ stdout }: Pick<Ended, 'stdout'>): RoundReport {
  return JSON.parse(stdout) as RoundReport
}

/** Every line of the log is on stderr, and is one. */
function logOf({ stderr }: Pick<Ended, 'stderr'>): { event: string; level: string }[] {
  return stderr
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { event: string; level: string })
}

test.concurrent('recovers what is due, and says so in one JSON document, with the log on stderr', async () => {
  await using sandbox = await startPlatform()
  seedDue(sandbox, 25)
  const ended = await once(['--json', '--verbose'], await envOf(sandbox))
  const isoTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string
  const { causes, retried, ...report } = reportOf(ended)
  expect(causes.reduce((sum, { records }) => sum + records, 0)).toBe(25)
  expect(retried).toHaveLength(25)
  expect(retried[0]).toMatchObject({ result: 'accepted', outcome: 'recovered', responseStatusCode: 200 })
  expect(report).toEqual({
    schemaVersion: 2,
    command: 'once',
    instance: 'test',
    platform: new URL(sandbox.baseUrl).host,
    startedAt: isoTime,
    seconds: expect.any(Number) as number,
    selection: { by: 'due' },
    listing: { result: 'complete', found: 25, moved: false, unreadable: null, unlisted: null },
    decidedAt: isoTime,
    failed: { due: 25, 'backing-off': 0, exhausted: 0, excluded: 0, blocked: 0, awaiting: 0 },
    notFailed: 0,
    notFound: [],
    leftOut: 0,
    receiver: null,
    daemon: { url: 'http://127.0.0.1:1', problem: 'ECONNREFUSED' },
    estimate: { records: 25, seconds: expect.any(Number) as number, callsPerSecond: 1000 },
    dryRun: false,
    retriesEnabled: true,
    sums: { retried: 25, recovered: 25, 'failed-again': 0, unknown: 0, resolved: 0, underway: 0, refused: 0 },
    blocked: 0,
    awaiting: 0,
    cutOff: 0,
    stoppedBy: null,
    exitCode: 0,
  })
  expect(ended.code).toBe(0)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 25 })
  expect(logOf(ended).map(({ event }) => event)).toContain('full_sweep_completed')
})

test.concurrent('touches nothing while retries are switched off: 0', async () => {
  await using sandbox = await startPlatform()
  seedDue(sandbox, 25)
  const env = await envOf(sandbox, { RECONCILER_RETRY_ENABLED: 'false' })
  const asText = await once([], env)
  const asJson = await once(['--json'], env)
  expect(asText.code).toBe(0)
  expect(asText.stdout).toContain('retry.enabled is false: nothing was retried.\n')
  expect(reportOf(asJson)).toMatchObject({ exitCode: 0, dryRun: true, retriesEnabled: false, failed: { due: 25 } })
  expect(sandbox.stats.requests.retry).toEqual({})
  expect(sandbox.counts().failed).toBe(25)
})

test.concurrent('a dead receiver, as its health address says: nothing is retried, and it ends with 1', async () => {
  await using sandbox = await startPlatform()
  seedDue(sandbox, 25)
  sandbox.receiver.down()
  const env = await envOf(sandbox, { RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiverHealthUrl })
  const down = await once(['--json'], env)
  expect(down.code, down.stderr).toBe(1)
  expect(reportOf(down)).toMatchObject({ blocked: 25, stoppedBy: 'receiver-down', sums: { recovered: 0 } })
  expect(sandbox.stats.requests.retry).toEqual({})
})

describe('exit codes', () => {
  const retry = (fault: FaultRule['fault']): FaultRule => ({ operation: 'retry', fault })
  const list = (fault: FaultRule['fault'], skip = 0): FaultRule => ({ operation: 'list', fault, skip })
  const reset = { kind: 'reset', when: 'before' } as const

  // test/unit/cli/report.test.ts has each exit code.
  test.concurrent.each<[string, FaultRule[], Record<string, string>, number, Record<string, unknown>]>([
    ['records are left out', [], { RECONCILER_BACKLOG_MAX_RECORDS: '10' }, 1, { leftOut: 15 }],
    ['the retry is forbidden', [retry({ kind: 'status', status: 403 })], {}, 4, { stoppedBy: 'unauthorized' }],
    ['the list fails', [list({ kind: 'status', status: 500 })], {}, 69, { listing: { failure: { stage: 'list' } } }],
    ['no retry is answered, nor a list any more', [retry(reset), list(reset, 4)], {}, 69, { stoppedBy: 'platform' }],
  ])('%s', async (_name, faults, more, code, report) => {
    await using sandbox = await startPlatform({ faults })
    seedDue(sandbox, 25)
    const env = { ...(await envOf(sandbox)), ...more }
    const ended = await once(['--json'], env)
    expect(ended.code, ended.stdout + ended.stderr).toBe(code)
    expect(reportOf(ended)).toMatchObject({ ...report, exitCode: code })
    expect(ended.stderr).not.toMatch(/Bearer|eyJ|PRIVATE KEY/)
  })
})

describe.concurrent('stopped', () => {
  test('while outcomes are awaited: it ends at once, and says how many', async ({ expect }) => {
    await using sandbox = await startPlatform({ delivery: { mode: 'async', delayMs: 600_000 } })
    seedDue(sandbox, 8)
    const env = { ...(await sandboxEnv(sandbox)), RECONCILER_LOG_LEVEL: 'debug' }
    await using program = startProgram(['once', '--verbose'], { env })
    await expect.poll(() => program.log().filter(({ event }) => event === 'retry_answered').length).toBe(8)
    program.kill('SIGTERM')
    const ended = await program.ended()

    expect(ended.code).toBe(1)
    expect(ended.stdout).toMatch(/: 8 retries in [^]* recovered +0\n[^]* not awaited +8 \(/)
    expect(ended.stdout).toContain('Stopped early by a signal.')
  })

  test('in mid-sweep: nothing was touched, and the report says so', async () => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('list', { skip: 1 })] })
    seedDue(sandbox, 60)
    await using program = startProgram(['once', '--json'], { env: await sandboxEnv(sandbox) })
    await gate.arrived(1)
    program.kill('SIGTERM')
    const ended = await program.ended()

    expect(ended.code, ended.stderr).toBe(1)
    expect(reportOf(ended)).toMatchObject({ stoppedBy: 'signal', exitCode: 1, listing: { result: 'incomplete' } })
    expect(sandbox.stats.requests.retry).toEqual({})
  })

  test('what outlasts the grace is cut off; a second signal does not wait for it', async () => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('retry')] })
    seedDue(sandbox, 20)
    const env = {
      ...(await sandboxEnv(sandbox)),
      RECONCILER_RETRY_CONCURRENCY: '3',
      RECONCILER_PLATFORM_REQUEST_TIMEOUT: '1m',
    }
    await using short = startProgram(['once', '--json'], { env: { ...env, RECONCILER_SHUTDOWN_GRACE: '200ms' } })
    await gate.arrived(3)
    short.kill('SIGTERM')
    const ended = await short.ended()
    expect(ended.code, ended.stderr).toBe(1)
    expect(reportOf(ended)).toMatchObject({ stoppedBy: 'signal', cutOff: 3 })

    await using hurried = startProgram(['once', '--json', '--verbose'], { env })
    await gate.arrived(6)
    hurried.kill('SIGTERM')
    await hurried.said('shutdown_started')
    hurried.kill('SIGTERM')
    expect(await hurried.ended()).toMatchObject({ code: 1, stdout: '' })
  })
})
