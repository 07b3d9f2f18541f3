// Replicas that share a Lease, with troubles drawn by the seed: never two that work at one moment, a takeover in time, nothing twice, nothing lost.
import { expect, test } from 'vitest'
import { noFaults, type CallFaults } from '../support/lease-store.ts'
import { leaseMs, retryMs, startReplicas, strays, type Replica, type Replicas } from '../support/replicas.ts'
import { drawOf, hourMs, minuteMs, type Draw } from './draw.ts'

const seeds = Array.from({ length: 15 }, (_, at) => at + 1)
/** `retry.concurrency` by default. */
const concurrency = 8
const records = 300
/** On the way to the API, and back. */
const longestWayMs = [600, 600] as const
/**
 * A standby sees a renewal at its next try, and waits out the lease from there. A write of the leader may be under way,
 * and the standby's read, and its read and write after the expiry, take their time. Its clock may be slow by 1 %. The clock
 * of the test moves on by 50 ms.
 */
const takeoverMs = 1.01 * (leaseMs + retryMs) + 4 * (longestWayMs[0] + longestWayMs[1]) + 50

const kinds = [
  ...['freeze', 'cut', 'lost-answers', 'stored', 'unstored', 'slow'],
  ...['forbidden', 'server-error', 'kill', 'stop', 'no-egress', 'commands', 'suspend'],
] as const
type Kind = (typeof kinds)[number]

/** Three sweeps that fail, one each half minute or later as they back off; the write that gives the lease away, and the takeover. */
const egressMs = 3 * minuteMs
/** The most that a leader without a way to the platform gives the lease away. */
const givingMs = 10 * minuteMs

/** Another one must take over while the leader has this. */
const stopping: ReadonlySet<string> = new Set([
  'freeze',
  'suspend',
  'cut',
  'unstored',
  'forbidden',
  'server-error',
  'kill',
  'stop',
])

function faultsOf(kind: Kind, ways: CallFaults): CallFaults {
  if (kind === 'cut') return { ...ways, cut: true }
  if (kind === 'lost-answers') return { ...ways, loseAnswers: true }
  if (kind === 'stored' || kind === 'unstored') return { ...ways, writesFail: kind }
  if (kind === 'forbidden' || kind === 'server-error') return { ...ways, refused: kind }
  if (kind === 'slow') return { ...ways, wayMs: [4000, 4000] }
  if (kind === 'commands') return { ...ways, wayMs: [1300, 1300] }
  return ways
}

/**
 * Pauses and resumes through it, while the API is slow: the leader does it in time, and no lead is lost by it. Between
 * the read of a standby and its write, the leader may renew each time: then the command is not confirmed.
 */
async function command({ clock, leader, terms }: Replicas, target: Replica): Promise<void> {
  const leads = leader()
  const before = terms.length
  for (const name of ['pause', 'resume', 'pause', 'resume'] as const) {
    const done = await clock.run(Promise.resolve(target.ops().control.pause[name]()), 2 * leaseMs)
    if (target === leads) expect(done).toBe(true)
  }
  target.faults = noFaults
  await target.command('resume')
  expect(leader(), 'commands cost the lead').toBe(leads)
  expect(terms).toHaveLength(before)
}

/** The leader cannot reach the platform, and gives the lease to one that can; unless it did so a moment ago. */
async function loseEgress(replicas: Replicas, target: Replica): Promise<void> {
  const { clock, terms } = replicas
  const { facts } = target
  const gaveAway = (): boolean => facts.some((fact) => fact.type === 'standing-by' && fact.cause === 'unreachable')
  if (gaveAway()) await clock.advance(givingMs)
  if (replicas.leader() !== target) return
  const before = facts.length
  target.hasEgress = false
  await clock.advance(egressMs)
  expect(terms.at(-1)?.by, `${target.name} keeps the lead without a way to the platform`).not.toBe(target)
  expect(facts.slice(before).filter(({ type }) => type === 'leading')).toEqual([])
  target.hasEgress = true
}

