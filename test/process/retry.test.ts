// `retry`, `plan`, `records` and `explain` beside a real daemon and sandbox: the daemon does it, and the command follows it.
import { expect, test } from 'vitest'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { JobDocument } from '../../src/cli/retry.ts'
import { envOf, missing, seedCauses } from '../support/causes.ts'
import { runCommand, type CommandOptions, type Ran } from '../support/command.ts'
import { seedDue, seedTried, startPlatform } from '../support/platform.ts'
import { startDaemon, type Daemon } from '../support/process.ts'

interface Scene extends AsyncDisposable {
  daemon: Daemon
  run(args: readonly string[], options?: CommandOptions): Promise<Ran>
  json(args: readonly string[]): Promise<JobDocument & { exitCode: number }>
}

/** A daemon beside the sandbox, which has listed the window once. */
async function beside(sandbox: Sandbox, more: Record<string, string> = {}): Promise<Scene> {
  const env = await envOf(sandbox, more)
  const daemon = await startDaemon({ ...env, RECONCILER_SERVER_PORT: '0' })
  await daemon.said('full_sweep_completed')
  const own = { ...env, RECONCILER_SERVER_PORT: new URL(daemon.url).port }
  const run = (args: readonly string[], options: CommandOptions = {}): Promise<Ran> =>
    runCommand(args, { env: own, ...options })
  return {
    daemon,
    run,
    async json(args) {
      const { err, out } = await run([...args, '--json'])
      if (out === '') throw new Error(err)
      return JSON.parse(out) as JobDocument & { exitCode: number }
    },
    [Symbol.asyncDispose]: () => daemon[Symbol.asyncDispose](),
  }
}

/** With this they back off, until an operator asks. */
const patient = { RECONCILER_RETRY_BACKOFF_INITIAL: '6d', RECONCILER_RETRY_BACKOFF_MAX: '6d' }
const containing = (text: string): string => expect.stringContaining(text) as string

test('retry by id: what backs off goes out at once, is in the books of the daemon, and is not failed after it', async () => {
  await using sandbox = await startPlatform()
  const [id = ''] = seedTried(sandbox, 3)
  await using scene = await beside(sandbox, { ...patient, RECONCILER_AUDIT_ENABLED: 'true' })
  expect(sandbox.counts().failed).toBe(3)
  const dry = await scene.run(['retry', id, '--dry-run'])
  expect([dry.code, dry.out]).toEqual([0, containing('Would be retried: 1 of 1 failed record.')])
  const { code, err, out } = await scene.run(['retry', id])
  expect([code, out], err).toEqual([0, expect.stringMatching(/^test: 1 retry\n {2}recovered +1\n/)])
  expect(sandbox.counts()).toMatchObject({ failed: 2, successful: 1 })
  expect((await scene.daemon.metrics()).sum('outcomes_total', { outcome: 'recovered' })).toBe(1)
  const audit = scene.daemon.log().filter((line) => line['audit'] === true && line['webhookId'] === id)
  expect(audit.map(({ event }) => event)).toEqual(['retry_answered', 'retry_outcome'])
  expect(audit[0]).toMatchObject({ why: 'asked-for' })
  const again = await scene.run(['retry', id])
  const none = `There is no failed record with webhook id ${id}`
  expect([again.code, again.out.replaceAll(/\s+/g, ' ')]).toEqual([1, containing(none)])
})

test.each([
  ['up', 'recovered', 0],
  ['down', 'failed-again', 1],
] as const)(
  'two retries of one span at once, the receiver %s: each record goes out once, and both reports are true',
  async (receiver, result, code) => {
    await using sandbox = await startPlatform({ delivery: { mode: 'async', delayMs: 300 } })
    const ids = seedTried(sandbox, 60)
    if (receiver === 'down') sandbox.receiver.down()
    // No circuit stops them before all have gone out.
    await using scene = await beside(sandbox, { ...patient, RECONCILER_CIRCUIT_INITIAL_LIMIT: '100' })
    const both = await Promise.all([0, 1].map(() => scene.json(['retry', '--since', '7d', '-y'])))
    for (const { exitCode, retried, sums } of both) {
      expect([exitCode, sums.asked, sums[result]]).toEqual([code, 60, 60])
      expect(retried.map(({ webhookId }) => webhookId).toSorted()).toEqual(ids.toSorted())
    }
    expect(sandbox.stats.requests.retry).toEqual({ 200: 60 })
    const counts = receiver === 'up' ? { failed: 0, successful: 60 } : { failed: 60 }
    expect(sandbox.counts()).toMatchObject(counts)
  },
)

