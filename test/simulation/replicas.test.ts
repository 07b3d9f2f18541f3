// Replicas that share a Lease, with troubles drawn by the seed: never two that work at one moment, a takeover in time, nothing twice, nothing lost.
import { expect, test } from 'vitest'
import { noFaults, type CallFaults } from '../support/lease-store.ts'
import { startReplicas, strays, type Replica, type Replicas } from '../support/replicas.ts'
import { drawOf, hourMs, minuteMs, type Draw } from './draw.ts'

/** A fifth of the simulation's seeds. */
const seeds = Array.from({ length: Math.ceil(Number(process.env['SIMULATION_SEEDS'] ?? 300) / 5) }, (_, at) => at + 1)
/** By default: `leaderElection.leaseDuration`, `leaderElection.retryPeriod`, `retry.concurrency`. */
const [leaseMs, retryMs, concurrency] = [15_000, 2000, 8]
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
  ...['forbidden', 'server-error', 'kill', 'stop'],
] as const
type Kind = (typeof kinds)[number]

/** Another one must take over while the leader has this. */
const stopping: ReadonlySet<string> = new Set([
  'freeze',
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
  return ways
}

async function trouble(draw: Draw, replicas: Replicas, ways: CallFaults): Promise<void> {
  const { all, clock } = replicas
  const running = all.filter((one) => !one.isGone())
  const leader = replicas.leader()
  const target = draw.chance(0.8) ? leader : running[draw.within(0, running.length - 1)]
  const kind = kinds[draw.within(0, kinds.length - 1)]
  const endsIt = kind === 'kill' || kind === 'stop'
  if (target === undefined || kind === undefined || (endsIt && running.length === 1)) return
  const lastsMs = draw.within(3000, 30_000)
  target.faults = faultsOf(kind, ways)
  if (kind === 'freeze') target.freeze()
  else if (kind === 'kill') target.kill()
  else if (kind === 'stop') await clock.run(target.stop().then(target.kill))
  const from = clock.monotonic()
  const mustFollow = target === leader && running.length > 1 && stopping.has(kind)
  while (clock.monotonic() - from < (mustFollow && endsIt ? takeoverMs : lastsMs)) {
    await clock.advance(50)
    const isFollowed = replicas.terms.at(-1)?.by !== target
    const isLate = mustFollow && !isFollowed && clock.monotonic() - from > takeoverMs
    expect(isLate, `none follows ${target.name} (${kind}) within ${takeoverMs} ms`).toBe(false)
  }
  if (mustFollow && endsIt) expect(replicas.terms.at(-1)?.by, `none follows ${target.name} (${kind})`).not.toBe(target)
  // What it was answered while it stood still reaches it now, and nothing after that.
  if (kind === 'freeze' && draw.chance(0.5)) target.faults = { ...ways, cut: true }
  if (kind === 'freeze') target.thaw()
  if (target.faults.cut) await clock.advance(leaseMs)
  target.faults = ways
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
