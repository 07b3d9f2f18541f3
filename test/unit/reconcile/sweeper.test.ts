// Ticks: what is swept when, what waits, how the sweeper comes through a platform that fails, and where the backlog has no room.
import { expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { failedRecord, idOf } from '../../support/records.ts'
import { noCircuits, reconcile, ticks } from '../../support/reconcile.ts'
import { play } from '../../support/script.ts'
import { finish } from '../../../src/runtime/steps.ts'

const many = 'apart=10min age=3d'

/** `sweeps` shows each sweep since the last time: how long it took, and when it ended. */
const scripts: Record<string, string> = {
  // One call a second: the newest hour takes 1 s, the rest, what lies beyond and what is stuck another 3 s.
  'a full sweep rests for twenty times its duration, a recent one for twenty times its own': `
    given latencyMs=1000
    sweep -> complete 0; wait 1h; anew; ticks 1s 135s; sweeps -> full 6s at 6s, recent 1s at 22s, recent 1s at 43s, recent 1s at 64s, recent 1s at 85s, recent 1s at 106s, full 6s at 132s`,
  'a recent sweep comes between two slices of a full one, once its rest is over': `
    given sliceRecords=10 latencyMs=2000 pages=1
    stored 400 a ${many}; sweep -> complete 400; wait 1h; anew; ticks 1s 3min;
    sweeps -> recent 2s at 44s, recent 2s at 86s, full 96s at 96s, recent 2s at 128s, recent 2s at 170s`,
  'it is said to be under way once it has taken a second, and until it ends': `
    given sliceRecords=10 latencyMs=2000 pages=1
    stored 400 a ${many}; ticks 1s 1s; listing -> nothing long; ticks 1s 2s; listing -> a full sweep; ticks 1s 137s; listing -> nothing long`,
  'what a tick wants during a Retry-After comes at its end': `
    given latencyMs=20
    sweep -> complete 0; wait 1h; anew; throttle 80s; ticks 10s 10s; wait 69s; sweeps -> none; wait 2s; swept -> full 1`,
  'a sweep that failed is made again when its backoff ends, long before the next tick of an hourly schedule': `
    given latencyMs=20
    list 500; ticks 8s 8s; swept -> full failed 4; list works; wait 10s; swept -> full 1; wait 50min; swept -> none`,
  'an hourly schedule makes a full sweep in each hour, however long they take, and rests as long as it has worked': `
    list works 20s; ticks 1h 5h; swept -> full 5; list works 10min; ticks 1h 3h; swept -> full 2, recent 1`,
  'a sweep that had to wait does not rest for it, but says how long it took': `
    given latencyMs=1000; sweep -> complete 0; wait 1h; anew; ticks 500ms 500ms; throttle 60s; ticks 1s 170s
    sweeps -> recent 1s at 63.5s, full 66.501s at 67.5s, recent 1s at 84.5s, recent 1s at 105.5s, recent 1s at 126.5s, recent 1s at 147.5s, recent 1s at 168.5s`,
  'sweeps of a platform that fails back off to a minute for any schedule, and come back at once when one works': `
    list 500; ticks 1s 1h; swept -> full failed 85; list works; ticks 1s 5min; swept -> full 298
    ticks 30s 5min; swept -> full 10`,
  'the time is asked for once, also of a platform whose answers have none':
    'given knowsTime=0; sweep -> complete 0; lists -> 7; wait 1h; sweep -> complete 0; lists -> 6',
  'failures are known of events that had settled when their newest part was listed last':
    'seen -> NaNs; sweep -> complete 0; seen -> 60s; wait 10s; seen -> 70s; list 500; sweep -> failed 0; seen -> 70s',
  'what had no room is listed again by a full sweep, which comes without a tick as soon as half of the backlog is free, until all is done': `
    given maxRecords=50 latencyMs=500 maxPerSecond=20
    stored 430 a ${many}; ticks 10s 10s; held -> 50; counted -> 380; start; wait 10min; left -> none; counted -> 0
    retries -> 430; swept -> full 9`,
  'not before half of it is free, and not without a rest when all have room': `
    given maxRecords=20 latencyMs=1000
    stored 30 a ${many}; ticks 1s 10s; held -> 20; delivered 9; held -> 11; ticks 1s 10s; held -> 11
    delivered 1; ticks 1s 10s; held -> 20; delivered 20; ticks 1s 10s; held -> 0; swept -> full 2`,
  'nor while the platform can’t be listed': `
    given maxRecords=100 latencyMs=1000
    stored 290 a ${many}; ticks 1s 10s; list 500; start; ticks 1s 40s; held -> 0; counted -> 190
    swept -> full 1, full failed 6; list works; ticks 1s 10min; left -> none`,
  'what a recent sweep evicts between two slices of a full one is not forgotten at its end': `
    given maxRecords=400 sliceRecords=10 latencyMs=2000 pages=1
    stored 400 a apart=9min age=6d; ticks 1s 90s; stored 30 a age=5min apart=1s; ticks 1s 60s; held -> 400
    counted -> 30; swept -> full 1, recent 3`,
  'what fails while one listing takes hours is not lost between a full sweep and the recent one after it': `
    list works 1s; ticks 500ms 500ms; list works 2h; wait 1s; list works; wait 30min; stored 1 a age=1min; ticks 1s 1s
    wait 2h; swept -> full 1, recent 1; held -> 1`,
  'a full sweep that a failing platform ends goes on where it ended, so that all is seen however often that happens': `
    given sliceRecords=10 latencyMs=2000 pages=1 lookbackMs=${73 * hourMs}
    stored 400 a ${many}; ticks 1s 40s; list 500; ticks 1s 5s; list works; ticks 1s 40s; list 500; ticks 1s 5s; list works
    ticks 1s 40s; list 500; ticks 1s 5s; list works; ticks 1s 40s; held -> 400; swept -> full 1, full failed 3, recent 3, recent failed 2`,
  'but begins anew once it has listed nothing more for an hour': `
    given sliceRecords=10 latencyMs=2000 pages=1 lookbackMs=${80 * hourMs}
    stored 400 a ${many}; ticks 1s 40s; list 500; ticks 10s 59min; stored 1 a age=71h; ticks 10s 2min; list works
    ticks 1s 3min; held -> 401`,
  'and counts nothing then that was evicted before, and has left the window since': `
    given maxRecords=20 sliceRecords=10 latencyMs=2000 pages=1 lookbackMs=${73 * hourMs}
    stored 400 a ${many}; ticks 1s 40s; counted -> 11; list 500; ticks 1min 10h; list works; ticks 1s 10min
    counted -> 325`,
  ...Object.fromEntries(
    (
      [
        ['all are held', 65, 'maxRecords=1000 latencyMs=20'],
        ['sweeps are so slow that it moves while they are under way', 67, 'latencyMs=20000'],
        ['sweeps of many slices are slow', 66, 'latencyMs=7000 sliceRecords=4'],
      ] as const
    ).map(([name, half, given]) => [
      `what leaves the window is reported once, when ${name}`,
      `given ${given} lookbackMs=${2 * hourMs}; stored 100 a age=119min apart=45s attempts=30; sweep -> complete 100
       ticks 30s 50min; expired -> ${half}; ticks 30s 50min; expired -> 100; held -> 0`,
    ]),
  ),
}

test.each(Object.entries(scripts))('%s', async (_, script) => {
  await play(script, { circuit: noCircuits })
})

test('a sweep reports unreadable rows, and rows that were not asked for', async () => {
  const row = { unreadable: true, id: idOf(999_999), field: 'status' } as const
  await using world = reconcile({
    records: [failedRecord({ eventLocal: testNow - hourMs, status: 'successful' })],
    ignores: ['status'],
    unreadable: ({ size, status }) => (size > 1 && status === 'failed' ? [row] : []),
  })
  expect(await world.sweep()).toMatchObject({ unreadable: 1 })
  expect(finish(world.state()).unreadable).toEqual({ rows: 1, field: 'status' })
  expect(world.events).toContainEqual({ type: 'unreadable', rows: [row], sweepId: expect.any(String) as string })
  expect(world.events).toContainEqual({ type: 'unexpected', wrongTime: 0, wrongStatus: 1 })
})

test('a full sweep that goes on: what it could not list is not forgotten, nothing counts twice, and it rests for an hour at most', async () => {
  let isDown = false
  let unlistable = Infinity
  await using world = reconcile({
    ...{ sliceRecords: 10, pages: 1, latencyMs: 2000, circuit: noCircuits },
    records: Array.from({ length: 400 }, (_, n) => failedRecord({ eventLocal: testNow - (160 - n / 3) * hourMs })),
    onList: ({ from = 0, size, to = 0 }) => {
      const isOfBad = size > 1 && from <= unlistable && unlistable <= to
      if (isDown || isOfBad) throw new PlatformFailure('server-error', 500, 'list')
    },
  })
  const full = (): ReturnType<typeof world.sweeps> => world.sweeps().filter(({ kind }) => kind === 'full')
  await ticks(world, 1000, 200_000)
  await world.clock.advance(3 * hourMs)
  const before = full().length
  for (const id of [...world.platform.records.keys()].slice(0, 30)) world.platform.set(id, { status: 'successful' })
  unlistable = Math.floor(world.clock.now() / 1000) - 59 * 60
  await ticks(world, 1000, 90_000)
  isDown = true
  await ticks(world, 1000, 40 * minuteMs)
  world.platform.add(failedRecord({ eventLocal: world.clock.now() - 10 * minuteMs }))
  isDown = false
  while (full().at(-1)?.result === 'failed') await ticks(world, 1000, 1000)
  const reports = full().slice(before)
  expect(reports.at(-1)).toMatchObject({ result: 'incomplete' })
  expect(reports.reduce((sum, { leftWithoutRetry }) => sum + leftWithoutRetry, 0)).toBe(30)
  expect(world.sweeper.findings().aheadOfClock).toBe(0)
  expect(world.sweeper.unlisted()).toHaveLength(1)
  await ticks(world, 30_000, hourMs)
  expect(full().length).toBeGreaterThan(before + reports.length)
})

test('recent sweeps count the events ahead of the clock again, as their time may have come', async () => {
  const records = Array.from({ length: 400 }, (_, n) => failedRecord({ eventLocal: testNow - (160 - n / 3) * hourMs }))
  await using world = reconcile({
    ...{ sliceRecords: 10, pages: 1, latencyMs: 2000, circuit: noCircuits },
    records: [...records, failedRecord({ eventLocal: testNow + 20 * minuteMs })],
  })
  const found = (): { full: number; ahead: number } => ({
    full: world.sweeps().filter(({ kind }) => kind === 'full').length,
    ahead: world.sweeper.findings().aheadOfClock,
  })
  await ticks(world, 1000, 10 * minuteMs)
  expect(found()).toEqual({ full: 1, ahead: 1 })
  await ticks(world, 1000, 20 * minuteMs)
  expect(found()).toEqual({ full: 1, ahead: 0 })
})

test('a full sweep that failed between two halves of a slice counts neither twice', async () => {
  const { bad, ...state } = { isDown: false, isOver: false, asked: 0, bad: { from: NaN, to: NaN } }
  const fail = (): never => {
    throw new PlatformFailure('server-error', 500, 'list')
  }
  await using world = reconcile({
    ...{ sliceRecords: 10, pages: 1, circuit: noCircuits },
    records: Array.from({ length: 400 }, (_, n) => failedRecord({ eventLocal: testNow - (160 - n / 3) * hourMs })),
    onList: ({ from = NaN, size, to = NaN }) => {
      if (state.isOver) return
      if (state.isDown) fail()
      if (size === 1) return
      state.asked += 1
      if (state.asked === 10) Object.assign(bad, { from, to })
      // Its later half is listed first; then the platform fails.
      state.isDown = from === bad.from && to < bad.to
      if (from === bad.from) fail()
    },
  })
  expect(await world.sweep()).toMatchObject({ result: 'failed' })
  expect(state.isDown).toBe(true)
  state.isOver = true
  expect(await world.sweep()).toMatchObject({ result: 'complete', listed: 400 })
})

test('a full sweep of which nothing could be listed is over', async () => {
  let isBad = true
  await using world = reconcile({
    records: [failedRecord({ eventLocal: testNow - 2 * hourMs })],
    onList: ({ size }) => {
      if (isBad && size > 1) throw new PlatformFailure('server-error', 500, 'list')
    },
  })
  expect(await world.sweep()).toMatchObject({ result: 'failed' })
  isBad = false
  expect(await world.sweep()).toMatchObject({ result: 'complete', listed: 1 })
})

test('a recent sweep of which nothing could be listed forgets no older part that cannot be listed', async () => {
  let isDown = false
  const bad = testNow / 1000 - 3 * 86_400
  await using world = reconcile({
    onList: ({ from = 0, size, to = 0 }) => {
      if (size > 1 && (isDown || (from <= bad && bad <= to))) throw new PlatformFailure('server-error', 500, 'list')
    },
  })
  expect(await world.sweep()).toMatchObject({ result: 'incomplete' })
  isDown = true
  expect(await world.clock.run(world.sweeper.make('recent', world.stop.signal))).toMatchObject({ result: 'failed' })
  expect(world.sweeper.unlisted()).toHaveLength(1)
})
