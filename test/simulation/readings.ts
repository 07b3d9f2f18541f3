// What a platform, its gateway, identity host, receiver or host may be like, beyond what generate.ts draws: each kind by a stream of its own, so that none changes what a seed draws of the others.
import { drawOf, type Draw } from './draw.ts'
import type { Scenario } from './scenario.ts'

/** Changes a scenario as it was drawn; undefined where the two can't be told apart. */
type Reading = (draw: Draw, scenario: Scenario) => Scenario | undefined

/** Each with its share of the seeds; a scenario may have several. */
const readings: Readonly<Record<string, { share: number; change: Reading }>> = {}

/** Each makes a scenario of its own, in which a promise of its own is put to the test: at most one, and nothing else. */
const stages: Readonly<Record<string, Reading>> = {}
/** Share of the seeds of each stage. */
const stageShare = 0.01

export const readingNames: readonly string[] = [...Object.keys(readings), ...Object.keys(stages)]

export function withReadings(scenario: Scenario): Scenario {
  const { seed } = scenario
  const apply = (to: Scenario, name: string, change: Reading, draw: Draw): Scenario => {
    const changed = change(draw, to)
    return changed === undefined ? to : { ...changed, readings: [...to.readings, name] }
  }
  for (const [name, change] of Object.entries(stages)) {
    const draw = drawOf(seed, name)
    if (draw.chance(stageShare)) return apply(scenario, name, change, draw)
  }
  return Object.entries(readings).reduce((to, [name, { share, change }]) => {
    const draw = drawOf(seed, name)
    return draw.chance(share) ? apply(to, name, change, draw) : to
  }, scenario)
}
