// Three processes that share a Lease over HTTPS: one works, another takes over when it is killed, and a pause outlives it.
// test/daemon/replicas.test.ts has freezes, partitions and durations, in virtual time.
import { expect, test } from 'vitest'
import { startLeaseApi, type LeaseApi } from '../support/lease-api.ts'
import { sandboxEnv, seedDue, startPlatform } from '../support/platform.ts'
import { get, startDaemon, type Daemon } from '../support/process.ts'
import { pauseAnnotation } from '../../src/leader-election/leader-election.ts'

const records = 400
const token = 'CANARY-0123456789abcdef0123456789abcdef'
/** A busy host may stop a process for seconds: it must not lose the lease by that. */
const quick = {
  RECONCILER_LEADER_ELECTION_LEASE_DURATION: '8s',
  RECONCILER_LEADER_ELECTION_RENEW_DEADLINE: '7s',
  RECONCILER_LEADER_ELECTION_RETRY_PERIOD: '500ms',
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '150',
  RECONCILER_CIRCUIT_INITIAL_LIMIT: '50',
  RECONCILER_CONTROL_TOKEN: token,
}

type Sandbox = Awaited<ReturnType<typeof startPlatform>>

interface Replicas extends AsyncDisposable {
  all: Daemon[]
  /** Those that say that they lead, the killed aside. */
  leaders(alive?: readonly Daemon[]): Promise<Daemon[]>
}

async function startReplicas(sandbox: Sandbox, api: LeaseApi): Promise<Replicas> {
  const names = ['a', 'b', 'c']
  const base = { ...(await sandboxEnv(sandbox)), ...api.env, ...quick }
  const all = await Promise.all(
    names.map(async (name) =>
      startDaemon({
        ...base,
        RECONCILER_INSTANCE_NAME: name,
        RECONCILER_LEADER_ELECTION_SERVICE_ACCOUNT_DIRECTORY: await api.podFolder(`token-${name}`),
      }),
    ),
  )
  return {
    all,
    async leaders(alive = all) {
      const metrics = await Promise.all(alive.map((daemon) => daemon.metrics()))
      return alive.filter((_, index) => metrics[index]?.sum('leader') === 1)
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(all.map((daemon) => daemon[Symbol.asyncDispose]()))
    },
  }
}

/** The one that leads, and the others. */
async function splitOf({ all, leaders }: Replicas): Promise<{ leader: Daemon; others: Daemon[] }> {
  let leading: Daemon[] = []
  await expect.poll(async () => (leading = await leaders()).length).toBe(1)
  const [leader] = leading
  if (leader === undefined) throw new Error('none leads')
  return { leader, others: all.filter((daemon) => daemon !== leader) }
}

function sent(daemon: Daemon): number {
  return daemon.log().filter(({ event }) => event === 'retry_answered').length
}

/** PATCHes of all daemons beyond the first of each record. */
function doubles({ all }: Replicas): number {
  const ids = all.flatMap((daemon) =>
    daemon.log().flatMap(({ event, webhookId }) => (event === 'retry_answered' ? [String(webhookId)] : [])),
  )
  return ids.length - new Set(ids).size
}

test('kill -9 in mid-recovery: another leads, and all recover once', async () => {
  await using sandbox = await startPlatform()
  await using api = await startLeaseApi()
  seedDue(sandbox, records)
  await using replicas = await startReplicas(sandbox, api)
  const { leader, others } = await splitOf(replicas)
  await expect.poll(() => sent(leader)).toBeGreaterThan(40)
  expect(others.map(sent)).toEqual([0, 0])

  leader.kill('SIGKILL')
  await expect.poll(async () => (await replicas.leaders(others)).length).toBe(1)
  await expect.poll(() => sandbox.counts()).toMatchObject({ failed: 0, successful: records })

  // Those that were in flight.
  expect(doubles(replicas)).toBeLessThanOrEqual(8)
  expect(api.lease()?.spec.leaseTransitions).toBe(1)
})

test('a standby is ready, lists nothing, takes a pause; SIGTERM hands over, and the pause stays', async () => {
  await using sandbox = await startPlatform()
  await using api = await startLeaseApi()
  await using replicas = await startReplicas(sandbox, api)
  const { leader, others } = await splitOf(replicas)
  const [one, two] = others
  if (one === undefined || two === undefined) throw new Error('there are two standbys')
  await one.said('standing_by', { cause: 'seen' })
  const status = JSON.parse((await get(`${one.url}/status`)).body) as Record<string, unknown>
  expect(status).toMatchObject({ holding: ['not-leader'], leadership: { leading: false, problem: null } })
  expect((status['leadership'] as { leader: string }).leader).toBe(api.lease()?.spec.holderIdentity)
  expect((await get(`${one.url}/readyz`)).status).toBe(200)
  expect((await one.metrics()).sum('platform_requests_total', { operation: 'list' })).toBe(0)

  const post = async (path: string): Promise<Response> =>
    fetch(`${one.url}${path}`, { method: 'POST', headers: { authorization: `Bearer ${token}` } })
  const paused = await post('/-/pause')
  expect([paused.status, await paused.json()]).toMatchObject([200, { paused: true, outlivesRestart: true }])
  const probe = await post('/-/probe')
  expect([probe.status, await probe.text()]).toEqual([503, expect.stringContaining('stands by')])
  await leader.said('operator_paused', { via: 'lease' })

  leader.kill('SIGTERM')
  expect((await leader.ended()).code).toBe(0)
  seedDue(sandbox, 5)
  await expect.poll(async () => (await replicas.leaders(others)).length).toBe(1)
  const next = (await replicas.leaders(others))[0]
  await next?.said('full_sweep_completed')
  expect(others.map(sent)).toEqual([0, 0])
  expect(api.lease()?.metadata.annotations).toHaveProperty([pauseAnnotation])

  expect((await post('/-/resume')).status).toBe(200)
  await expect.poll(() => sandbox.counts()).toMatchObject({ failed: 0, successful: 5 })
})
