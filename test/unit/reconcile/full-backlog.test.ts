// More failed records than the backlog holds: nobody starves behind dead receivers, exhausted records, or those that a receiver
// refuses. At 20 calls a second.
import { expect, test } from 'vitest'
import { dayMs, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { failedRecord, idOf } from '../../support/records.ts'
import { reconcile, ticks, type ReconcileOptions } from '../../support/reconcile.ts'
import { play } from '../../support/script.ts'

const each = (count: number, step: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => step(index)).join('; ')
/** The receiver refuses what is older than a day. */
const refusesOld: ReconcileOptions['deliver'] = ({ eventLocal }) => ({
  afterMs: 0,
  code: eventLocal < testNow - dayMs ? 422 : 200,
})

const dead = (count: number, fields: string): string =>
  each(count, (index) => `deliver dead${index} 503; stored ${fields.replace('#', `dead${index}`)}`)

const scripts: Record<string, string> = {
  '100 behind 1,000 of a dead receiver': `
    given maxRecords=400; ${dead(1, '1000 # age=6d apart=430s')}; stored 100 a age=12h apart=6min
    start; ticks 30s 1min; recovered -> 100; lists -> at most 36`,
  '40 of two receivers among 400 of 8 dead ones': `
    given maxRecords=60
    ${dead(8, '50 # age=6d apart=2h')}; stored 20 a age=6d apart=5h; stored 20 b age=6d apart=5h
    start; ticks 30s 10min; recovered -> 40; lists -> at most 200`,
  '100 behind 600 exhausted ones of their subscription': `
    given maxRecords=400; stored 600 a age=6d apart=430s attempts=30; stored 100 a age=12h apart=6min
    start; ticks 30s 1min; recovered -> 100; lists -> at most 27`,
  '100 behind 1,200 of their subscription that the receiver refuses': `
    given maxRecords=400; stored 1200 a age=6d apart=350s attempts=2; stored 100 a age=12h apart=6min
    start; ticks 30s 5min; recovered -> 100; lists -> at most 190`,
  '400 of one receiver': `
    given maxRecords=40; stored 400 a age=6d apart=18min
    start; ticks 30s 10min; recovered -> 400; lists -> at most 142`,
  '200 of ten receivers among 1,800 of 40 dead ones, at two calls a second': `
    given maxRecords=400 maxPerSecond=2
    ${dead(40, '45 # age=6d apart=2h')}; ${each(10, (index) => `stored 20 up${index} age=6d apart=5h`)}
    start; ticks 30s 35min; recovered -> 200; lists -> at most 280`,
}
const refused = '100 behind 1,200 of their subscription that the receiver refuses'

test.each(Object.entries(scripts))('%s: all arrive', async (title, script) => {
  await play(script, { latencyMs: 50, maxPerSecond: 20, ...(title === refused && { deliver: refusesOld }) })
})

test('dead receivers that have more records than there are places cause no extra sweeps', async () => {
  const script = `given maxRecords=10; ${dead(20, '5 # age=6d apart=2h')}; start; ticks 30s 1h; lists -> at most 800`
  await play(script, { latencyMs: 50, maxPerSecond: 20 })
})

test('no circuit is forgotten as the records of its subscription have no room, but with the last of them', async () => {
  const of = (subscription: number, count: number): WebhookRecord[] =>
    Array.from({ length: count }, () => {
      const times = { eventLocal: testNow - 4 * hourMs, lastAttemptLocal: testNow - 3 * hourMs }
      return failedRecord({ ...times, subscriptionId: idOf(subscription) })
    })
  const records = of(1, 9)
  const [last, ...others] = records
  const rules = { maxRecords: 10, maxPerSecond: 20, circuit: {} }
  await using world = reconcile({ ...rules, records, deliver: () => ({ afterMs: 300, code: 503 }) })
  void world.start()
  await ticks(world, minuteMs, 2 * minuteMs)
  const changes = (): string[] => world.events.flatMap((event) => (event.type === 'circuit' ? [event.to] : []))
  expect(changes()).toContain('open')
  for (const { id } of others) world.platform.set(id, { status: 'successful' })
  for (let subscription = 2; subscription < 30; subscription += 1) world.platform.add(...of(subscription, 2))
  let evicted = 0
  for (let minutes = 0; minutes < 90; minutes += 1) {
    await ticks(world, minuteMs, minuteMs)
    if (world.backlog.get(last?.id ?? '') === undefined) evicted += 1
  }
  expect(evicted).toBeGreaterThan(0)
  expect(changes()).not.toContain('closed')
  for (const id of world.platform.failedIds()) world.platform.set(id, { status: 'successful' })
  await ticks(world, minuteMs, 30 * minuteMs)
  expect(changes().at(-1)).toBe('closed')
})