test('a dead receiver: --timeout ends the job, and says what was not sent and why', async () => {
  await using sandbox = await startPlatform()
  seedTried(sandbox, 200)
  sandbox.receiver.down()
  await using scene = await beside(sandbox, patient)
  const ran = await scene.run(['retry', '--since', '7d', '-y', '--timeout', '3s'])
  expect(ran.code).toBe(1)
  const { failed } = sandbox.stats.deliveries
  expect(failed).toBeGreaterThan(0)
  expect(failed).toBeLessThan(60)
  expect(ran.out).toMatch(/ {2}not sent +\d+ \(still failed/)
  expect(ran.out.replaceAll(/\s+/g, ' ')).toMatch(
    /Stopped early: timed out \(--timeout\)\. .*(?:circuit is open|limit of unconfirmed retries)/,
  )
})

test('more than a hundred are asked for: without a terminal 2, without a yes 1, and nothing is retried', async () => {
  await using sandbox = await startPlatform()
  seedTried(sandbox, 101)
  await using scene = await beside(sandbox, patient)
  const args = ['retry', '--since', '7d']
  expect(await scene.run(args)).toMatchObject({
    code: 2,
    err: containing('test: retry 101 records: more than 100 need --yes'),
  })
  for (const answer of ['n', '', 'yo']) {
    const no = await scene.run(args, { answer })
    expect(no).toMatchObject({
      code: 1,
      out: '',
      err: 'Nothing was retried.\n',
      questions: ['test: retry 101 records? [y/N] '],
    })
  }
  expect(sandbox.stats.requests.retry).toEqual({})
  expect(await scene.run(args, { answer: 'y' })).toMatchObject({ code: 0 })
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 101 })
})

test('plan with retries off says what would go out; with a selection it is the dry run of retry; it changes nothing', async () => {
  await using sandbox = await startPlatform()
  seedCauses(sandbox)
  const off = { RECONCILER_RETRY_ENABLED: 'false', RECONCILER_SELECT_SUBSCRIPTION_IDS: missing }
  await using scene = await beside(sandbox, off)
  const { code, err, out } = await scene.run(['plan'])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toMatch(/^test at http:\S+, \S+Z\n28 failed records\. Nothing was changed\.\n/)
  expect(out).toMatch(/Retries are switched off .* This is the plan for when they are on\.\nWould retry now: 20, /)
  expect(out).toContain('Later: 5 backing off.')
  expect(out).toContain('Not at all: 4 excluded')
  expect(await scene.json(['plan', '--since', '2d', '--response', '503'])).toMatchObject({
    sums: { found: 23, asked: 20, exhausted: 3 },
  })
  expect(sandbox.stats.requests.retry).toEqual({})
})

test('records as a table, JSON and CSV; explain of several, with why and when', async () => {
  await using sandbox = await startPlatform()
  const { due, exhausted } = seedCauses(sandbox)
  await using scene = await beside(sandbox, { RECONCILER_RETRY_ENABLED: 'false' })
  const csv = await scene.run(['records', '--decision', 'exhausted', '-o', 'csv'])
  const lines = csv.out.trimEnd().split('\r\n')
  expect([csv.code, lines.length]).toEqual([0, 4])
  expect(lines[0]).toBe(
    'webhookId,eventId,subscriptionId,eventType,decision,why,event,lastAttempt,attempts,responseStatusCode,leavesWindow,nextRetry,nextRetryBy',
  )
  expect(exhausted.map((id) => csv.out.includes(`${id},`))).toEqual([true, true, true])
  const json = JSON.parse((await scene.run(['records', '--limit', '5', '-o', 'json'])).out) as { records: unknown[] }
  expect(json).toMatchObject({ schemaVersion: 1, count: 5, isMore: true, incomplete: null })
  expect(json.records).toHaveLength(5)
  expect((await scene.run(['records', '--response', '5xx'])).out).toMatch(/^WEBHOOK .* NEXT\n/)
  expect((await scene.run(['records', '--decision', 'nonsense'])).code).toBe(2)

  const [first = '', last = ''] = [due[0], exhausted[0]]
  const told = await scene.run(['explain', first, last])
  expect(told.code, told.err).toBe(0)
  expect(told.out).toContain(`webhook ${first}: blocked\n  why                  Retries are switched off`)
  expect(told.out).toContain(`to retry it now      webhook-reconciler retry --exhausted ${last}`)
  const none = await scene.run(['explain', missing])
  expect([none.code, none.out]).toEqual([1, containing('The platform has no record of this event')])
  expect((await scene.run(['explain', 'x'])).code).toBe(2)
})

test('run --once: recovers what is due and ends, 0; a dead receiver 1, a list that fails 69', async () => {
  await using sandbox = await startPlatform()
  seedDue(sandbox, 25)
  const env = { ...(await envOf(sandbox)), RECONCILER_SERVER_PORT: '0' }
  const once = (): Promise<Ran> => runCommand(['run', '--once'], { env })
  expect((await once()).code).toBe(0)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 25 })
  seedDue(sandbox, 25)
  sandbox.receiver.down()
  expect((await once()).code).toBe(1)
  sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 500 } })
  expect((await once()).code).toBe(69)
})
