// Draws the records of a scenario: those that were there before, and those that come.
import { dayMs, few, hourMs, minuteMs, secondMs, type Draw } from './draw.ts'
import { comingRecord, plannedRecord, type PlannedRecord, type RecordKind } from './scenario.ts'
import type { Theme } from './themes.ts'

/** What the platform itself refuses never counts as attempted there: where there is no room to remember it, it starves the rest. */
function kindOf(draw: Draw, odd: number, theme: Theme): RecordKind {
  if (!draw.chance(odd)) return 'plain'
  // A refusal by the receiver leaves the circuit closed: the record has its last chance.
  if (theme === 'expiry') return draw.pick(['unwanted', 'unwanted', 'poison', 'barred', 'missing'])
  return theme === 'narrow'
    ? draw.pick(['poison', 'unwanted'])
    : draw.pick(['poison', 'poison', 'unwanted', 'barred', 'missing'])
}

interface Shape {
  theme: Theme
  subscriptions: number
  lookback: number
  most: number
  /** Of the backlog. */
  places: number
}

/** A dead subscription, the first, with three times as many records as there are places, in front of healthy ones. */
function crowdOf(draw: Draw, { places, subscriptions }: Shape): PlannedRecord[] {
  const healthy = draw.within(3, 2 * places)
  const record = (subscription: number, age: number): PlannedRecord =>
    plannedRecord({
      at: -age,
      subscription,
      attempts: draw.pick([1, 1, 2]),
      lastAttemptAt: -draw.below(Math.min(age, 10 * minuteMs)),
      entity: draw.below(places),
    })
  return [
    ...Array.from({ length: 3 * places }, () => record(0, draw.within(20 * minuteMs, 50 * minuteMs))),
    ...Array.from({ length: healthy }, () =>
      record(draw.within(1, subscriptions - 1), draw.within(2 * minuteMs, 15 * minuteMs)),
    ),
  ]
}

/** At the first second of the newest hour as the first sweeps see it: the older part is listed up to and with it. */
function edgeRecords(): PlannedRecord[] {
  const settles = [0, 5 * secondMs, minuteMs]
  return settles.flatMap((settle) =>
    [1, 2, 3, 4].map((second) =>
      plannedRecord({ at: second * secondMs - settle - hourMs, lastAttemptAt: -hourMs / 2 }),
    ),
  )
}

export function recordsOf(draw: Draw, troubledMs: number, shape: Shape): PlannedRecord[] {
  if (shape.theme === 'crowded') return crowdOf(draw, shape)
  const odd = shape.theme === 'expiry' ? 0.3 : draw.pick([0, 0, 0.03, 0.15])
  const spread =
    shape.theme === 'expiry' ? shape.lookback : draw.pick([10 * secondMs, 10 * minuteMs, 6 * hourMs, 3 * dayMs])
  const before = draw.within(shape.theme === 'long-lists' ? 120 : 1, shape.most)
  const after = draw.chance(0.6) ? draw.within(0, Math.floor(shape.most / 2)) : 0
  const entities = draw.within(1, before)
  const common = (): Pick<PlannedRecord, 'subscription' | 'kind' | 'entity' | 'eventType'> => ({
    subscription: few(draw, shape.subscriptions - 1),
    kind: kindOf(draw, odd, shape.theme),
    entity: draw.below(entities),
    eventType: draw.pick(['account-activated', 'account-activated', 'other-type']),
  })
  const old = Array.from({ length: before }, () => {
    const age = Math.min(90 * secondMs + draw.below(spread), shape.lookback + 5 * minuteMs)
    const attempts = draw.pick([1, 1, 1, 2, 4])
    return { ...common(), at: -age, attempts, lastAttemptAt: -draw.below(Math.min(age, 30 * minuteMs)) }
  })
  const coming = Array.from({ length: after }, () => comingRecord({ ...common(), at: draw.below(troubledMs) }))
  return [...old, ...coming, ...(shape.theme === 'long-lists' ? edgeRecords() : [])]
}
