// The ticks: at once, then by cron, for any zone, load and host clock; and none after the end.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { createSchedule, periodOf, type Schedule } from '../../../src/runtime/schedule.ts'

const start = Date.UTC(2026, 0, 15, 12)
const clock = { now: () => Date.now(), monotonic: () => performance.now() }
const halfMinute = '*/30 * * * * *'

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

async function running(cron: string, timeZone = 'UTC', onTick = (): void => undefined): Promise<Running> {
  const schedule = createSchedule({ cron, timeZone }, clock)
  const ticks: number[] = []
  await schedule.start(() => {
    ticks.push((Date.now() - start) / 1000)
    onTick()
  })
  return { schedule, ticks, [Symbol.asyncDispose]: () => schedule.stop() }
}

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms)
}

describe('ticks', () => {
  test('one at once, then as scheduled, late by less than a tenth of the period', async () => {
    await using under = await running(halfMinute)
    expect(under.ticks).toEqual([0])
    await pass(95_000)
    expect(under.ticks).toHaveLength(4)
    for (const [index, tick] of under.ticks.entries()) {
      expect(tick).toBeGreaterThanOrEqual(30 * index)
      expect(tick).toBeLessThan(30 * index + 3)
    }
    expect(under.ticks.at(-1)).toBeGreaterThan(92.9)
  })

  test('exactly on time when chance says so', async () => {
    vi.mocked(Math.random).mockReturnValue(0)
    await using under = await running(halfMinute)
    await pass(90_000)
    expect(under.ticks).toEqual([0, 30, 60, 90])
  })

  test('of a rare schedule are late by a minute at most', async () => {
    await using under = await running('0 0 * * * *')
    await pass(3_600_000 + 59_950)
    expect(under.ticks).toHaveLength(2)
    expect(under.ticks[1]).toBeGreaterThan(3_600 + 59)
  })

  test('close together keep their order and their number, however uneven the schedule', async () => {
    await using under = await running('0,1,2 0 * * * *')
    const hours = 3
    await pass(hours * 3_600_000 + 120_000)
    expect(under.ticks).toHaveLength(1 + 3 * hours + 2)
    expect(under.ticks).toEqual(under.ticks.toSorted((a, b) => a - b))
  })

  test('that a busy process missed come late: one for all of them', async () => {
    await using under = await running(halfMinute)
    // The event loop stood still, or the host was suspended.
    vi.setSystemTime(start + 3 * 3_600_000)
    await pass(31_000)
    expect(under.ticks.length).toBeGreaterThanOrEqual(2)
    expect(under.ticks.length).toBeLessThanOrEqual(3)
    await pass(60_000)
    expect(under.ticks.length).toBeLessThanOrEqual(5)
  })
})

describe('the period is the shortest gap', () => {
  test.each([
    ['* * * * * *', 1],
    [halfMinute, 30],
    ['0 */5 * * * *', 300],
    ['0 0 3 * * *', 86_400],
    ['0 0,10 * * * *', 10 * 60],
    ['0 0,1,5,10,15,20,25,30,35,40,45,50,55 * * * *', 60],
    ['0 */10 8-17 * * 1-5', 10 * 60],
  ])('%s: %i s, whenever the process starts', (cron, seconds) => {
    for (const hours of [0, 5.75, 22.2, 100]) {
      vi.setSystemTime(start + hours * 3_600_000)
      expect(periodOf({ cron, timeZone: 'UTC' })).toBe(seconds * 1000)
    }
  })

  test('also when four years are the shortest', () => {
    expect(periodOf({ cron: '0 0 0 29 2 *', timeZone: 'UTC' })).toBe((4 * 365 + 1) * 86_400_000)
  })

  test('also when daylight saving skips an hour', () => {
    vi.setSystemTime(Date.UTC(2026, 2, 28, 12))
    expect(periodOf({ cron: '0 0 12 * * *', timeZone: 'Europe/Berlin' })).toBe(86_400_000)
  })
})

