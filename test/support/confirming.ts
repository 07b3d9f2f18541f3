// What the tests of confirming share: records that are due, events of others, and the wait until all are seen to have arrived.
import { expect } from 'vitest'
import type { WebhookRecord } from '../../src/platform/record.ts'
import { dayMs, minuteMs, testNow } from './backlog.ts'
import { failedRecord } from './fake-platform.ts'
import type { ReconcileOptions } from './reconcile.ts'
import { holdingUnder, outcomesOf, type SkyCall, type SkyOptions, type World } from './sky.ts'

/** Everything goes out at once: these tests are about looks, not about the allowance. */
export const atOnce: ReconcileOptions = { circuit: { enabled: false } }

/** No outcome ever comes. */
export const never = (): undefined => undefined
export const isConfirm = ({ kind }: SkyCall): boolean => kind === 'confirm'

/** Records that are due, one every `everyMs`, the first of them a day old. */
export function records(count: number, everyMs: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    failedRecord({ eventLocal: testNow - dayMs + index * everyMs, ...fields }),
  )
}

/** Events of others, one every `everyMs`, from before the first of ours on. */
export function others(count: number, everyMs: number): number[] {
  return Array.from({ length: count }, (_, index) => testNow - dayMs - minuteMs + index * everyMs)
}

/** Every `recovered` that was reported is true. */
export function expectTruth(world: World): void {
  for (const fact of world.facts) {
    if (fact.type === 'outcome' && fact.outcome === 'recovered') {
      expect(world.sky.shown(fact.id).status).toBe('successful')
    }
  }
}

/** Retries them, and expects all of them to be seen as recovered within a time. Gives the calls of confirming. */
export async function expectRecovered(
  options: SkyOptions,
  withinMs: number,
  more: ReconcileOptions = atOnce,
): Promise<number> {
  await using world = holdingUnder(options, more)
  void world.start()
  await world.clock.advance(withinMs)
  expectTruth(world)
  expect(outcomesOf(world)).toEqual({ recovered: options.records.length })
  expect(world.backlog.outcomes.pending().size).toBe(0)
  return world.sky.counts().confirm
}

/** Starts retries and looks, and gives what ends the looks. */
export function startLooking(world: World): Promise<unknown> {
  const { kill, stop } = world
  void world.retry({ stop: stop.signal, kill: kill.signal }).catch(() => undefined)
  return world.confirm(stop.signal).catch((error: unknown) => error)
}
