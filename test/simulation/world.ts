// The moments at which the world of a scenario changes.
import { soundAtOf, type Scenario } from './scenario.ts'

/** Moments at which something else begins or ends, ms since the start, in order. */
export function changesOf(scenario: Scenario): readonly number[] {
  const { calmAt, certificates, faults, jumps, keys, others, pauses, platformJumps, receivers, records, revocations } =
    scenario
  const spans = [...faults, ...pauses, ...receivers.flatMap(({ outages }) => outages)]
  const moments = [...certificates, ...jumps, ...keys.file, ...keys.registered, ...others, ...platformJumps, ...records]
  const times = [
    ...spans.flatMap(({ from, to }) => [from, to]),
    ...moments.map(({ at }) => at),
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
