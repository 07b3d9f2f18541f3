// Counts beside the window's failed records: those beyond the window, by one call of size 1, and those that are processing for too long.
import { expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, entryOf, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { type FakePlatformOptions } from '../../support/fake-platform.ts'
import { failedRecord } from '../../support/records.ts'
import { hold, reconcile, ticks } from '../../support/reconcile.ts'

const start = testNow - 7 * dayMs

function many(count: number, eventLocal: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) => failedRecord({ eventLocal: eventLocal + index * 1000, ...fields }))
}

const longAgo = many(4, start - 2 * dayMs)
const inside = many(5, testNow - dayMs)
const resolvedLongAgo = many(9, start - hourMs, { status: 'successful' })

test.each<[string, FakePlatformOptions, number, notBefore?: number]>([
  ['counted', {}, 4],
  ['counted from window.notBefore on', {}, 3, start - 2 * dayMs + 1000],
  ['none when the window begins before it', {}, 0, testNow - hourMs],
  ['counted by their pages without a total', { totals: 'none' }, 4],
  ['not believed when the row shows that the bound is ignored', { ignores: ['to'], order: 'event-desc' }, 0],
  ['so, too, when there are rows but the total is none', { totals: 'zero' }, 4],
  ['not believed when there is a total but no row', { records: inside, totals: 'all' }, 0],
  ['not believed when the row shows another status', { records: resolvedLongAgo, ignores: ['status'] }, 0],
])('records beyond the window are %s', async (_, options, count, notBefore) => {
  const window = { lookback: 7 * dayMs, settle: minuteMs, notBefore }
  await using world = reconcile({ records: [...longAgo, ...inside], ...options, policy: { window } })
  await world.sweep()
  expect(world.sweeper.findings().beyondWindow).toBe(count)
})

test('without a total, none are counted once no row is shown', async () => {
  await using world = reconcile({ records: longAgo, totals: 'none' })
  await world.sweep()
  for (const { id } of longAgo) world.platform.set(id, { status: 'successful' })
  await world.sweep()
  expect(world.sweeper.findings().beyondWindow).toBe(0)
})

const at = (eventLocal: number): Partial<WebhookRecord> => ({ eventLocal, lastAttemptLocal: eventLocal })

test.each<[string, Partial<WebhookRecord>, number]>([
  ['its last attempt', { lastAttemptLocal: testNow - 15 * minuteMs - 1 }, 1],
  ['its last attempt, just not yet', { lastAttemptLocal: testNow - 15 * minuteMs }, 0],
  ['its event, when it has no attempt', { lastAttemptLocal: null }, 1],
  ['its event, when the attempt is shown to be in the future', { lastAttemptLocal: testNow + hourMs }, 1],
  ['an event long ago and an attempt just now', { eventLocal: testNow - 6 * dayMs, lastAttemptLocal: testNow }, 0],
  ['an event just old enough', { eventLocal: testNow - 16 * minuteMs, lastAttemptLocal: null }, 1],
  ['an event in the second before the window, which is asked for', at(testNow - 7 * dayMs - 500), 0],
  ['an event in the first second of the window', at(testNow - 7 * dayMs), 1],
  ['never, if it is excluded', { eventType: 'unwanted', lastAttemptLocal: null }, 0],
])('a record is stuck since %s', async (_, fields, count) => {
  const record = failedRecord({ eventLocal: testNow - hourMs, status: 'processing', ...fields })
  const select = { eventTypes: [inside[0]?.eventType ?? ''], subscriptionIds: [] }
  await using world = reconcile({ records: [record], latencyMs: 0, policy: { select } })
  await world.sweep()
  expect(world.sweeper.findings().stuckProcessing).toBe(count)
})

test.each([
  ['just now', 0, 0],
  ['long ago', 16 * minuteMs, 1],
])('our own PATCH %s counts as well', async (_, triedAgoMs, count) => {
  const record = failedRecord({ eventLocal: testNow - dayMs })
  await using world = reconcile({ records: [{ ...record, status: 'processing' }] })
  hold(world, [record])
  entryOf(world.backlog, record).note({ triedAt: testNow - triedAgoMs })
  await world.sweep()
  expect(world.sweeper.findings().stuckProcessing).toBe(count)
})

test('stuck records that fill their pages are no more than these', async () => {
  const records = many(10, testNow - dayMs, { status: 'processing' })
  await using world = reconcile({ records, maxPageSize: 10 })
  await world.sweep()
  expect(world.sweeper.findings().stuckProcessing).toBe(10)
})

