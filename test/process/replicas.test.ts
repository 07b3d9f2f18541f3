// Three daemons that share a Lease: one works, whatever happens to it, and another takes over in time.
import { expect, test, vi } from 'vitest'
import { startLeaseApi, type LeaseApi } from '../support/lease-api.ts'
import { seedDue, startPlatform } from '../support/gate.ts'
import { sandboxEnv } from '../support/reconciler.ts'
import { get, startDaemon, patience, type Daemon } from '../support/process.ts'
import { pauseAnnotation } from '../../src/coordination/leader-election.ts'

vi.setConfig({ testTimeout: 90_000 })

const records = 400
const token = 'CANARY-0123456789abcdef0123456789abcdef'
const quick = {
  RECONCILER_COORDINATION_LEASE_DURATION: '3s',
  RECONCILER_COORDINATION_RENEW_DEADLINE: '2s',
  RECONCILER_COORDINATION_RETRY_EVERY: '250ms',
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

async function startReplicas(sandbox: Sandbox, api: LeaseApi, env: Record<string, string> = {}): Promise<Replicas> {
  const names = ['a', 'b', 'c']
  const base = { ...(await sandboxEnv(sandbox)), ...api.env, ...quick, ...env }
  const all = await Promise.all(
    names.map(async (name) =>
      startDaemon({
        ...base,
        RECONCILER_INSTANCE_NAME: name,
        RECONCILER_COORDINATION_SERVICE_ACCOUNT_DIRECTORY: await api.podFolder(`token-${name}`),
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
      for (const daemon of all) daemon.kill('SIGCONT')
      await Promise.all(all.map((daemon) => daemon[Symbol.asyncDispose]()))
    },
  }
}

/** The one that leads, and the others. */
async function splitOf({ all, leaders }: Replicas): Promise<{ leader: Daemon; others: Daemon[] }> {
  await expect.poll(async () => (await leaders()).length, patience).toBe(1)
  const [leader] = await leaders()
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

/** Name of a daemon's token at the API. */
const tokenOf = (daemon: Daemon): string => `token-${String(daemon.log()[0]?.instance)}`

const troubles: Record<
  string,
  { begin(leader: Daemon, api: LeaseApi): void; end(leader: Daemon, api: LeaseApi): void }
> = {
  'kill -9': { begin: (leader) => leader.kill('SIGKILL'), end: () => undefined },
  'SIGSTOP and SIGCONT': {
    begin: (leader) => leader.kill('SIGSTOP'),
    end: (leader) => leader.kill('SIGCONT'),
  },
  'a partition from the API': {
    begin(leader, api) {
      const cut = tokenOf(leader)
      api.fault = (call) => (call.token === cut ? 'silent' : undefined)
    },
    end(_, api) {
      api.fault = () => undefined
    },
  },
}

test.each(Object.entries(troubles))(
  '%s in mid-recovery: another leads in time, and all recover once',
  async (name, trouble) => {
    await using sandbox = await startPlatform()
    await using api = await startLeaseApi()
    seedDue(sandbox, records)
    await using replicas = await startReplicas(sandbox, api)
    const { leader, others } = await splitOf(replicas)
    await expect.poll(() => sent(leader), patience).toBeGreaterThan(40)
    expect(others.map(sent)).toEqual([0, 0])

    trouble.begin(leader, api)
    const from = performance.now()
    await expect.poll(async () => (await replicas.leaders(others)).length, patience).toBe(1)
    // The lease's duration, a try and a call; the rest is for a busy host.
    expect(performance.now() - from).toBeLessThan(10_000)
    trouble.end(leader, api)
    await expect.poll(() => sandbox.counts(), patience).toMatchObject({ failed: 0, successful: records })

    expect(doubles(replicas) / records).toBeLessThan(0.01)
    expect(api.lease()?.spec.leaseTransitions).toBe(1)
    if (name === 'kill -9') return
    await leader.said('standing_by')
    await expect.poll(async () => (await replicas.leaders()).length, patience).toBe(1)
    expect((await get(`${leader.url}/livez`)).status).toBe(200)
  },
)

test('a standby is ready, lists nothing, takes a pause; SIGTERM hands over, and the pause stays', async () => {
  await using sandbox = await startPlatform()
  await using api = await startLeaseApi()
  await using replicas = await startReplicas(sandbox, api)
  const { leader, others } = await splitOf(replicas)
  const [one, two] = others
  if (one === undefined || two === undefined) throw new Error('there are two standbys')
  await one.said('leader_seen')
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
  await leader.said('pause_followed', { paused: true })

  leader.kill('SIGTERM')
  expect((await leader.ended()).code).toBe(0)
  seedDue(sandbox, 5)
  await expect.poll(async () => (await replicas.leaders(others)).length, patience).toBe(1)
  const next = (await replicas.leaders(others))[0]
  await next?.said('full_sweep_completed')
  expect(others.map(sent)).toEqual([0, 0])
  expect(api.lease()?.metadata.annotations).toHaveProperty([pauseAnnotation])

  expect((await post('/-/resume')).status).toBe(200)
  await expect.poll(() => sandbox.counts(), patience).toMatchObject({ failed: 0, successful: 5 })
})

test('into a dead receiver goes what one daemon sends', async () => {
  await using sandbox = await startPlatform()
  await using api = await startLeaseApi()
  sandbox.receiver.fail({ status: 503 })
  seedDue(sandbox, 60)
  await using replicas = await startReplicas(sandbox, api, { RECONCILER_CIRCUIT_INITIAL_LIMIT: '5' })
  const { leader, others } = await splitOf(replicas)
  await leader.said('circuit_opened')
  const subscriptions = new Set(
    leader.log().flatMap(({ event, subscriptionId }) => (event === 'retry_answered' ? [subscriptionId] : [])),
  )
  leader.kill('SIGKILL')
  await expect.poll(async () => (await replicas.leaders(others)).length, patience).toBe(1)
  const next = (await replicas.leaders(others))[0]
  await next?.said('circuit_opened')
  // At most 2 x 5 - 1 deliveries for each subscription, in each of the two terms.
  for (const daemon of replicas.all) expect(sent(daemon)).toBeLessThanOrEqual(9 * subscriptions.size)
})