async function trouble(draw: Draw, replicas: Replicas, ways: CallFaults): Promise<void> {
  const { all } = replicas
  const running = all.filter((one) => !one.isGone())
  const leader = replicas.leader()
  const target = draw.chance(0.8) ? leader : running[draw.within(0, running.length - 1)]
  const kind = kinds[draw.within(0, kinds.length - 1)]
  const endsIt = kind === 'kill' || kind === 'stop'
  if (target === undefined || kind === undefined || (endsIt && running.length === 1)) return
  const lastsMs = draw.within(3000, 30_000)
  target.faults = faultsOf(kind, ways)
  if (kind === 'commands') await command(replicas, target)
  else if (kind === 'no-egress') {
    if (target === leader && running.length > 1) await loseEgress(replicas, target)
  } else await follow(kind, { draw, lastsMs, replicas, running: running.length, target, ways })
  target.faults = ways
}

interface Following {
  draw: Draw
  lastsMs: number
  replicas: Replicas
  running: number
  target: Replica
  ways: CallFaults
}

/** The trouble lasts; when it stops a leader, another one follows in time. */
async function follow(kind: Kind, { draw, lastsMs, replicas, running, target, ways }: Following): Promise<void> {
  const { clock } = replicas
  const endsIt = kind === 'kill' || kind === 'stop'
  const leader = replicas.leader()
  if (kind === 'freeze') target.freeze()
  else if (kind === 'suspend') target.suspend()
  else if (kind === 'kill') target.kill()
  else if (kind === 'stop') await clock.run(target.stop().then(target.kill))
  const from = clock.monotonic()
  const mustFollow = target === leader && running > 1 && stopping.has(kind)
  while (clock.monotonic() - from < (mustFollow && endsIt ? takeoverMs : lastsMs)) {
    await clock.advance(50)
    const isFollowed = replicas.terms.at(-1)?.by !== target
    const isLate = mustFollow && !isFollowed && clock.monotonic() - from > takeoverMs
    expect(isLate, `none follows ${target.name} (${kind}) within ${takeoverMs} ms`).toBe(false)
  }
  if (mustFollow && endsIt) expect(replicas.terms.at(-1)?.by, `none follows ${target.name} (${kind})`).not.toBe(target)
  // What it was answered while it stood still reaches it now, and nothing after that.
  if (kind === 'freeze' && draw.chance(0.5)) target.faults = { ...ways, cut: true }
  if (target.isFrozen()) target.thaw()
  if (target.faults.cut) await clock.advance(leaseMs)
}

function sentByTwo({ patches }: Replicas): string[] {
  const first = new Map<string, Replica>()
  for (const { by, id } of patches) if (!first.has(id)) first.set(id, by)
  return patches.filter(({ by, id }) => first.get(id) !== by).map(({ id }) => id)
}

test.each(seeds)(
  'seed %i: one works at a time, another follows in time, each record is delivered once',
  async (seed) => {
    const draw = drawOf(seed)
    const ways: CallFaults = { ...noFaults, wayMs: [draw.within(0, longestWayMs[0]), draw.within(0, longestWayMs[1])] }
    const aheadMs = Array.from({ length: draw.within(2, 3) }, () => draw.within(-hourMs, hourMs))
    await using replicas = await startReplicas({
      aheadMs,
      // Clocks that differ by up to 1 % from true time.
      rates: aheadMs.map(() => 1 + draw.within(-100, 100) / 10_000),
      // Slow enough that a leader is at work in each trouble.
      env: { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '3' },
      prepare: (host) => void (host.faults = ways),
    })
    const { clock, sandbox } = replicas
    const to = clock.now() - 2 * hourMs
    sandbox.seed({ count: records, from: to - 18 * hourMs, to, attempts: 1, subscriptions: 4 })
    for (let troubles = draw.within(3, 6); troubles > 0; troubles -= 1) {
      await replicas.until(() => replicas.leader() !== undefined)
      await clock.advance(draw.within(0, 10_000))
      await trouble(draw, replicas, ways)
    }
    for (let minutes = 0; minutes < 15 && sandbox.counts().failed > 0; minutes += 1) await clock.advance(minuteMs)
    expect(strays(replicas)).toEqual([])
    expect(sandbox.counts()).toMatchObject({ failed: 0, successful: records })
    expect(sandbox.receiver.counts()).toMatchObject({ webhooks: records, repeated: 0 })
    expect(sentByTwo(replicas).length).toBeLessThanOrEqual(concurrency * (replicas.terms.length - 1))
  },
)
