// Daemons that share a Lease, in virtual time with the default durations. That one works at a time, and another takes over in time
// from one that is killed, frozen, cut off or stopped: test/simulation/replicas.test.ts.
import { describe, expect, test } from 'vitest'
import { pauseAnnotation } from '../../src/leader-election/lease-claim.ts'
import { hourMs, minuteMs, withReceiver } from '../support/daemon.ts'
import { noFaults, type CallFaults } from '../support/lease-store.ts'
import { leaseMs, retryMs, startReplicas, strays, type Replica, type Replicas } from '../support/replicas.ts'

const records = 400

function seed({ clock, sandbox }: Replicas): void {
  const now = clock.now()
  sandbox.seed({ count: records, from: now - 20 * hourMs, to: now - 2 * hourMs, attempts: 1, subscriptions: 4 })
}

async function leading(replicas: Replicas): Promise<Replica> {
  await replicas.until(() => replicas.leader() !== undefined)
  const leader = replicas.leader()
  if (leader === undefined) throw new Error('none leads')
  return leader
}

async function leaderAndStandby(replicas: Replicas): Promise<[leader: Replica, standby: Replica]> {
  const leader = await leading(replicas)
  const standby = replicas.all.find((one) => one !== leader)
  if (standby === undefined) throw new Error('there is a standby')
  return [leader, standby]
}

/** A leader that has begun to retry. */
async function inMidRecovery(replicas: Replicas): Promise<Replica> {
  seed(replicas)
  const leader = await leading(replicas)
  await replicas.until(() => replicas.patches.length > 40)
  return leader
}

/** The next call is a read, and passes; the responses of those after it are lost. */
function faultsOfWrite(): CallFaults {
  let calls = 0
  return {
    ...noFaults,
    get loseAnswers() {
      return (calls += 1) > 1
    },
  }
}

const stored: CallFaults = { ...noFaults, writesFail: 'stored' }

/** Retries that take longer than a lease does without a renewal. */
const slowPlatform = { RECONCILER_PLATFORM_REQUEST_TIMEOUT: '30s' }

test('where the API answers a write that it keeps with 500, an instance leads, until it cannot read either', async () => {
  await using replicas = await startReplicas({ aheadMs: [0, 0], prepare: (host) => void (host.faults = stored) })
  const leader = await inMidRecovery(replicas)
  // The lease that it reads is its own.
  await replicas.clock.advance(5 * minuteMs)
  expect(replicas.leader()).toBe(leader)
  expect(replicas.sandbox.counts()).toMatchObject({ failed: 0, successful: records })
  expect(replicas.terms).toHaveLength(1)
  leader.faults = { ...stored, cut: true }
  const tookMs = await replicas.until(() => (replicas.leader() ?? leader) !== leader)
  expect(tookMs).toBeLessThanOrEqual(leaseMs + 2 * retryMs)
  expect(strays(replicas)).toEqual([])
})

test.each<[string, CallFaults]>([
  ['its answer waits in the socket', { ...noFaults, wayMs: [0, 200] }],
  ['its answer was a 500', stored],
])('a leader that was frozen after a renewal does not lead by it when it wakes up: %s', async (_, faults) => {
  await using replicas = await startReplicas({ aheadMs: [0, 0] })
  const leader = await leading(replicas)
  leader.faults = faults
  const renewal = replicas.store.lease()?.renewTime
  await replicas.until(() => replicas.store.lease()?.renewTime !== renewal)
  leader.freeze()
  // Longer than two thirds of leaderElection.leaseDuration, and shorter than the lease holds.
  await replicas.clock.advance(12_000)
  leader.thaw()
  await replicas.clock.advance(100)
  expect(replicas.leader()).toBeUndefined()
})

test('a leader that is cut off stops at the deadline of its configuration', async () => {
  await using replicas = await startReplicas({ aheadMs: [0], leaseDurationMs: 6000 })
  const leader = await leading(replicas)
  leader.faults = { ...noFaults, cut: true }
  expect(await replicas.until(() => replicas.leader() === undefined)).toBeLessThanOrEqual(4000)
})