describe('nextAt', () => {
  test('is not known before the start, nor after the end', async () => {
    const schedule = createSchedule({ cron: halfMinute, timeZone: 'UTC' }, clock)
    expect(schedule.nextAt()).toBeUndefined()
    await schedule.start(() => undefined)
    expect(schedule.nextAt()).toBe(start + 30_000)
    await pass(31_000)
    expect(schedule.nextAt()).toBe(start + 60_000)
    await schedule.stop()
    expect(schedule.nextAt()).toBeUndefined()
  })

  test('goes by the zone', async () => {
    await using under = await running('0 0 3 * * *', 'America/New_York')
    expect(under.schedule.nextAt()).toBe(Date.UTC(2026, 0, 16, 8))
  })
})

describe('the end', () => {
  test('comes at once: no tick after it, not even one that was only waiting for its chance', async () => {
    const under = await running('0,1,2 0 * * * *')
    await pass(3_600_000 + 2_500)
    const { length } = under.ticks
    await under.schedule.stop()
    expect(vi.getTimerCount()).toBe(0)
    await pass(3_600_000)
    expect(under.ticks).toHaveLength(length)
  })

  test('may come twice, and before the start', async () => {
    const schedule = createSchedule({ cron: halfMinute, timeZone: 'UTC' }, clock)
    await schedule.stop()
    await schedule.stop()
    let ticks = 0
    await schedule.start(() => {
      ticks += 1
    })
    await pass(60_000)
    expect(ticks).toBe(0)
  })

  test('from within a tick', async () => {
    const schedule = createSchedule({ cron: halfMinute, timeZone: 'UTC' }, clock)
    let ticks = 0
    await schedule.start(() => {
      ticks += 1
      if (ticks === 2) void schedule.stop()
    })
    await pass(300_000)
    expect(ticks).toBe(2)
  })
})

describe('when the clocks are put back or forward', () => {
  test.each([
    ['Europe/Berlin', Date.UTC(2026, 9, 25, 0, 30)],
    ['Europe/Berlin', Date.UTC(2026, 2, 29, 0, 30)],
    ['America/New_York', Date.UTC(2026, 10, 1, 5, 30)],
    ['Australia/Lord_Howe', Date.UTC(2026, 3, 4, 14, 30)],
    ['Antarctica/Troll', Date.UTC(2026, 9, 25, 0, 0)],
    ['Asia/Kolkata', Date.UTC(2026, 9, 25, 0, 0)],
  ])('in %s it goes on twice a minute', async (timeZone, from) => {
    vi.setSystemTime(from)
    await using under = await running(halfMinute, timeZone)
    await pass(3 * 3_600_000)
    expect(under.ticks.length).toBeGreaterThanOrEqual(359)
  })

  test('a schedule of every five minutes does not wait for the repeated hour to pass either', async () => {
    vi.setSystemTime(Date.UTC(2026, 9, 25, 0, 30))
    await using under = await running('0 */5 * * * *', 'Europe/Berlin')
    await pass(2 * 3_600_000)
    expect(under.ticks.length).toBeGreaterThanOrEqual(24)
  })

  test('hours of the day are those of the zone', async () => {
    await using under = await running('0 30 3 * * *', 'Europe/Berlin')
    expect(under.schedule.nextAt()).toBe(Date.UTC(2026, 0, 16, 2, 30))
  })

  test('minutes are those of the zone where it is half an hour off', async () => {
    await using under = await running('0 0 * * * *', 'Asia/Kolkata')
    expect(under.schedule.nextAt()).toBe(start + 30 * 60_000)
  })
})

describe('what goes wrong', () => {
  test.each(['0 0 0 L-30 2 *', '0 0 0 31W 2 *', '0 0 0 1 1 1#5', '0 0 0 15 * 1#5', 'nonsense', '0 0 0 30 2 *'])(
    'a cron that never comes is refused: %s',
    (cron) => {
      expect(() => createSchedule({ cron, timeZone: 'UTC' }, clock)).toThrow(ConfigurationError)
      expect(() => createSchedule({ cron, timeZone: 'UTC' }, clock)).toThrow(/schedule\.cron.*never/)
    },
  )

  test('a tick that throws is a bug that ends the process: neither swallowed nor printed', async () => {
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
    let ticks = 0
    await using under = await running(halfMinute, 'UTC', () => {
      ticks += 1
      if (ticks === 2) throw bug
    })
    await pass(95_000)
    expect(thrown).toEqual([bug])
    expect(printed).not.toHaveBeenCalled()
    expect(under.ticks).toHaveLength(4)
  })
})
