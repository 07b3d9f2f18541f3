// The world of a scenario: all that is around a process of the daemon, its clocks, and the moments at which it changes.
import type { Config } from '../../src/config/schema.ts'
import type { Expectations } from './expectations.ts'
import type { KeyFiles } from './key-files.ts'
import type { SimulatedLedger } from './ledger.ts'
import type { SimulatedPlatform } from './platform.ts'
import { soundAtOf, type Scenario } from './scenario.ts'
import type { Timeline } from './timeline.ts'

export interface World {
  scenario: Scenario
  config: Config
  timeline: Timeline
  platform: SimulatedPlatform
  keyFiles: KeyFiles
  ledger: SimulatedLedger | undefined
  expectations: Expectations
}

/** What the clocks of the daemon's host and of the identity host show now, epoch ms. A suspended host wakes up late by all clocks. */
export function clocksOf(
  { habits, hostAheadMs, jumps, platformJumps, startAt }: Scenario,
  { now }: Timeline,
): Record<'hostNow' | 'identityNow', () => number> {
  const sumOf = (all: Scenario['jumps']): number => all.reduce((sum, { at, ms }) => (at <= now() ? sum + ms : sum), 0)
  const suspends = jumps.filter((jump) => platformJumps.includes(jump))
  return {
    hostNow: () => startAt + now() + hostAheadMs + sumOf(jumps),
    identityNow: () => startAt + now() + habits.identityAheadMs + sumOf(suspends),
  }
}

/** Moments at which something else begins or ends, ms since the start, in order. */
export function changesOf(scenario: Scenario): readonly number[] {
  const { calmAt, certificates, faults, jumps, keys, others, pauses, platformJumps, receivers, records, revocations } =
    scenario
  const spans = [...faults, ...pauses, ...receivers.flatMap(({ outages }) => outages)]
  const moments = [...certificates, ...jumps, ...keys.file, ...keys.registered, ...others, ...platformJumps, ...records]
  const times = [
    ...spans.flatMap(({ from, to }) => [from, to]),
    ...moments.map(({ at }) => at),
    // Events that a clock put back lie ahead of come one after the other.
    ...platformJumps.filter(({ ms }) => ms < 0).flatMap(({ ms }) => records.map(({ at }) => at - ms)),
    ...revocations,
    calmAt,
    soundAtOf(scenario),
  ]
  return [...new Set(times.filter((at) => at >= 0))].sort((a, b) => a - b)
}

/** Since when the world is as it is, ms since the start. */
export function changedBefore(changes: readonly number[], now: number): number {
  return changes.findLast((at) => at <= now) ?? 0
}

/** When it changes next; Infinity when it does not. */
export function changesAfter(changes: readonly number[], now: number): number {
  return changes.find((at) => at > now) ?? Infinity
}
