// `retry`, `plan`, `records` and `explain` beside a real daemon and sandbox: the daemon does it, and the command follows it.
import { expect, test } from 'vitest'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import type { JobDocument } from '../../src/cli/retry.ts'
import { runCommand, type CommandOptions, type Ran } from '../support/command.ts'
import { envOf, patient, seedDue, seedTried, startBeside, startPlatform } from '../support/platform.ts'
import type { DaemonHere } from '../support/process.ts'

const hour = 3_600_000
const subscription = '11111111-2222-4333-8444-555555555555'

interface Scene extends AsyncDisposable {
  daemon: DaemonHere
  run(args: readonly string[], options?: CommandOptions): Promise<Ran>
  json(args: readonly string[]): Promise<JobDocument & { exitCode: number }>
}

async function beside(sandbox: Sandbox, more: Record<string, string> = {}): Promise<Scene> {
  const started = await startBeside(sandbox, more)
  const run = (args: readonly string[], options: CommandOptions = {}): Promise<Ran> =>
    runCommand(args, { env: started.env, ...options })
  return {
    ...started,
    run,
    async json(args) {
      const { err, out } = await run([...args, '--json'])
      if (out === '') throw new Error(err)
      return JSON.parse(out) as JobDocument & { exitCode: number }
    },
  }
}

test('retry by id: what backs off goes out at once, is in the books of the daemon, and is not failed after it', async () => {
  await using sandbox = await startPlatform()
  const [id = ''] = seedTried(sandbox, 3)
  await using scene = await beside(sandbox, { ...patient, RECONCILER_AUDIT_ENABLED: 'true' })
  expect(sandbox.counts().failed).toBe(3)
  const { code, err, out } = await scene.run(['retry', id])
  expect([code, out], err).toEqual([0, expect.stringMatching(/^test: 1 retry\n {2}recovered +1\n/)])
  expect(sandbox.counts()).toMatchObject({ failed: 2, successful: 1 })
  expect((await scene.daemon.metrics()).sum('outcomes_total', { outcome: 'recovered' })).toBe(1)
  const audit = scene.daemon.log().filter((line) => line['audit'] === true && line['webhookId'] === id)
  expect(audit.map(({ event }) => event)).toEqual(['retry_answered', 'retry_outcome'])
  expect(audit[0]).toMatchObject({ why: 'asked-for' })
})

test('a dead receiver: --timeout ends the job, and says what was not sent and why', async () => {
  await using sandbox = await startPlatform()
  seedTried(sandbox, 200)
  sandbox.receiver.down()
  await using scene = await beside(sandbox, patient)
  const ran = await scene.run(['retry', '--since', '7d', '-y', '--timeout', '1s'])
  expect(ran.code).toBe(1)
  const { failed } = sandbox.stats.deliveries
  expect(failed).toBeGreaterThan(0)
  expect(failed).toBeLessThan(60)
  expect(ran.out).toMatch(/ {2}not sent +\d+ \(still failed/)
  expect(ran.out.replaceAll(/\s+/g, ' ')).toMatch(
    /Stopped early: timed out \(--timeout\)\. .*(?:circuit is open|limit of unconfirmed retries)/,
  )
})

test('plan, records and explain ask the daemon in its own words, and change nothing', async () => {
  await using sandbox = await startPlatform()
  const now = systemClock.now()
  const common = { subscriptions: [subscription], result: { responseStatusCode: 503 } }
  const old = { ...common, from: now - 20 * hour, to: now - 10 * hour, attempts: 1 }
  const due = sandbox.seed({ ...old, count: 20 })
  const exhausted = sandbox.seed({ ...old, count: 3, attempts: 30 })
  const soon = { from: now - 2 * hour, to: now - 2 * hour, attempts: 20, lastAttemptAfterMs: 2 * hour - 3000 }
  sandbox.seed({ ...common, ...soon, count: 5, result: { responseStatusCode: null } })
  sandbox.seed({ ...old, count: 4, subscriptions: 1 })
  const off = { RECONCILER_RETRY_ENABLED: 'false', RECONCILER_SELECT_SUBSCRIPTION_IDS: subscription }
  await using scene = await beside(sandbox, off)
  expect((await scene.run(['plan'])).out).toMatch(
    /Would retry now: 20, [^]*Later: 5 backing off\.[^]*Not at all: 4 excluded/,
  )
  expect(await scene.json(['plan', '--since', '2d', '--response', '503'])).toMatchObject({
    sums: { found: 23, asked: 20, exhausted: 3 },
  })
  const csv = await scene.run(['records', '--decision', 'exhausted', '--response', '5xx', '-o', 'csv'])
  expect(exhausted.map((id) => csv.out.includes(`${id},`))).toEqual([true, true, true])
  const two = await scene.run(['records', '--decision', 'exhausted', '--limit', '2', '-o', 'json'])
  expect(JSON.parse(two.out)).toMatchObject({ count: 2, isMore: true })
  const told = await scene.run(['explain', due[0] ?? '', exhausted[0] ?? ''])
  expect(told.out).toContain(`webhook ${due[0]}: blocked\n  why                  Retries are switched off`)
  expect(sandbox.stats.requests.retry).toEqual({})
})

// test/daemon/once.test.ts has each exit code.
test('run --once recovers what is due and ends: 0, or 1 where a row cannot be read; with a Lease 2', async () => {
  await using sandbox = await startPlatform()
  seedDue(sandbox, 25)
  const env = { ...(await envOf(sandbox)), RECONCILER_SERVER_PORT: '0' }
  const once = (changes = {}): Promise<Ran> => runCommand(['run', '--once'], { env: { ...env, ...changes } })
  expect((await once()).code).toBe(0)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 25 })
  seedDue(sandbox, 1)
  sandbox.read({ ids: 'ulid' })
  expect((await once()).code).toBe(1)
  const leased = await once({ RECONCILER_LEADER_ELECTION_KIND: 'kubernetes' })
  expect([leased.code, leased.err]).toEqual([2, expect.stringContaining('set leaderElection.kind to none')])
})