test('a new term waits for the retries of the last one for seconds, not for platform.requestTimeout', async () => {
  await using replicas = await startReplicas({ aheadMs: [0], env: { RECONCILER_PLATFORM_REQUEST_TIMEOUT: '5m' } })
  replicas.sandbox.faults.set({ operation: 'retry', fault: { kind: 'latency', ms: 4 * minuteMs } })
  seed(replicas)
  const leader = await leading(replicas)
  await replicas.until(() => replicas.patches.length > 3)
  leader.faults = { ...noFaults, cut: true }
  await replicas.until(() => replicas.leader() === undefined)
  const sent = replicas.patches.length
  leader.faults = noFaults
  replicas.sandbox.faults.set()
  await replicas.until(() => replicas.terms.length === 2)
  expect(await replicas.until(() => replicas.patches.length > sent)).toBeLessThan(15_000)
})

describe('SIGTERM', () => {
  test('while retries are in flight: the lease is kept and renewed until they have ended', async () => {
    await using replicas = await startReplicas({ env: slowPlatform })
    replicas.sandbox.faults.set({ operation: 'retry', fault: { kind: 'latency', ms: 20_000 } })
    seed(replicas)
    const leader = await leading(replicas)
    await replicas.until(() => replicas.patches.length > 0)
    const stopping = leader.stop()
    // Longer than a lease lasts that nobody renews.
    await replicas.clock.advance(leaseMs + 2 * retryMs)
    expect(replicas.store.lease()?.holder).toContain(leader.name)
    expect(new Set(replicas.patches.map(({ by }) => by))).toEqual(new Set([leader]))
    await replicas.clock.run(stopping)
    expect(replicas.store.lease()?.holder).toBe('')
    expect(strays(replicas)).toEqual([])
  })

  test('when its grace ends before the retries do: the lease is released all the same', async () => {
    await using replicas = await startReplicas({ env: { RECONCILER_SHUTDOWN_GRACE: '0s' } })
    const leader = await inMidRecovery(replicas)
    await replicas.clock.run(leader.stop())
    expect(replicas.store.lease()).toMatchObject({ holder: '' })
    const tookMs = await replicas.until(() => (replicas.leader() ?? leader) !== leader)
    expect(tookMs).toBeLessThanOrEqual(retryMs)
    // The next one does not wait for its schedule, which ticks every half minute.
    const next = replicas.leader()
    expect(await replicas.until(() => replicas.patches.some(({ by }) => by === next))).toBeLessThan(3000)
    expect(replicas.store.lease()?.transitions).toBe(1)
  })
})

describe('a lease that somebody else edits', () => {
  test('and gives to a stranger is not released by a leader that stops', async () => {
    await using replicas = await startReplicas({ aheadMs: [0] })
    const leader = await leading(replicas)
    replicas.store.edit({ holder: 'stranger' })
    await replicas.clock.run(leader.stop())
    expect(replicas.store.lease()).toMatchObject({ holder: 'stranger', durationMs: leaseMs })
  })

  test('so that it holds for years is taken when a person has deleted it, after the duration of ours', async () => {
    await using replicas = await startReplicas({ aheadMs: [0] })
    await leading(replicas)
    const object = { metadata: { resourceVersion: '7' } }
    replicas.store.edit({ holder: 'stranger', durationMs: 1e12, renewTime: undefined, object })
    await replicas.clock.advance(60 * minuteMs)
    expect(replicas.leader()).toBeUndefined()
    replicas.store.remove()
    const tookMs = await replicas.until(() => replicas.leader() !== undefined)
    expect(tookMs).toBeGreaterThanOrEqual(leaseMs - 50)
    expect(tookMs).toBeLessThanOrEqual(leaseMs + retryMs)
    // Nothing of the old object: the API refuses to make one that has a version.
    expect(replicas.store.lease()).toMatchObject({ transitions: 1, durationMs: leaseMs })
    expect(replicas.store.lease()?.object).toEqual({})
  })
})

test('instances of one name are told apart', async () => {
  await using replicas = await startReplicas({ env: { RECONCILER_INSTANCE_NAME: 'same' } })
  const leader = await inMidRecovery(replicas)
  await replicas.clock.advance(minuteMs)
  expect(new Set(replicas.patches.map(({ by }) => by))).toEqual(new Set([leader]))
  expect(replicas.terms).toHaveLength(1)
})

