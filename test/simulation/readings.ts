// What a platform, its gateway, identity host, receiver or host may be like, beyond what generate.ts draws: each kind by a stream of its own, so that none changes what a seed draws of the others.
import { dayMs, drawOf, hourMs, minuteMs, secondMs, type Draw } from './draw.ts'
import { listingReadings } from './readings-listing.ts'
import type { Scenario } from './scenario.ts'

/** Changes a scenario as it was drawn; undefined where the two can't be told apart. */
type Reading = (draw: Draw, scenario: Scenario) => Scenario | undefined

const yearMs = 365 * dayMs

/** A board without a battery, or a virtual machine whose host is wrong: the host's clock is days or years off, for a moment or for good. */
function clockFarOff(draw: Draw, scenario: Scenario): Scenario {
  const { calmAt, jumps, startAt } = scenario
  const ms = draw.pick([-1, 1, 10]) * draw.within(1, 30) * dayMs + draw.pick([0, 0, 10 * yearMs, hourMs - startAt])
  const at = draw.within(1, calmAt)
  const back = { at: at + draw.pick([9 * secondMs, draw.within(secondMs, 5 * minuteMs)]), ms: -ms }
  return { ...scenario, jumps: [...jumps, { at, ms }, ...(draw.chance(0.7) ? [back] : [])] }
}

/** Hours that daylight saving repeats, or skips, in a schedule that names hours: all of them, so that the period is what it was. */
function hourFields(draw: Draw, { env, ...scenario }: Scenario): Scenario {
  const [seconds, minutes] = scenario.periodMs < minuteMs ? [`*/${scenario.periodMs / secondMs}`, '*'] : ['0', '*']
  const timeZone = draw.pick(['Europe/Berlin', 'Europe/Berlin', 'Australia/Lord_Howe', 'America/St_Johns'])
  const cron = `${seconds} ${minutes} 0-23 * * 0-6`
  return { ...scenario, env: { ...env, RECONCILER_SCHEDULE_CRON: cron, RECONCILER_SCHEDULE_TIME_ZONE: timeZone } }
}

/** Each with its share of the seeds; a scenario may have several. */
const readings: Readonly<Record<string, { share: number; change: Reading }>> = {
  'host clock far off': { share: 0.08, change: clockFarOff },
  ...listingReadings,
  'schedule with hours': { share: 0.08, change: hourFields },
}

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
