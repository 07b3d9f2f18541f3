// The ticks are those of the cron and no other, and one that does not come in time is late.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createSchedule, type Schedule } from '../../../src/runtime/schedule.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const officeHours = '0 */10 8-17 * * 1-5'
const monday = Date.UTC(2026, 0, 19)

beforeEach(() => {
  vi.useFakeTimers({ now: monday })
  vi.spyOn(Math, 'random').mockReturnValue(0.5)
})

afterEach(() => {
  const left = vi.getTimerCount()
  vi.restoreAllMocks()
  vi.useRealTimers()
  expect(left).toBe(0)
})

const clock = { now: () => Date.now(), monotonic: () => performance.now() }

interface Running extends AsyncDisposable {
  schedule: Schedule
  /** When it ticked, in epoch ms. */
  ticks: number[]
}

async function running(cron: string, timeZone = 'UTC'): Promise<Running> {
  const schedule = createSchedule({ cron, timeZone }, clock)
  const ticks: number[] = []
  await schedule.start(() => {
    ticks.push(Date.now())
  })
  return { schedule, ticks, [Symbol.asyncDispose]: () => schedule.stop() }
}

/** All moments of the office hours in a week from `from` on. */
function officeMoments(from: number): number[] {
  const moments: number[] = []
  for (let at = from; at < from + 7 * 24 * hourMs; at += 10 * minuteMs) {
    const date = new Date(at)
    const [day, hour] = [date.getUTCDay(), date.getUTCHours()]
    if (day >= 1 && day <= 5 && hour >= 8 && hour < 18) moments.push(at)
  }
  return moments
}

describe('a schedule for office hours ticks in them only, all of the week', () => {
  test.each([
    ['Monday morning', monday + 8 * hourMs],
    ['Monday afternoon', monday + 17 * hourMs + 40 * minuteMs],
    ['Friday night', monday + (4 * 24 + 22) * hourMs],
  ])('started on %s', async (_name, from) => {
    vi.setSystemTime(from + 1)
    await using under = await running(officeHours)
    const late = new Set<boolean>()
    for (let minute = 0; minute < 7 * 24 * 60; minute += 1) {
      await vi.advanceTimersByTimeAsync(minuteMs)
      late.add(under.schedule.isLate())
    }
    const [atStart, ...ticks] = under.ticks
    expect(atStart).toBe(from + 1)
    // Each comes within its jitter: a tenth of ten minutes.
    expect(ticks.map((at) => Math.floor(at / (10 * minuteMs)) * 10 * minuteMs)).toEqual(
      officeMoments(from).filter((at) => at > from),
    )
    expect(Math.max(...ticks.map((at) => at % (10 * minuteMs)))).toBeLessThanOrEqual(minuteMs)
    expect([...late]).toEqual([false])
  })
})

describe('a tick is late', () => {
  test('two minutes after its moment on the monotonic clock, when the host’s clock was set back', async () => {
    vi.setSystemTime(monday + 9 * hourMs)
    await using under = await running(officeHours)
    vi.setSystemTime(monday + 8 * hourMs)
    await vi.advanceTimersByTimeAsync(12 * minuteMs)
    expect(under.schedule.isLate()).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    expect(under.schedule.isLate()).toBe(true)
    expect(under.ticks).toHaveLength(1)
    // Without a restart it ends by itself when the hour is over.
    await vi.advanceTimersByTimeAsync(hourMs)
    expect(under.ticks.length).toBeGreaterThan(1)
    expect(under.schedule.isLate()).toBe(false)
  })

  test('not when the host’s clock was set forward: the tick that was missed comes at once', async () => {
    vi.setSystemTime(monday + 9 * hourMs)
    await using under = await running(officeHours)
    vi.setSystemTime(monday + 13 * hourMs + 5 * minuteMs)
    await vi.advanceTimersByTimeAsync(10 * minuteMs)
    expect(under.ticks).toHaveLength(2)
    expect(under.schedule.isLate()).toBe(false)
  })

  test('not before the start', () => {
    const schedule = createSchedule({ cron: officeHours, timeZone: 'UTC' }, clock)
    vi.advanceTimersByTime(7 * 24 * hourMs)
    expect(schedule.isLate()).toBe(false)
  })
})
