// Three processes that share a Lease over HTTPS: one works, and another takes over when it is killed.
// test/daemon/replicas.test.ts has freezes, partitions, pauses and durations, in virtual time.
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startLeaseApi } from '../support/lease-api.ts'
import { sandboxEnv, seedDue, startPlatform } from '../support/platform.ts'
import { startDaemon, type Daemon } from '../support/process.ts'

const inPod = { nodeArgs: ['--import', join(import.meta.dirname, '../support/pod-folder.ts')] }

const records = 400
/** A busy host may stop a process for seconds: it must not lose the lease by that. */
const quick = {
  RECONCILER_LEADER_ELECTION_LEASE_DURATION: '8s',
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '150',
  RECONCILER_CIRCUIT_INITIAL_LIMIT: '50',
}

/** The first of these that says that it leads. It is the only one by its metrics. */
async function leaderOf(daemons: readonly Daemon[]): Promise<Daemon> {
  const leader = await Promise.any(daemons.map(async (daemon) => (await daemon.said('leading'), daemon)))
  const leads = await Promise.all(daemons.map(async (daemon) => (await daemon.metrics()).sum('leader')))
  expect(leads).toEqual(daemons.map((daemon) => (daemon === leader ? 1 : 0)))
  return leader
}

function sentBy(daemon: Daemon): unknown[] {
  return daemon.log().flatMap(({ event, webhookId }) => (event === 'retry_answered' ? [webhookId] : []))
}

test('kill -9 in mid-recovery: another leads, all recover once, and SIGTERM hands over', async () => {
  await using sandbox = await startPlatform()
  await using api = await startLeaseApi()
  await using running = new AsyncDisposableStack()
  seedDue(sandbox, records)
  const env = { ...(await sandboxEnv(sandbox)), ...api.env, ...quick }
  const all = await Promise.all(
    ['a', 'b', 'c'].map(async (name) =>
      running.use(await startDaemon({ ...env, RECONCILER_INSTANCE_NAME: name }, inPod)),
    ),
  )
  const first = await leaderOf(all)
  const others = all.filter((daemon) => daemon !== first)
  await expect.poll(() => sentBy(first).length).toBeGreaterThan(40)
  expect(others.flatMap(sentBy)).toEqual([])

  first.kill('SIGKILL')
  const second = await leaderOf(others)
  await expect.poll(() => sandbox.counts()).toMatchObject({ failed: 0, successful: records })

  const ids = all.flatMap(sentBy)
  // Those that were in flight.
  expect(ids.length - new Set(ids).size).toBeLessThanOrEqual(8)
  expect(sandbox.receiver.counts()).toMatchObject({ webhooks: records, repeated: 0 })
  expect(api.lease()?.spec.leaseTransitions).toBe(1)

  second.kill('SIGTERM')
  expect((await second.ended()).code).toBe(0)
  expect(await leaderOf(others.filter((daemon) => daemon !== second))).toBeDefined()
})
