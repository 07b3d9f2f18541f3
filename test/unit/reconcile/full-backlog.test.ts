// More failed records than the backlog holds: nobody starves behind dead receivers, exhausted records, or those that a receiver
// refuses. At 20 calls a second.
import { expect, test } from 'vitest'
import { dayMs, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { failedRecord, idOf } from '../../support/fake-platform.ts'
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
  '500 behind 5,000 of a dead receiver': `
    given maxRecords=2000; ${dead(1, '5000 # age=6d apart=86s')}; stored 500 a age=12h apart=72s
    start; ticks 30s 1min; recovered -> 500; lists -> at most 120`,
  '200 of two receivers among 2,000 of 40 dead ones': `
    given maxRecords=300
    ${dead(40, '50 # age=6d apart=2h')}; stored 100 a age=6d apart=1h; stored 100 b age=6d apart=1h
    start; ticks 30s 10min; recovered -> 200; lists -> at most 900`,
  '500 behind 3,000 exhausted ones of their subscription': `
    given maxRecords=2000; stored 3000 a age=6d apart=86s attempts=30; stored 500 a age=12h apart=72s
    start; ticks 30s 1min; recovered -> 500; lists -> at most 76`,
  '500 behind 6,000 of their subscription that the receiver refuses': `
    given maxRecords=2000; stored 6000 a age=6d apart=70s attempts=2; stored 500 a age=12h apart=72s
    start; ticks 30s 5min; recovered -> 500; lists -> at most 340`,
  '2,000 of one receiver': `
    given maxRecords=200; stored 2000 a age=6d apart=216s
    start; ticks 30s 10min; recovered -> 2000; lists -> at most 600`,
  '1,000 of ten receivers among 9,000 of 200 dead ones, at two calls a second': `
    given maxRecords=2000 maxPerSecond=2
    ${dead(200, '45 # age=6d apart=2h')}; ${each(10, (index) => `stored 100 up${index} age=6d apart=1h`)}
    start; ticks 30s 35min; recovered -> 1000; lists -> at most 900`,
}
const refused = '500 behind 6,000 of their subscription that the receiver refuses'

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
