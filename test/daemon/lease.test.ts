// One Lease for several daemons, in odd hands and at odd moments, in virtual time. test/daemon/replicas.test.ts has the recoveries.
import { expect, test } from 'vitest'
import type { LeadershipEvent } from '../../src/leader-election/leadership.ts'
import { pauseAnnotation } from '../../src/leader-election/lease-claim.ts'
import { createRecordsEndpoint } from '../../src/ops/records-endpoint.ts'
import { askJob } from '../support/daemon.ts'
import { noFaults } from '../support/lease-store.ts'
import {
  leaseMs,
  retryMs,
  startReplicas,
  type Replica,
  type Replicas,
  type ReplicasOptions,
} from '../support/replicas.ts'

const never = new AbortController().signal
const eventTypes: ReadonlySet<string> = new Set<LeadershipEvent['type']>([
  'leading',
  'standing-by',
  'lease-unavailable',
  'lease-available',
])

interface Scene extends Replicas {
  leader: () => Replica
  first: Replica
  second: Replica
}

/** Two, of which the first leads; or as many as clocks are given. */
async function startScene(options: ReplicasOptions = {}): Promise<Scene> {
  const replicas = await startReplicas({ aheadMs: [0, 0], ...options })
  await replicas.until(() => replicas.leader() !== undefined)
  const [first, second = first] = replicas.all
  if (first === undefined || second === undefined) throw new Error('some were started')
  return Object.assign(replicas, { first, second }) as Scene
}

function typesOf({ facts }: Replica): string[] {
  return facts.map(({ type }) => type).filter((type) => eventTypes.has(type))
}

test('is renewed every retryPeriod by a write of the leader, read by the standby, and given away at its end', async () => {
  await using scene = await startScene()
  const { clock, first, second, store } = scene
  const acquireTime = store.lease()?.acquireTime
  await clock.advance(100)
  const before = store.calls()
  await clock.advance(60_000)
  expect(store.calls() - before).toBe(60)
  expect(store.lease()).toMatchObject({ durationMs: leaseMs, transitions: 0, acquireTime })
  const seen = { type: 'standing-by', cause: 'seen', leader: store.lease()?.holder }
  expect(second.facts.filter(({ type }) => eventTypes.has(type))).toEqual([seen])
  await clock.run(first.stop())
  expect(store.lease()).toMatchObject({ holder: '', durationMs: 1000 })
  expect(first.facts).toContainEqual({ type: 'standing-by', cause: 'released', leader: undefined })
  expect(await scene.until(() => scene.terms.at(-1)?.by === second)).toBeLessThanOrEqual(retryMs)
  expect(clock.now() - Number(second.ops().status().leadership?.since)).toBeLessThan(1000)
})

test.each([
  ['the API is away', 0],
  ['commands wait for the API', 2],
])('is left to expire by a leader that stops while %s', async (_, commands) => {
  await using scene = await startScene({ aheadMs: [0] })
  const { clock, first, store } = scene
  const before = store.lease()
  first.faults = { ...noFaults, cut: true }
  void Promise.allSettled(Array.from({ length: commands }, () => first.command('pause')))
  const from = clock.monotonic()
  await clock.run(first.stop())
  expect(clock.monotonic() - from).toBeLessThanOrEqual(5000)
  expect(typesOf(first)).toEqual(['leading', 'standing-by', 'lease-unavailable'])
  expect(store.lease()).toEqual(before)
  expect(first.ops().status().leadership).toMatchObject({ leading: false, leader: null })
})

test('keeps what other programs wrote into it; that they edit it all the time does not renew it', async () => {
  await using scene = await startScene()
  const foreign = { annotations: { other: 'x' }, object: { metadata: { labels: { a: 'b' } } } }
  scene.store.edit(foreign)
  await scene.clock.advance(5000)
  expect(scene.store.lease()).toMatchObject(foreign)
  scene.first.kill()
  const tookMs = await scene.until(() => {
    scene.store.edit({ annotations: { at: String(scene.clock.monotonic()) } })
    return scene.terms.at(-1)?.by === scene.second
  })
  expect(tookMs).toBeLessThanOrEqual(leaseMs + retryMs)
})