test('a second term begins with what it lists, not with what the first one knew', async () => {
  await using replicas = await startReplicas({ aheadMs: [0, 0] })
  const first = await inMidRecovery(replicas)
  first.faults = { ...noFaults, cut: true }
  await replicas.until(() => (replicas.leader() ?? first) !== first)
  const second = replicas.leader()
  first.faults = noFaults
  await replicas.clock.advance(2 * minuteMs)
  expect(replicas.sandbox.counts()).toMatchObject({ failed: 0, successful: records })
  // A standby shows nothing of its own term: it would grow old.
  const { history, ...shown } = first.ops().status()
  expect(shown).toMatchObject({ sweeps: [], lastCompleteSweep: null, incident: null })
  expect(history.slice(-2)).toMatchObject([{ missing: null }, { missing: null }])

  second?.kill()
  await replicas.until(() => replicas.leader() === first)
  await replicas.clock.advance(2 * minuteMs)
  expect(replicas.patches.length).toBe(records)
  expect(first.ops().status().missing).toBe(0)
})

describe('a standby', () => {
  test('lists nothing and retries nothing for as long as the leader lives', async () => {
    await using replicas = await startReplicas()
    const leader = await inMidRecovery(replicas)
    await replicas.clock.advance(10 * minuteMs)
    expect(replicas.leader()).toBe(leader)
    for (const one of replicas.all) {
      if (one === leader) continue
      expect(one.facts.filter(({ type }) => type === 'platform-request')).toEqual([])
      expect(one.ops().status()).toMatchObject({ holding: ['not-leader'] })
      expect([one.ops().ready(), one.ops().live()]).toEqual([[], []])
      expect(one.ops().control.probe()).toEqual({
        problem: expect.stringMatching(/stands by\. \S+ leads: ask there/) as string,
      })
      // The alert for a sweep that is overdue is the leader's alone.
      expect(await one.metric('progress_due_timestamp_seconds')).toBeGreaterThan(one.clock.now() / 1000)
    }
    expect(replicas.sandbox.counts().successful).toBe(records)
    leader.kill()
    const next = await leading(replicas)
    // Nor is a sweep overdue as a term begins.
    expect(await next.metric('progress_due_timestamp_seconds')).toBeGreaterThan(next.clock.now() / 1000)
  })

  test('blames no receiver, whose health the leader alone asks for', async () => {
    await using replicas = await startReplicas({ aheadMs: [0, 0], env: withReceiver })
    const leader = await leading(replicas)
    await replicas.clock.advance(minuteMs)
    const shown = replicas.all.map((one) => [one === leader, one.ops().status().holding])
    expect(Object.fromEntries(shown)).toEqual({ true: ['receiver-down'], false: ['not-leader'] })
  })

  test('is not ready, and says so in a metric, when its calls of the Lease have failed for as long as a lease lasts', async () => {
    await using replicas = await startReplicas({ aheadMs: [0, 0] })
    const [leader, standby] = await leaderAndStandby(replicas)
    const shown = async (): Promise<unknown> => [standby.ops().ready(), await standby.metric('lease_available')]
    standby.faults = { ...noFaults, refused: 'forbidden' }
    await replicas.clock.advance(leaseMs - retryMs)
    expect(await shown()).toEqual([[], 1])
    await replicas.clock.advance(2 * retryMs)
    const problem = 'the lease has been unusable for leaderElection.leaseDuration: refused: forbidden'
    expect(await shown()).toEqual([[problem], 0])
    expect([standby.ops().live(), leader.ops().ready(), await leader.metric('lease_available')]).toEqual([[], [], 1])
    standby.faults = noFaults
    await replicas.clock.advance(retryMs)
    expect(await shown()).toEqual([[], 1])
  })
})

