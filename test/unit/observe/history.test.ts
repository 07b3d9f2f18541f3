// The last day: what was counted stands in its minute, nothing grows, and the pace is that of the present.
import { describe, expect, test } from 'vitest'
import { createHistory } from '../../../src/observe/history.ts'
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import type { Outcome } from '../../../src/reconcile/confirm/evidence.ts'
import { everyFact, outcomeFact } from '../../support/facts.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const minuteMs = 60_000
/** Half a minute into a minute. */
const start = Date.UTC(2026, 0, 15, 12, 0, 30)

function scene() {
  const clock = createVirtualClock(start)
  const state = { missing: null as number | null, circuits: 0, paused: false, gates: [] }
  let asked = 0
  const history = createHistory({
    clock,
    missing: () => state.missing,
    state: () => {
      asked += 1
      return { ...state }
    },
  })
  return {
    ...{ clock, history },
    asked: () => asked,
    is(changes: Partial<typeof state>, fact: TelemetryEvent = everyFact.sweep) {
      Object.assign(state, changes)
      history.note(fact)
    },
    tell(outcome: Outcome, times = 1) {
      for (let i = 0; i < times; i += 1) history.note(outcomeFact({ outcome }))
    },
  }
}

test('minutes of the wall clock since the start, the last one under way, at most 60; nothing is known at first', async () => {
  const { clock, history } = scene()
  expect(history.steps()).toEqual([
    { at: new Date(start - 30_000), missing: null, recovered: 0, circuits: 0, paused: false },
  ])
  await clock.advance(100 * minuteMs)
  const minutes = history.steps()
  expect(minutes).toHaveLength(60)
  expect(minutes[0]?.at).toEqual(new Date(start - 30_000 + 41 * minuteMs))
})

test('recovered deliveries stand in the minute in which they were seen, for an hour, also when the clock is set', async () => {
  const { clock, history, tell } = scene()
  tell('recovered', 3)
  tell('failed-again')
  await clock.advance(29_999)
  tell('unknown')
  await clock.advance(1)
  tell('recovered')
  expect(history.steps()).toMatchObject([
    { at: new Date(start - 30_000), recovered: 3 },
    { at: new Date(start + 30_000), recovered: 1 },
  ])
  clock.jump(-3 * 3_600_000)
  await clock.advance(58 * minuteMs)
  expect(history.steps()[0]).toMatchObject({ at: new Date(start - 3 * 3_600_000 - 30_000), recovered: 3 })
  await clock.advance(minuteMs)
  expect(history.steps()[0]).toMatchObject({ recovered: 1 })
})

test('circuits that are not closed, and a pause, stand in each minute that began with them', async () => {
  const { clock, history, is } = scene()
  is({ missing: 1 })
  await clock.advance(minuteMs)
  is({ circuits: 2, paused: true })
  await clock.advance(2 * minuteMs)
  is({ circuits: 0, paused: false })
  const shown = history.steps().map(({ circuits, paused }) => `${circuits} ${paused}`)
  expect(shown).toEqual(['0 false', '2 true', '2 true', '0 false'])
})

test('a leap of the monotonic clock over centuries leaves a week', async () => {
  const { clock, history, tell } = scene()
  tell('recovered', 5)
  await clock.advance(500 * 365 * 24 * 60 * minuteMs)
  expect(history.recovered().lastDay).toBe(0)
  expect(history.steps(0)).toHaveLength(120)
})

test('what recovered in the last 24 hours, and when the last one did', async () => {
  const { clock, history, tell } = scene()
  expect(history.recovered()).toEqual({ lastDay: 0, lastAt: undefined })
  tell('recovered', 5)
  await clock.advance(23 * 60 * minuteMs)
  tell('recovered', 2)
  tell('failed-again')
  const lastAt = clock.now()
  await clock.advance(59 * minuteMs)
  expect(history.recovered()).toEqual({ lastDay: 7, lastAt })
  await clock.advance(minuteMs)
  expect(history.recovered()).toEqual({ lastDay: 2, lastAt })
})

