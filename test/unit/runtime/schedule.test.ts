// The ticks: at once, then those of the cron and no other, for any zone, load and host clock, also one that is set; and none after the end.
import { describe, expect, test } from 'vitest'
import { onWallClock } from '../../../src/runtime/clock.ts'
import { createSchedule, gapsOf } from '../../../src/runtime/schedule.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const [secondMs, minuteMs, hourMs, dayMs] = [1000, 60_000, 3_600_000, 86_400_000]
const start = Date.UTC(2026, 0, 15, 12)
const monday = Date.UTC(2026, 0, 19)
const halfMinute = '*/30 * * * * *'
const officeHours = '0 */10 8-17 * * 1-5'

interface Options {
  at?: number
  timeZone?: string
  /** Share of the greatest jitter. */
  jitter?: number
  onTick?: (ticks: number) => void
}

function running(cron: string, { at = start, timeZone = 'UTC', jitter = 0, onTick }: Options = {}) {
  const clock = createVirtualClock(at)
  const from = clock.monotonic()
  const schedule = createSchedule({ cron, timeZone }, { clock, random: { next: () => jitter } })
  /** When it ticked: by the host's clock, and by the monotonic clock, ms since the start. */
  const [ticks, tickedAfter]: [number[], number[]] = [[], []]
  schedule.start(() => {
    ticks.push(clock.now())
    tickedAfter.push(clock.monotonic() - from)
    onTick?.(ticks.length)
  })
  const stop = (): void => {
    schedule.stop()
    expect(clock.sleepers()).toBe(0)
  }
  return { clock, schedule, ticks, tickedAfter, [Symbol.dispose]: stop }
}

/** The longest time without a tick on the monotonic clock, in so many ms since the start. */
function longestGap({ tickedAfter }: { tickedAfter: number[] }, passedMs: number): number {
  const times = [...tickedAfter, passedMs]
  return Math.max(...times.slice(1).map((at, index) => at - (times[index] ?? 0)))
}

describe('ticks', () => {
  /** In seconds: as late as chance allows, which is a tenth of the period, and a minute at most. */
  test.each([
    [halfMinute, 95_000, [0, 33, 63, 93]],
    ['0 0 * * * *', hourMs + 59_950, [0, 3659.9]],
  ])('of %s come at once, then as scheduled', async (cron, ms, expected) => {
    using under = running(cron, { jitter: 0.999 })
    await under.clock.advance(ms)
    expect(under.tickedAfter.map((tick) => Math.round(tick / 100) / 10)).toEqual(expected)
  })

  test('close together keep their order and their number, however uneven the schedule; none comes after the end', async () => {
    const under = running('0,1,2 0 * * * *', { jitter: 0.999 })
    // The last is only waiting for its chance.
    await under.clock.advance(3 * hourMs + 2_050)
    expect(under.ticks).toHaveLength(1 + 2 + 3 * 3 - 1)
    under.schedule.stop()
    expect([under.clock.sleepers(), under.schedule.nextAt()]).toEqual([0, undefined])
  })

  /** From half past midnight UTC on, the zone's hour from 2 to 3 comes twice, or never. */
  test.each([
    [halfMinute, Date.UTC(2026, 9, 25, 0, 30), 2 * hourMs, 240],
    ['0 */5 * * * *', Date.UTC(2026, 9, 25, 0, 30), 2 * hourMs, 24],
    ['0 */5 2 * * *', Date.UTC(2026, 9, 24, 23, 59), 3 * hourMs, 25],
    ['*/5 * 1-5 * * *', Date.UTC(2026, 9, 24, 22, 59), 6 * hourMs + minuteMs, 1 + 6 * 720],
    ['0 */5 2 * * *', Date.UTC(2026, 2, 28, 23, 59), 5 * hourMs, 1],
    ['*/5 * 1-5 * * *', Date.UTC(2026, 2, 28, 23, 59), 4 * hourMs + minuteMs, 1 + 4 * 720],
  ])('follow daylight saving in Berlin: %s', async (cron, at, ms, expected) => {
    using under = running(cron, { at, timeZone: 'Europe/Berlin' })
    await under.clock.advance(ms - 1)
    expect(under.ticks).toHaveLength(expected)
  })

  test('of half an hour that is repeated come twice', async () => {
    using under = running('0 */15 1 * * *', { at: Date.UTC(2026, 3, 4, 13, 59), timeZone: 'Australia/Lord_Howe' })
    await under.clock.advance(3 * hourMs)
    expect(under.ticks.slice(1).map((at) => (at - Date.UTC(2026, 3, 4, 14)) / minuteMs)).toEqual([
      0, 15, 30, 45, 60, 75,
    ])
  })

  test('of office hours come in them only, all of the week', async () => {
    using under = running(officeHours, { at: monday + 17 * hourMs + 40 * minuteMs + 1, jitter: 0.999 })
    await under.clock.advance(7 * dayMs + minuteMs)
    const ticks = under.ticks.slice(1).map((at) => new Date(at))
    expect(new Set(ticks.map((at) => at.getUTCDay()))).toEqual(new Set([1, 2, 3, 4, 5]))
    expect(new Set(ticks.map((at) => at.getUTCHours()))).toEqual(new Set([8, 9, 10, 11, 12, 13, 14, 15, 16, 17]))
    // Six in an hour, each within its jitter: a tenth of ten minutes.
    expect(ticks.filter((at) => at.getUTCMinutes() % 10 === 0)).toHaveLength(5 * 10 * 6)
    expect(ticks).toHaveLength(5 * 10 * 6)
  })
})