test('two platforms on one Lease: the one that stands by is not ready, and says whose lease it is', async () => {
  await using replicas = await startReplicas({
    aheadMs: [0, 0],
    envOf: (index) =>
      index === 1 ? { RECONCILER_AUTH_CLIENT_ID: 'x', RECONCILER_PLATFORM_BASE_URL: 'https://b.example' } : {},
  })
  const leader = await leading(replicas)
  const [, other] = replicas.all
  await replicas.clock.advance(leaseMs + 2 * retryMs)
  expect(leader).not.toBe(other)
  const said =
    /the Lease \S+ is held for another platform \(.* http.*\), but this instance uses .* https:\/\/b\.example: give each/
  expect(other?.ops().ready()).toEqual([expect.stringMatching(said)])
  expect(await other?.metric('lease_available')).toBe(0)
  expect([leader.ops().ready(), await leader.metric('lease_available')]).toEqual([[], 1])
  // A command to one platform's instance must not pause the other platform.
  const answer = await other?.command('pause')
  expect(answer).toEqual({ problem: expect.stringMatching(said) as unknown })
  await replicas.clock.advance(2 * retryMs)
  expect(leader.ops().status().holding).toEqual([])
})

describe("the operator's pause", () => {
  test('is taken by a standby, holds the leader, outlives it, and ends by another', async () => {
    await using replicas = await startReplicas()
    const leader = await inMidRecovery(replicas)
    const [one, two] = replicas.all.filter((replica) => replica !== leader)
    if (one === undefined || two === undefined) throw new Error('there are two standbys')
    replicas.store.edit({ annotations: { other: 'x' } })
    expect(await one.command('pause')).toBe(true)
    // For log and audit, of the instance that it came to.
    expect(one.facts).toContainEqual({ type: 'operator', command: 'pause', changed: true })
    await replicas.clock.advance(2 * retryMs)
    expect(leader.ops().status()).toMatchObject({ holding: ['paused'] })
    const followed = replicas.all.filter(({ facts }) => facts.some((fact) => fact.type === 'operator' && 'via' in fact))
    expect(new Set(followed)).toEqual(new Set([leader, two]))
    const sent = replicas.patches.length
    await replicas.clock.advance(minuteMs)
    leader.kill()
    await replicas.until(() => replicas.leader() !== undefined)
    await replicas.clock.advance(minuteMs)
    expect(replicas.patches.length).toBe(sent)
    expect(Object.keys(replicas.store.lease()?.annotations ?? {})).toEqual(
      expect.arrayContaining(['other', pauseAnnotation]),
    )

    expect(await two.command('resume')).toBe(true)
    expect(replicas.store.lease()?.annotations).toMatchObject({ other: 'x' })
    await replicas.clock.advance(3 * minuteMs)
    expect(replicas.sandbox.counts()).toMatchObject({ failed: 0, successful: records })
  })

  test('holds from the first moment of a term, also when the retries of the last one ended after it began', async () => {
    await using replicas = await startReplicas({ aheadMs: [0], env: slowPlatform })
    replicas.sandbox.faults.set({ operation: 'retry', fault: { kind: 'latency', ms: 20_000 } })
    seed(replicas)
    const leader = await leading(replicas)
    await replicas.until(() => replicas.patches.length > 0)
    expect(await leader.command('pause')).toBe(true)
    const sent = replicas.patches.length
    leader.faults = { ...noFaults, cut: true }
    await replicas.until(() => replicas.leader() === undefined)
    leader.faults = noFaults
    await replicas.until(() => replicas.terms.length === 2)
    replicas.sandbox.faults.set()
    await replicas.clock.advance(minuteMs)
    expect(replicas.patches.length).toBe(sent)
    expect(leader.ops().status().holding).toEqual(['paused'])
  })

  test.each([
    ['is refused', (): CallFaults => ({ ...noFaults, refused: 'forbidden' }), []],
    // The command was done, and is followed as that of another instance.
    ['loses the answer of its write', faultsOfWrite, ['paused']],
  ] as const)('whose command %s is not confirmed', async (_, faults, holding) => {
    await using replicas = await startReplicas({ aheadMs: [0, 0] })
    const [leader, standby] = await leaderAndStandby(replicas)
    standby.faults = faults()
    expect(await standby.command('pause')).toEqual({
      problem: expect.stringMatching(/^Not confirmed: .+ Then send the command again\.$/) as string,
    })
    expect(standby.facts.filter(({ type }) => type === 'operator')).toEqual([])
    await replicas.clock.advance(retryMs)
    expect(leader.ops().status().holding).toEqual(holding)
  })
})
