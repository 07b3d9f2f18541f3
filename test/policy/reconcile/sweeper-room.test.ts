// Left-out records: the sweeper goes on where the backlog had no room, as soon as there is some.
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, entryOf, hourMs, minuteMs, noted, testNow } from '../../support/backlog.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'
import { reconcile, ticks } from '../../support/reconcile.ts'

function due(count: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    failedRecord({ eventLocal: testNow - 3 * dayMs + index * 10 * minuteMs, ...fields }),
  )
}

/** After the sweep that a start begins with, and its rest: as if it had been running for long. */
describe('no room', () => {
  test('it goes on from the oldest that was left out whenever the backlog is half empty, until all is done', async () => {
    await using world = reconcile({ records: due(430), maxRecords: 50, latencyMs: 500, maxPerSecond: 20 })
    void world.start()
    let most = 0
    for (let round = 0; round < 100 && world.platform.failedIds().length > 0; round += 1) {
      world.sweeper.tick()
      for (let part = 0; part < 10; part += 1) {
        await world.clock.advance(1000)
        most = Math.max(most, world.backlog.size())
      }
    }
    expect(most).toBeLessThanOrEqual(50)
    expect(world.platform.failedIds()).toEqual([])
    expect(world.sweeps().some(({ continued }) => continued)).toBe(true)
    expect(new Set(world.platform.retries.map(({ id }) => id)).size).toBe(world.platform.retries.length)
    const order = world.platform.retries
      .map(({ id }) => world.platform.records.get(id)?.eventLocal ?? 0)
      .filter((eventLocal) => eventLocal < testNow - 2 * hourMs)
    expect(order).toEqual([...order].sort((a, b) => a - b))
  })

  test('not before the backlog is under half full', async () => {
    await using world = reconcile({ records: due(30), maxRecords: 20, latencyMs: 1000 })
    world.sweeper.tick()
    await world.swept()
    const [next, ...others] = [...world.backlog.entries()].slice(0, 11)
    const resolve = ({ id }: { id: string }): void => {
      const { localSecond } = entryOf(world.backlog, { id })
      const done = failedRecord({ eventLocal: localSecond * 1000, id, status: 'successful' })
      noted(world.backlog, done, accepted(done), world.clock.monotonic())
      world.platform.set(id, { status: 'successful' })
    }
    for (const entry of others) resolve(entry)
    expect(world.backlog.size()).toBe(10)
    await ticks(world, 1000, 10_000)
    expect(world.backlog.size()).toBe(10)
    if (next !== undefined) resolve(next)
    await ticks(world, 1000, 10_000)
    expect(world.backlog.size()).toBe(19)
    expect(world.sweeps().filter(({ continued }) => continued)).toHaveLength(1)
  })

  test('recent sweeps come between those that go on', async () => {
    await using world = reconcile({ records: due(300), maxRecords: 60, latencyMs: 3000 })
    void world.start()
    await ticks(world, 10_000, 30 * minuteMs)
    const reports = world.sweeps()
    expect(reports.some(({ continued }) => continued)).toBe(true)
    const recent = reports.filter(({ kind }) => kind === 'recent')
    expect(recent.length).toBeGreaterThan(15)
  })
})
