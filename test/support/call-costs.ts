// How many calls a recovery takes: a whole outage recovered in virtual time by sweeps, retries and looks.
import type { WebhookRecord } from '../../src/platform/record.ts'
import { dayMs, secondMs, testNow } from './backlog.ts'
import { failedRecord } from './fake-platform.ts'
import { outcomesOf, under, after } from './sky.ts'

export interface Outage {
  /** Event times of what failed, local ms. */
  failed: readonly number[]
  /** Event times of what was delivered between. */
  delivered?: readonly number[]
  /** Time of one delivery. */
  deliveryMs: number
  /** Default 20 calls a second, 8 retries in flight, 100 ms a call. */
  maxPerSecond?: number
  concurrency?: number
  latencyMs?: number
  /** More than one subscription takes turns. Default 1. */
  subscriptions?: number
}

export interface Cost {
  records: number
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
  const { concurrency = 8, deliveryMs, latencyMs = 100, maxPerSecond = 20, subscriptions = 1 } = outage
  const records: WebhookRecord[] = outage.failed.map((eventLocal, index) =>
    failedRecord({
      eventLocal,
      subscriptionId: `aaaaaaaa-0000-4000-8000-${String(index % subscriptions).padStart(12, '0')}`,
    }),
  )
  await using world = under(
    {
      records,
      latencyMs,
      deliver: after(deliveryMs),
      ...(outage.delivered !== undefined && { delivered: outage.delivered }),
    },
    { maxPerSecond, concurrency },
  )
  const startedAt = world.clock.monotonic()
  void world.start()
  while ((outcomesOf(world)['recovered'] ?? 0) < records.length) {
    if (world.clock.monotonic() - startedAt > dayMs) throw new Error('not recovered within a day')
    if ((world.clock.monotonic() - startedAt) % tickMs === 0) world.sweeper.tick()
    await world.clock.advance(secondMs)
  }
  const { confirm, list, retry } = world.sky.counts()
  const seconds = (world.clock.monotonic() - startedAt) / 1000
  return {
    records: records.length,
    retry,
    list,
    confirm,
    perRecord: (retry + list + confirm) / records.length,
    seconds,
  }
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
