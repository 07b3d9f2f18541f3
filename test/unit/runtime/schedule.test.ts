// The ticks: at once, then those of the cron and no other, for any zone, load and host clock; and none after the end.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { createSchedule, periodOf, type Schedule } from '../../../src/runtime/schedule.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const start = Date.UTC(2026, 0, 15, 12)
const monday = Date.UTC(2026, 0, 19)
const clock = { now: () => Date.now(), monotonic: () => performance.now() }
const halfMinute = '*/30 * * * * *'
const officeHours = '0 */10 8-17 * * 1-5'

beforeEach(() => {
  vi.useFakeTimers({ now: start })
  // As late as chance allows, unless a test says otherwise.
  vi.spyOn(Math, 'random').mockReturnValue(0.999)
})

afterEach(() => {
  // A timer that is left over would hold the process up.
  const left = vi.getTimerCount()
  vi.restoreAllMocks()
  vi.unstubAllGlobals()
  vi.useRealTimers()
  expect(left).toBe(0)
})

interface Running extends AsyncDisposable {
  schedule: Schedule
  /** When it ticked, in seconds since `start`. */
  ticks: number[]
}

async function running(cron: string, timeZone = 'UTC', onTick?: (ticks: number) => void): Promise<Running> {
  const schedule = createSchedule({ cron, timeZone }, clock)
  const ticks: number[] = []
  await schedule.start(() => {
    ticks.push((Date.now() - start) / 1000)
    onTick?.(ticks.length)
  })
  return { schedule, ticks, [Symbol.asyncDispose]: () => schedule.stop() }
}

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms)
}

describe('ticks', () => {
  /** In seconds: as late as chance allows, which is a tenth of the period, and a minute at most. */
  test.each([
    [halfMinute, 95_000, [0, 33, 63, 93]],
    ['0 0 * * * *', hourMs + 59_950, [0, 3659.9]],
  ])('of %s come at once, then as scheduled', async (cron, ms, expected) => {
    await using under = await running(cron)
    await pass(ms)
    expect(under.ticks.map((tick) => Math.round(10 * tick) / 10)).toEqual(expected)
  })

  test('close together keep their order and their number, however uneven the schedule; none comes after the end', async () => {
    const under = await running('0,1,2 0 * * * *')
    // The last is only waiting for its chance.
    await pass(3 * hourMs + 2_050)
    expect(under.ticks).toHaveLength(1 + 2 + 3 * 3 - 1)
    expect(under.ticks).toEqual(under.ticks.toSorted((a, b) => a - b))
    const { length } = under.ticks
    await under.schedule.stop()
    expect(vi.getTimerCount()).toBe(0)
    await pass(hourMs)
    expect(under.ticks).toHaveLength(length)
  })

  test.each([
    [halfMinute, 240],
    ['0 */5 * * * *', 24],
  ])('go on while the clocks change in autumn: %s', async (cron, expected) => {
    vi.setSystemTime(Date.UTC(2026, 9, 25, 0, 30))
    await using under = await running(cron, 'Europe/Berlin')
    await pass(2 * hourMs)
    expect(under.ticks.length).toBeGreaterThanOrEqual(expected)
  })

  test('that throw are bugs that end the process: neither swallowed nor printed', async () => {
    const thrown: unknown[] = []
    vi.stubGlobal('queueMicrotask', (act: () => void) => {
      try {
        act()
      } catch (error) {
        thrown.push(error)
      }
    })
    const printed = vi.spyOn(console, 'error').mockReturnValue(undefined)
    const bug = new Error('bug')
    await using under = await running(halfMinute, 'UTC', (count) => {
      if (count === 2) throw bug
    })
    await pass(95_000)
    expect(thrown).toEqual([bug])
    expect(printed).not.toHaveBeenCalled()
    expect(under.ticks).toHaveLength(4)
  })

  test('of office hours come in them only, all of the week, and none is late', async () => {
    vi.setSystemTime(monday + 17 * hourMs + 40 * minuteMs + 1)
    await using under = await running(officeHours)
    let late = 0
    for (let minute = 0; minute <= 7 * 24 * 60; minute += 1) {
      await pass(minuteMs)
      if (under.schedule.isLate()) late += 1
    }
    const [, ...ticks] = under.ticks.map((seconds) => new Date(start + 1000 * seconds))
    expect(new Set(ticks.map((at) => at.getUTCDay()))).toEqual(new Set([1, 2, 3, 4, 5]))
    expect(new Set(ticks.map((at) => at.getUTCHours()))).toEqual(new Set([8, 9, 10, 11, 12, 13, 14, 15, 16, 17]))
    // Six in an hour, each within its jitter: a tenth of ten minutes.
    expect(ticks.filter((at) => at.getUTCMinutes() % 10 === 0)).toHaveLength(5 * 10 * 6)
    expect([ticks.length, late]).toEqual([5 * 10 * 6, 0])
  })
})