describe('when the host’s clock is set', () => {
  const jumps = [-hourMs, hourMs, -40 * secondMs, 2 * secondMs, -20 * dayMs, 20 * dayMs, 10 * 365 * dayMs, -start, 0.5]
  const schedules = [
    [halfMinute, 30 * secondMs],
    ['0 0 * * * *', hourMs],
    ['0 */10 * * * *', 10 * minuteMs],
  ] as const

  test.each(schedules)('%s has no two periods without a tick', async (cron, periodMs) => {
    for (const jumpMs of jumps) {
      for (const lastsMs of [9 * secondMs, 3 * minuteMs, 4 * periodMs]) {
        using under = running(cron, { at: start + 7 * secondMs, jitter: 0.5 })
        const marks = [0.3, 2.9, 3.5, 6].map((periods) => periods * periodMs)
        for (const [index, ms] of marks.entries()) {
          await under.clock.advance(ms)
          under.clock.jump(index % 2 === 0 ? jumpMs : -jumpMs)
          await under.clock.advance(lastsMs)
        }
        const passed = marks.reduce((sum, ms) => sum + ms + lastsMs, 0)
        expect(longestGap(under, passed), `${jumpMs} for ${lastsMs}`).toBeLessThan(2 * periodMs)
        // Nor are the ticks made up for that were jumped over.
        expect(under.ticks.length, `${jumpMs} for ${lastsMs}`).toBeLessThan(passed / periodMs + 12)
      }
    }
  })

  test('again and again, or stands still, ticks come all the same', async () => {
    using under = running(halfMinute)
    for (let second = 0; second < 300; second += 1) {
      await under.clock.advance(secondMs)
      under.clock.jump(-secondMs)
    }
    expect(longestGap(under, 300 * secondMs)).toBeLessThan(minuteMs)
  })

  test('limited hours are obeyed by the new time', async () => {
    using under = running(officeHours, { at: monday + 20 * hourMs })
    under.clock.jump(-8 * hourMs)
    await under.clock.advance(11 * minuteMs)
    expect(under.ticks).toHaveLength(2)
    under.clock.jump(8 * hourMs)
    await under.clock.advance(11 * hourMs)
    // One at once, for those that were jumped over.
    expect(under.ticks).toHaveLength(3)
  })
})

test.each([
  ['* * * * * *', 1, 1],
  [halfMinute, 30, 30],
  ['40,5,*/20,59 * * * * *', 1, 20],
  ['5 * * * * *', 60, 60],
  ['0 0 3 * * *', 86_400, 86_400],
  ['0 0 0,23 * * *', 3600, 23 * 3600],
  ['0 0,10 * * * *', 10 * 60, 50 * 60],
  [officeHours, 10 * 60, 62 * 3600 + 600],
  ['0 0 0 L * *', 28 * 86_400, 31 * 86_400],
  ['0 0 0 29 2 *', Infinity, Infinity],
  ['0 0 0 L-30 2 *', Infinity, Infinity],
  ['0 0 0 1 1 1#5', Infinity, Infinity],
])('%s: %i to %i s between two ticks', (cron, min, max) => {
  expect(gapsOf(cron)).toEqual({ min: 1000 * min, max: 1000 * max })
})

test.each([
  ['the second', '10,50 * * * * *', 'UTC', start + 10 * secondMs],
  ['the hour', '0 0 3 * * *', 'America/New_York', Date.UTC(2026, 0, 16, 8)],
  ['the minute, where that is half an hour off', '0 0 * * * *', 'Asia/Kolkata', start + 30 * minuteMs],
  ['the last day of the month', '0 0 12 L * *', 'Pacific/Auckland', Date.UTC(2026, 0, 30, 23)],
  ['the weekday', '0 30 0 * * 1', 'Asia/Tokyo', Date.UTC(2026, 0, 18, 15, 30)],
  ['the leap day', '0 0 0 29 2 *', 'UTC', Date.UTC(2028, 1, 29)],
])('the next tick goes by %s', (_name, cron, timeZone, expected) => {
  using under = running(cron, { timeZone })
  expect(onWallClock(under.clock, under.schedule.nextAt() ?? 0)).toBe(expected)
})

test('the end may come twice, and from within a tick', async () => {
  using under = running(halfMinute, {
    onTick(count) {
      if (count === 2) under.schedule.stop()
    },
  })
  await under.clock.advance(5 * minuteMs)
  expect(under.ticks).toHaveLength(2)
})
