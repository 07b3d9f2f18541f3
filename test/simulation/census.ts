// What was drawn and exercised over many seeds: how often each habit, fault and promise came.
import { faultKinds } from './fault-kinds.ts'
import { readingNames } from './readings.ts'
import type { Scenario } from './scenario.ts'
import type { Simulated } from './simulate.ts'
import { exemptions, promises } from './tally.ts'

/** Share of a promise's looks that one exemption may hide. */
const maxHidden = 1 / 3

interface Seen {
  seeds: number
  times: number
}

export interface Census {
  add(scenario: Scenario, simulated: Simulated): void
  /** One line for each. */
  lines(): string[]
  /** Faults that were never drawn, promises that could never have been broken, and exemptions that hide too much. */
  missing(): string[]
}

/** What a scenario has, each with how often. */
function drawnIn(scenario: Scenario): [what: string, times: number][] {
  const { faults, jobs, jumps, keys, lives, others, pauses, platformJumps, readings, receivers, revocations, theme } =
    scenario
  const outages = receivers.flatMap((receiver) => receiver.outages)
  return [
    [`theme ${theme}`, 1],
    ...faults.map(({ kind }): [string, number] => [`fault ${kind}`, 1]),
    ...readings.map((name): [string, number] => [`reading ${name}`, 1]),
    ...outages.map(({ how }): [string, number] => [`outage ${how}`, 1]),
    ...lives.map(({ how }): [string, number] => [`end by ${how}`, 1]),
    ['clock of the host is set', jumps.length],
    ['clock of the platform is set', platformJumps.length],
    ['key changes', keys.file.length],
    ['another client retries', others.length],
    ['operator pauses', pauses.length],
    ['retry jobs', jobs.length],
    ['tokens are revoked', revocations.length],
  ]
}

export function createCensus(): Census {
  const drawn = new Map<string, Seen>()
  const exercised = new Map<string, Seen>(promises.map((promise) => [promise, { seeds: 0, times: 0 }]))
  for (const kind of faultKinds) drawn.set(`fault ${kind}`, { seeds: 0, times: 0 })
  for (const name of readingNames) drawn.set(`reading ${name}`, { seeds: 0, times: 0 })

  function count(into: Map<string, Seen>, found: ReadonlyMap<string, number>): void {
    for (const [what, times] of found) {
      if (times === 0) continue
      const before = into.get(what) ?? { seeds: 0, times: 0 }
      into.set(what, { seeds: before.seeds + 1, times: before.times + times })
    }
  }

  const exempted = new Map<string, string>(Object.entries(exemptions))
  function line([what, { seeds, times }]: [string, Seen]): string {
    const promise = exempted.get(what)
    return `${promise === undefined ? what : `${promise} (exempt: ${what})`}: ${seeds} seeds, ${times} times`
  }

  /** Of what an exemption hides, if that is too much. */
  function hiddenBy(exemption: string, promise: string): string[] {
    const [hidden, seen] = [exemption, promise].map((what) => exercised.get(what)?.times ?? 0)
    const share = (hidden ?? 0) / ((hidden ?? 0) + (seen ?? 0))
    return share > maxHidden ? [`${promise}: exempt in ${Math.round(100 * share)} %, as ${exemption}`] : []
  }

  return {
    add(scenario, simulated) {
      const found = new Map<string, number>()
      for (const [what, times] of drawnIn(scenario)) found.set(what, (found.get(what) ?? 0) + times)
      count(drawn, found)
      count(exercised, simulated.exercised)
    },
    lines: () => [drawn, exercised].flatMap((all) => [...all].map(line).sort((a, b) => a.localeCompare(b))),
    missing: () => [
      ...[drawn, exercised].flatMap((all) => [...all].filter(([, { times }]) => times === 0).map(([what]) => what)),
      ...[...exempted].flatMap(([exemption, promise]) => hiddenBy(exemption, promise)),
    ],
  }
}