test('a full sweep counts once, a recent one never; counts that fail do not fail the sweep, and the last ones stand', async () => {
  let down: 'counts' | 'all' | undefined
  await using world = reconcile({
    latencyMs: 1000,
    records: [...longAgo, ...inside, ...many(7, testNow - dayMs, { status: 'processing' })],
    onList: ({ from, status }) => {
      const isCount = status === 'processing' || from === undefined
      if (down === 'all' || (down === 'counts' && isCount)) throw new PlatformFailure('timeout', undefined, 'list')
    },
  })
  await world.sweep()
  await world.clock.advance(minuteMs)
  await ticks(world, 30_000, 30_000)
  down = 'counts'
  expect(await world.sweep()).toMatchObject({ result: 'complete', listed: 5 })
  down = 'all'
  expect(await world.sweep()).toMatchObject({ result: 'failed' })
  const sweeps = world.sweeps().map(({ failed, kind }) => [kind, failed?.due])
  expect(sweeps).toEqual([
    ['full', 5],
    ['recent', undefined],
    ['full', 5],
    ['full', undefined],
  ])
  expect([world.sweeper.findings().beyondWindow, world.sweeper.findings().stuckProcessing]).toEqual([4, 7])
  const beyond = world.platform.lists.filter(({ from, to }) => from === undefined && to !== undefined)
  expect(beyond).toMatchObject(Array.from({ length: 2 }, () => ({ status: 'failed', size: 1 })))
})

test.each(['status', 'from'] as const)('no sweep is complete while the filter %s hides all records', async (filter) => {
  let isHiding = true
  const records = many(3, testNow - dayMs)
  await using world = reconcile({ records, hides: (query) => isHiding && query[filter] !== undefined })
  const touch = (lastAttemptLocal: number): void => {
    for (const { id } of records) world.platform.set(id, { lastAttemptLocal })
  }
  expect(await world.sweep()).toMatchObject({ result: 'incomplete', listed: 0 })
  // Tried just now, they may be on their way.
  touch(testNow)
  expect(await world.sweep()).toMatchObject({ result: 'incomplete', listed: 0 })
  isHiding = false
  touch(testNow - hourMs)
  expect(await world.sweep()).toMatchObject({ result: 'complete', listed: 3 })
})

test('for an hour after a list has shown what it filters for, none is asked', async () => {
  const [record] = many(1, testNow - dayMs, { status: 'successful' })
  await using world = reconcile({ records: record ? [record] : [] })
  const asked = (): number => world.platform.lists.filter(({ status }) => status === undefined).length
  for (const expected of [1, 1, 2]) {
    expect(await world.sweep()).toMatchObject({ result: 'complete' })
    expect(asked()).toBe(expected)
    await world.clock.advance(hourMs / 2)
  }
})

test('a platform that fails lists without filters is asked for one an hour, so that full sweeps go on', async () => {
  await using world = reconcile({
    async onList({ from, status, to }) {
      if ((from ?? status ?? to) !== undefined) return
      await world.clock.sleep(90_000, world.stop.signal)
      throw new PlatformFailure('timeout', undefined, 'list')
    },
  })
  await ticks(world, 30_000, 2 * hourMs)
  const asked = world.platform.lists.filter(({ from, status, to }) => (from ?? status ?? to) === undefined)
  expect(asked).toHaveLength(2)
  expect(world.sweeps().filter(({ kind }) => kind === 'full').length).toBeGreaterThan(100)
})

test('no sweep is complete while the filter `to` hides all records behind a page of new ones', async () => {
  const records = [...many(150, testNow - 200_000, { status: 'successful' }), ...many(3, testNow - dayMs)]
  await using world = reconcile({ records, order: 'event-desc', hides: ({ to }) => to !== undefined })
  expect(await world.sweep()).toMatchObject({ result: 'incomplete', listed: 0 })
})

test.each([
  ['as it was: the filter hides it', {}, 'incomplete', 1],
  ['with another attempt: it was processing meanwhile', { attempts: 2 }, 'complete', 0],
  ['as successful', { status: 'successful' as const }, 'complete', 0],
])('a record that leaves the list of failed ones, and that others show %s', async (_, changes, result, held) => {
  let isHiding = false
  const [record] = many(1, testNow - dayMs)
  if (record === undefined) throw new Error('no record')
  await using world = reconcile({ records: [record], hides: ({ status }) => isHiding && status !== undefined })
  await world.sweep()
  isHiding = true
  world.platform.set(record.id, changes)
  expect(await world.sweep()).toMatchObject({ listed: 0, result })
  expect(world.backlog.size()).toBe(held)
})

test('a record that a lagging list still shows as failed is not hidden by a filter', async () => {
  const [stale] = many(1, testNow - 10 * minuteMs)
  if (stale === undefined) throw new Error('no record')
  let delivered: WebhookRecord | undefined
  await using world = reconcile({
    onList({ from, status, to }, { add, records }) {
      const isLagging = (from ?? status ?? to) === undefined
      if (isLagging) delivered = records.get(stale.id)
      if (delivered !== undefined) add(isLagging ? stale : delivered)
    },
  })
  world.platform.add(stale)
  void world.start()
  await world.clock.run(world.sweeper.make('recent', world.stop.signal))
  await world.clock.advance(minuteMs)
  expect(world.platform.failedIds()).toEqual([])
  expect(await world.sweep()).toMatchObject({ listed: 0, result: 'complete' })
})