test.each(['is made again by its holder', 'may be made by another one, which does not take it'])(
  'that was deleted %s',
  async (who) => {
    await using scene = await startScene()
    const { clock, first, second, store } = scene
    // Its standby is there before it.
    first.faults = { ...noFaults, wayMs: [100, 0] }
    await clock.advance(retryMs / 2)
    store.remove()
    if (who.includes('another')) expect(await second.command('pause')).toBe(true)
    await clock.advance(5000)
    expect(scene.terms).toHaveLength(1)
    expect(scene.leader()).toBe(first)
    expect(store.lease()).toMatchObject({ transitions: 0, holder: expect.stringContaining(first.name) as string })
    const calls = store.calls()
    await clock.run(second.stop())
    expect(store.calls()).toBe(calls)
  },
)

test('of long ago is waited for: its age counts from when it was seen, not by its own time', async () => {
  const old = '2020-01-01T00:00:00.000000Z'
  const lease = { holder: 'gone', durationMs: leaseMs, transitions: 4, acquireTime: old, renewTime: old }
  await using scene = await startReplicas({
    aheadMs: [0],
    prepare: ({ client }) => void client.write({ ...lease, version: undefined, annotations: {}, object: {} }, never),
  })
  const tookMs = await scene.until(() => scene.leader() !== undefined)
  expect(tookMs).toBeGreaterThanOrEqual(leaseMs)
  expect(tookMs).toBeLessThanOrEqual(leaseMs + 50)
  expect(scene.store.lease()).toMatchObject({ transitions: 5 })
})

test('that cannot be written for some seconds stays with its leader, whose standby names no leader when it is refused', async () => {
  await using scene = await startScene()
  const { clock, first, second } = scene
  first.faults = { ...noFaults, refused: 'server-error' }
  await clock.advance(7500)
  first.faults = noFaults
  second.faults = { ...noFaults, refused: 'forbidden' }
  await clock.advance(30_000)
  const unavailable = Array<string>(3).fill('lease-unavailable')
  expect(typesOf(first)).toEqual(['leading', ...unavailable, 'lease-available'])
  expect(scene.terms).toHaveLength(1)
  first.kill()
  await clock.advance(120_000)
  const problem = 'refused: forbidden'
  expect(second.ops().status().leadership).toMatchObject({ leading: false, leader: null, problem })
})

test("the operator's pause of two instances at one moment: both are done, one after the other", async () => {
  await using scene = await startScene()
  await scene.clock.advance(100)
  for (const one of scene.all) one.faults = { ...noFaults, wayMs: [100, 100] }
  expect(await Promise.all(scene.all.map((one) => one.command('pause')))).toEqual([true, false])
  expect(await scene.second.command('resume')).toBe(true)
  expect(scene.store.lease()).toMatchObject({ annotations: {} })
})

test('the pause is not undone by an older answer, nor by who deletes the lease, which makes it no change', async () => {
  await using scene = await startScene()
  const { clock, first, store } = scene
  first.faults = { ...noFaults, wayMs: [0, 500] }
  const calls = store.calls()
  await scene.until(() => store.calls() > calls)
  first.faults = noFaults
  expect(await first.command('pause')).toBe(true)
  const { annotations } = store.lease() ?? {}
  expect(annotations).toHaveProperty([pauseAnnotation])
  await clock.advance(retryMs)
  store.remove()
  await clock.advance(retryMs)
  expect(store.lease()).toMatchObject({ annotations })
  store.remove()
  expect(await first.command('pause')).toBe(false)
  expect(store.lease()).toMatchObject({ annotations })
  expect(first.facts.filter(({ type }) => type === 'operator')).toHaveLength(2)
  // What is no change is not written.
  const { version } = store.lease() ?? {}
  expect(await first.command('pause')).toBe(false)
  expect(store.lease()?.version).toBe(version)
  // A person ends it so.
  store.edit({ annotations: { [pauseAnnotation]: '' } })
  await clock.advance(retryMs)
  expect(first.ops().status().pauses).toEqual([])
})

test('the pause is written before there is any lease', async () => {
  const refused = { ...noFaults, refused: 'server-error' } as const
  await using scene = await startReplicas({ aheadMs: [0], prepare: (host) => void (host.faults = refused) })
  const [one] = scene.all
  if (one === undefined) throw new Error('one was started')
  one.faults = noFaults
  expect(await one.command('pause')).toBe(true)
  expect(scene.store.lease()).toMatchObject({ holder: '' })
  await scene.until(() => scene.leader() === one)
  expect(one.ops().status().holding).toEqual(['paused'])
})

