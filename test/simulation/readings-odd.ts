// What platforms, identity hosts and operators do that is odd, and that no specification forbids. @see readings.ts
import { dayMs, minuteMs, secondMs, type Draw } from './draw.ts'
import type { FaultWindow } from './fault-kinds.ts'
import { withHabits, type Scenario } from './scenario.ts'

/** The seconds of some records can't be listed for long; of some, only what is in one status. */
function badSeconds(draw: Draw, scenario: Scenario): Scenario {
  const { calmAt: to, faults, records } = scenario
  const of = draw.pick(['processing', 'failed', undefined] as const)
  const bad = records.slice(0, draw.within(1, 5)).map(({ at: eventAt }): FaultWindow => {
    const window = {
      from: draw.pick([0, draw.below(to)]),
      to,
      kind: 'bad-span',
      share: 1,
      on: 'list',
      eventAt,
    } as const
    return { ...window, status: draw.pick([400, 500, 500, 504]), ...(of !== undefined && { of }) }
  })
  return { ...scenario, faults: [...faults, ...bad] }
}

/** During outages an operator pauses a subscription, has circuits probed, and asks for records by ids, or of before the window. */
function operatorActs(draw: Draw, scenario: Scenario): Scenario {
  const { calmAt, jobs, pauses, subscriptions } = scenario
  const at = (): number => draw.within(1, calmAt)
  const from = at()
  const to = Math.min(calmAt, from + draw.within(secondMs, 20 * minuteMs))
  const job = (): Scenario['jobs'][number] => ({
    ...{ at: at(), sinceMs: draw.within(minuteMs, 30 * dayMs), untilMs: 0, exhausted: draw.chance(0.5) },
    ...{ rate: undefined, cancelAfterMs: undefined, by: draw.pick(['event', 'webhooks', 'age'] as const) },
  })
  return {
    ...scenario,
    pauses: [...pauses, { from, to, subscription: draw.below(subscriptions.length) }],
    probes: Array.from({ length: draw.below(4) }, at),
    jobs: [...jobs, ...Array.from({ length: draw.within(1, 3) }, job)],
  }
}

const emptyLists = ['"data":{}', '"data":{"webhooks":null}', '"data":null'] as const

export const oddReadings = {
  'empty lists have no array': withHabits((draw) => ({ emptyList: draw.pick(emptyLists) })),
  'empty lists are 204': withHabits(() => ({ emptyList: '' })),
  'zeros are omitted': withHabits(() => ({ emptyList: '"data":{}', omitsZeros: true })),
  'numbers as texts': withHabits(() => ({ numbersAsTexts: true })),
  'odd lifetimes of tokens': withHabits((draw) => ({ expiresIn: draw.pick(['300', '', 0]), tokenLifeSeconds: 300 })),
  'lists of years take too long': withHabits(() => ({ hasYears: true })),
  'seconds that fail': badSeconds,
  'an operator acts': operatorActs,
}
