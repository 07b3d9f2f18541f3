// Many dead subscriptions beside healthy ones, at the default rate: they hold no other up, and few deliveries go into each. @see docs/architecture.md "Circuits"
import { expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, minuteMs, secondMs, testNow } from '../../support/backlog.ts'
import { subscription } from '../../support/dispatching.ts'
import { failedRecord } from '../../support/fake-platform.ts'
import { holdingUnder, type World } from '../../support/sky.ts'

const [dead, healthy] = [20, 10]

function isDead(subscriptionId: string): boolean {
  return Number(subscriptionId.slice(-4)) < dead
}

/** The dead subscriptions come first: all of theirs is due before anything of the others. */
function mixed(): WebhookRecord[] {
  const of = (number: number, count: number): WebhookRecord[] =>
    Array.from({ length: count }, (_, index) =>
      failedRecord({ eventLocal: testNow - dayMs + index * secondMs, subscriptionId: subscription(number) }),
    )
  return [
    ...Array.from({ length: dead }, (_, index) => of(index, 100)),
    ...Array.from({ length: healthy }, (_, index) => of(dead + index, 50)),
  ].flat()
}

/** Deliveries into each dead subscription so far. */
function deliveriesIntoDead(world: World): number[] {
  const counts = new Map<string, number>()
  for (const { id, kind } of world.sky.calls) {
    const { subscriptionId } = kind === 'retry' && id !== undefined ? world.sky.shown(id) : { subscriptionId: '' }
    if (subscriptionId !== '' && isDead(subscriptionId))
      counts.set(subscriptionId, (counts.get(subscriptionId) ?? 0) + 1)
  }
  return [...counts.values()]
}

test('twenty dead subscriptions of 100 records beside ten healthy ones of 50: all 500 healthy ones recover within 45 s', async () => {
  await using world = holdingUnder(
    {
      records: mixed(),
      deliver: ({ subscriptionId }) => ({ afterMs: 300, status: isDead(subscriptionId) ? 'failed' : 'successful' }),
    },
    { maxPerSecond: 20 },
  )
  void world.start()
  const recovered = (): number =>
    world.facts.filter((fact) => fact.type === 'outcome' && fact.outcome === 'recovered').length
  await world.clock.advance(45 * secondMs)
  expect(recovered()).toBe(500)
  await world.clock.advance(25 * minuteMs - 45 * secondMs)
  // Up to nine before the first pause; then pauses of 30 s, 1, 2, 4, 8 and 10 min have ended within 25 minutes at most.
  const counts = deliveriesIntoDead(world)
  expect(counts).toHaveLength(dead)
  expect(Math.max(...counts)).toBeLessThanOrEqual(9 + 5)
})
