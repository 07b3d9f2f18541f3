// How many calls a recovery takes: a whole outage recovered in virtual time by sweeps, retries and checks.
import { dayMs, secondMs, testNow } from './backlog.ts'
import { failedRecord } from './fake-platform.ts'
import { reconcile, type ReconcileOptions } from './reconcile.ts'

export interface Outage extends Pick<ReconcileOptions, 'concurrency' | 'latencyMs' | 'maxPerSecond'> {
  /** Event times of what failed, local ms. */
  failed: readonly number[]
  /** Event times of what was delivered between. */
  delivered?: readonly number[]
  /** Time of one delivery. */
  deliveryMs: number
  /** More than one subscription takes turns. Default 1. */
  subscriptions?: number
}

export interface Cost {
  retry: number
  list: number
  confirm: number
  /** Calls of all kinds for each recovered record. */
  perRecord: number
  /** Virtual time until all were seen to be recovered, in seconds, to the next one. */
  seconds: number
}

const tickMs = 30_000

/** The default rate, a quick platform, and one so quick that the time of a call counts. */
export const paces: readonly Pick<Outage, 'maxPerSecond' | 'latencyMs' | 'concurrency'>[] = [
  { maxPerSecond: 20, latencyMs: 100, concurrency: 8 },
  { maxPerSecond: 100, latencyMs: 100, concurrency: 8 },
  { maxPerSecond: 2000, latencyMs: 20, concurrency: 64 },
]

/** Ticks every half minute until all is seen to be recovered. */
export async function costOf(outage: Outage): Promise<Cost> {
  const { delivered = [], deliveryMs, failed, subscriptions = 1, ...pace } = outage
  const records = failed.map((eventLocal, index) =>
    failedRecord({ eventLocal, subscriptionId: `subscription-${index % subscriptions}` }),
  )
  const others = delivered.map((eventLocal) => failedRecord({ eventLocal, status: 'successful' }))
  await using world = reconcile({
    latencyMs: 100,
    maxPerSecond: 20,
    ...pace,
    records: [...records, ...others],
    circuit: { enabled: true },
    deliver: () => ({ afterMs: deliveryMs, code: 200 }),
  })
  const { clock, events, platform, sweeper } = world
  const startedAt = clock.monotonic()
  void world.start()
  let recovered = 0
  for (let seen = 0; recovered < records.length;) {
    if (clock.monotonic() - startedAt > dayMs) throw new Error('not recovered within a day')
    if ((clock.monotonic() - startedAt) % tickMs === 0) sweeper.tick()
    await clock.advance(secondMs)
    for (; seen < events.length; seen += 1) {
      const event = events[seen]
      if (event?.type === 'outcome' && event.outcome === 'recovered') recovered += 1
    }
  }
  const retry = platform.retries.length
  const confirm = platform.lists.filter(({ purpose }) => purpose === 'confirm').length
  const list = platform.lists.length - confirm
  const seconds = (clock.monotonic() - startedAt) / 1000
  return { retry, list, confirm, perRecord: (retry + list + confirm) / records.length, seconds }
}

const begin = testNow - dayMs

/** That many events, evenly over a time, all in the past. */
export function evenly(count: number, overMs: number, from = begin): number[] {
  return Array.from({ length: count }, (_, index) => from + Math.floor((index * overMs) / count))
}

/** Batches of events in one second each, `everyMs` apart. */
export function batches(count: number, size: number, everyMs: number): number[] {
  return Array.from({ length: count * size }, (_, index) => begin + Math.floor(index / size) * everyMs)
}
