// More failed records than the backlog holds: none waits behind dead receivers, exhausted records, or those that a receiver refuses.
import { expect, test } from 'vitest'
import { subscriptionIds } from '../../sandbox/records/seed.ts'
import { beginDay, periodMs, type Day } from '../support/daemon.ts'

const [up = '', ...others] = subscriptionIds(30)

const fail = (day: Day, status: number, ids: readonly string[]): void => {
  day.sandbox.receiver.fail({ status, subscriptionIds: ids })
}

test.each<[string, maxRecords: number, seed: (day: Day) => void, minutes: number, arrive: number, sweeps: number]>([
  [
    '100 behind 1,000 of a dead receiver',
    400,
    (day) => {
      fail(day, 503, others.slice(0, 1))
      day.seed(1000, [144, 24], { subscriptions: others.slice(0, 1) })
      day.seed(100, [12, 2], { subscriptions: [up] })
    },
    2,
    100,
    10,
  ],
  [
    '100 behind 600 exhausted ones of their subscription',
    400,
    (day) => {
      day.seed(600, [144, 24], { subscriptions: [up], attempts: 30 })
      day.seed(100, [12, 2], { subscriptions: [up] })
    },
    2,
    100,
    10,
  ],
  [
    '20 among 400 of eight dead receivers',
    60,
    (day) => {
      fail(day, 503, others.slice(0, 8))
      day.seed(400, [144, 12], { subscriptions: others.slice(0, 8) })
      day.seed(20, [144, 12], { subscriptions: [up] })
    },
    10,
    20,
    40,
  ],
])('%s: what can arrive does, by few sweeps', async (_, maxRecords, seed, minutes, arrive, most) => {
  await using day = await beginDay()
  seed(day)
  const daemon = await day.start({
    RECONCILER_BACKLOG_MAX_RECORDS: String(maxRecords),
    RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20',
  })
  await daemon.goOn((minutes - 1) * 2, periodMs)
  expect(day.sandbox.counts().successful).toBe(arrive)
  const sweeps = daemon.facts.filter((fact) => fact.type === 'sweep' && fact.report.kind === 'full').length
  expect(sweeps).toBeLessThan(most)
})