test('a leader renews it by the write of a command: however slow the API is, commands cost no lead', async () => {
  await using scene = await startScene()
  const { clock, first } = scene
  for (const one of scene.all) one.faults = { ...noFaults, wayMs: [1300, 1300] }
  await clock.advance(10_000)
  for (const name of ['pause', 'resume', 'pause', 'resume', 'pause', 'resume'] as const) {
    const from = clock.monotonic()
    expect(await first.command(name)).toBe(true)
    // The renewal that is under way, and the one write.
    expect(clock.monotonic() - from).toBeLessThanOrEqual(2 * 2600)
  }
  await clock.advance(60_000)
  expect(typesOf(first)).toEqual(['leading'])
})

test('is given away by a leader that cannot reach the platform, once in ten minutes, and taken back where none can', async () => {
  await using scene = await startScene()
  const { clock, first, sandbox, second } = scene
  // One that it reaches is not reached better by the other.
  sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 503 } })
  await clock.advance(5 * 60_000)
  sandbox.faults.set()
  await clock.advance(5 * 60_000)
  expect(scene.leader()).toBe(first)
  first.hasEgress = false
  expect(await scene.until(() => scene.leader() !== first)).toBeLessThan(3 * 60_000)
  // A command before the release is no claim.
  await first.command('pause')
  expect(await scene.until(() => scene.leader() === second)).toBeLessThanOrEqual(2 * retryMs)
  expect(typesOf(first).filter((type) => type === 'leading')).toHaveLength(1)
  const gone = (): unknown[] =>
    first.facts.flatMap((fact) => (fact.type === 'standing-by' && fact.cause === 'unreachable' ? [fact.problem] : []))
  const [problem] = gone()
  expect(gone()).toEqual([expect.stringMatching(/^3 sweeps in a row got no response \(ECONNREFUSED\)/)])
  expect(first.ops().status().leadership).toMatchObject({ leading: false, problem })
  expect(await first.metric('leader_terms_ended_total', { cause: 'unreachable' })).toBe(1)
  await clock.advance(10 * 60_000)
  expect(first.ops().status().leadership).toMatchObject({ leading: false, problem: null })
  second.hasEgress = false
  await clock.advance(30 * 60_000)
  // Each of the two gave it away at most once in ten minutes, and one leads.
  expect(scene.terms.length).toBeGreaterThan(2)
  expect(scene.terms.length).toBeLessThanOrEqual(2 + 2 * 3)
  expect(scene.leader()).toBeDefined()
  // Each term counts its own.
  expect(new Set(gone())).toEqual(new Set([problem]))
  first.kill()
  second.hasEgress = true
  await clock.advance(60_000)
  expect(scene.leader()).toBe(second)
})

test('records and retry jobs are the leader’s: a standby names it, and a lost lead ends its jobs', async () => {
  await using scene = await startScene()
  const { first, second, store } = scene
  const asked = { selection: { since: '2d' }, exhausted: true }
  const leader = store.lease()?.holder
  expect(await askJob(second.ops(), 'POST', '', asked)).toMatchObject({ status: 409, leader })
  const records = await createRecordsEndpoint(second.ops().records)('', {} as never)
  expect(records).toMatchObject({ status: 409, body: expect.stringContaining(String(leader)) as string })
  await first.command('pause')
  const day = 86_400_000
  const now = scene.clock.now()
  scene.sandbox.seed({ count: 3, from: now - day, to: now - day / 2, attempts: 1 })
  await scene.clock.advance(3_700_000)
  const { job, status } = await askJob(first.ops(), 'POST', '', { ...asked, rate: 0.01 })
  expect(status).toBe(200)
  store.edit({ holder: 'another' })
  expect(await scene.until(() => scene.leader() !== first)).toBeLessThanOrEqual(retryMs)
  expect(first.facts).toContainEqual({ type: 'standing-by', cause: 'taken', leader: 'another' })
  await scene.clock.advance(1000)
  const { state, stoppedBy } = await askJob(first.ops(), 'GET', `/${job}`)
  expect({ state, stoppedBy }).toEqual({ state: 'ended', stoppedBy: 'not-leader' })
})