describe('the period is the shortest gap', () => {
  test.each([
    ['* * * * * *', 1],
    [halfMinute, 30],
    ['0 0 3 * * *', 86_400],
    ['0 0,10 * * * *', 10 * 60],
    ['0 0,1,5,10,15,20,25,30,35,40,45,50,55 * * * *', 60],
    [officeHours, 10 * 60],
    ['0 0 0 29 2 *', (4 * 365 + 1) * 86_400],
  ])('%s: %i s, whenever the process starts', (cron, seconds) => {
    for (const hours of [0, 5.75, 22.2, 100]) {
      vi.setSystemTime(start + hours * hourMs)
      expect(periodOf({ cron, timeZone: 'UTC' })).toBe(seconds * 1000)
    }
  })

  test('also when daylight saving skips an hour', () => {
    vi.setSystemTime(Date.UTC(2026, 2, 28, 12))
    expect(periodOf({ cron: '0 0 12 * * *', timeZone: 'Europe/Berlin' })).toBe(86_400_000)
  })
})

describe('the next tick', () => {
  test('is not known before the start, nor late, and not after the end', async () => {
    const schedule = createSchedule({ cron: halfMinute, timeZone: 'UTC' }, clock)
    vi.advanceTimersByTime(10 * minuteMs)
    expect([schedule.nextAt(), schedule.isLate()]).toEqual([undefined, false])
    vi.setSystemTime(start)
    await schedule.start(() => undefined)
    expect(schedule.nextAt()).toBe(start + 30_000)
    await pass(31_000)
    expect(schedule.nextAt()).toBe(start + 60_000)
    await schedule.stop()
    expect(schedule.nextAt()).toBeUndefined()
  })

  test.each([
    ['the hour', '0 0 3 * * *', 'America/New_York', Date.UTC(2026, 0, 16, 8)],
    ['the minute, where that is half an hour off', '0 0 * * * *', 'Asia/Kolkata', start + 30 * minuteMs],
  ])('goes by %s of the zone', async (_name, cron, timeZone, expected) => {
    await using under = await running(cron, timeZone)
    expect(under.schedule.nextAt()).toBe(expected)
  })
})

test('the end may come twice, before the start, and from within a tick', async () => {
  const schedule = createSchedule({ cron: halfMinute, timeZone: 'UTC' }, clock)
  await schedule.stop()
  await schedule.stop()
  const onTick = vi.fn()
  await schedule.start(onTick)
  await pass(minuteMs)
  expect(onTick).not.toHaveBeenCalled()
  const under = await running(halfMinute, 'UTC', (count) => {
    if (count === 2) void under.schedule.stop()
  })
  await pass(5 * minuteMs)
  expect(under.ticks).toHaveLength(2)
})

describe('a tick is late', () => {
  test('two minutes after its moment on the monotonic clock, when the host’s clock was set back', async () => {
    vi.setSystemTime(monday + 9 * hourMs)
    await using under = await running(officeHours)
    vi.setSystemTime(monday + 8 * hourMs)
    await pass(12 * minuteMs)
    expect(under.schedule.isLate()).toBe(false)
    await pass(1)
    expect(under.schedule.isLate()).toBe(true)
    expect(under.ticks).toHaveLength(1)
    // Without a restart it ends by itself when the hour is over.
    await pass(hourMs)
    expect(under.ticks.length).toBeGreaterThan(1)
    expect(under.schedule.isLate()).toBe(false)
  })

  test('not when the host’s clock was set forward: the tick that was missed comes at once', async () => {
    vi.setSystemTime(monday + 9 * hourMs)
    await using under = await running(officeHours)
    vi.setSystemTime(monday + 13 * hourMs + 5 * minuteMs)
    await pass(10 * minuteMs)
    expect(under.ticks).toHaveLength(2)
    expect(under.schedule.isLate()).toBe(false)
  })
})

test.each(['0 0 0 L-30 2 *', '0 0 0 1 1 1#5', 'nonsense', '0 0 0 30 2 *'])(
  'a cron that never comes is refused: %s',
  (cron) => {
    const create = (): unknown => createSchedule({ cron, timeZone: 'UTC' }, clock)
    expect(create).toThrow(ConfigurationError)
    expect(create).toThrow(/schedule\.cron.*never/)
  },
)