test('what was missing stays known until a fact says otherwise, for hours; the present is never old', async () => {
  const { clock, history, is } = scene()
  const shown = (count: number): unknown[] =>
    history
      .steps()
      .slice(-count)
      .map((minute) => minute.missing)
  await clock.advance(minuteMs)
  is({ missing: null })
  is({ missing: 500 })
  await clock.advance(3 * minuteMs)
  is({ missing: 400 })
  is({ missing: 300 })
  expect(shown(5)).toEqual([500, 500, 500, 300])
  await clock.advance(2 * minuteMs)
  expect(shown(3)).toEqual([400, 400, 300])
  await clock.advance(180 * minuteMs)
  expect(new Set(shown(60))).toEqual(new Set([300]))
})

test('minutes begin at second 0, for any fraction of a millisecond between the two clocks', async () => {
  const { clock: whole } = scene()
  let fraction = 0
  const clock = { now: () => whole.now(), monotonic: () => whole.monotonic() + fraction }
  const state = { missing: 0, circuits: 0, paused: false, gates: [] }
  const history = createHistory({ clock, missing: () => 0, state: () => state })
  for (const more of [0.4, 0.9, 0.1]) {
    fraction = more
    await whole.advance(minuteMs)
    expect(history.steps().map(({ at }) => Number(at) % minuteMs)).toEqual(history.steps().map(() => 0))
  }
})

test.each([everyFact.sweep, everyFact.retry])(
  '$type: in the middle of a minute it raises the most that were missing in it',
  async (fact) => {
    const { clock, history, is } = scene()
    is({ missing: 1 })
    is({ missing: 7 }, fact)
    is({ missing: 3 })
    await clock.advance(minuteMs)
    expect(history.steps().map(({ missing }) => missing)).toEqual([7, 3])
  },
)

test('what looks at each subscription is read once a minute alone', async () => {
  const { asked, clock, is, tell } = scene()
  tell('unknown', 10_000)
  for (const fact of [everyFact.retry, everyFact.sweep]) is({}, fact)
  expect(asked()).toBe(1)
  await clock.advance(minuteMs)
  tell('unknown')
  expect(asked()).toBe(2)
})

describe('the pace', () => {
  test.each([
    [5, 4, false],
    [5, 5, true],
    [60, 40, true],
    [40, 60, true],
    [61, 40, false],
    [40, 61, false],
  ])('after %d recoveries in a minute, and %d in the next: steady %s', async (before, now, isSteady) => {
    const { clock, history, tell } = scene()
    await clock.advance(minuteMs / 2)
    tell('recovered', before)
    await clock.advance(minuteMs)
    tell('recovered', now)
    await clock.advance(minuteMs)
    expect(history.pace().isSteady).toBe(isSteady)
  })

  test('is what has arrived in the last minute', async () => {
    const { clock, history, tell } = scene()
    tell('failed-again', 50)
    expect(history.pace().recoveredPerMinute).toBe(0)
    tell('recovered', 10)
    expect(history.pace().recoveredPerMinute).toBe(10)
    for (let second = 0; second < 300; second += 1) {
      await clock.advance(1000)
      tell('recovered')
    }
    expect(history.pace().recoveredPerMinute).toBeCloseTo(60, -1)
    await clock.advance(2 * minuteMs)
    expect(history.pace().recoveredPerMinute).toBe(0)
  })

  test('the share that failed again is of five minutes, or of an hour where a success did not last', async () => {
    const { clock, history, tell } = scene()
    tell('failed-again')
    tell('recovered', 3)
    expect(history.pace().failedShare).toBe(1 / 4)
    await clock.advance(10 * minuteMs)
    expect(history.pace().failedShare).toBe(0)
    history.note(outcomeFact({ outcome: 'failed-again', isRelapse: true }))
    await clock.advance(10 * minuteMs)
    expect(history.pace().failedShare).toBe(2 / 4)
    await clock.advance(60 * minuteMs)
    expect(history.pace().failedShare).toBe(0)
  })
})
