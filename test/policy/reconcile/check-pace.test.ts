// A receiver that dies in the middle of a recovery, at the default rate: its checks come soon enough to open the circuit. @see docs/architecture.md "Retry plan", "Outcomes"
import { expect, test } from 'vitest'
import { minuteMs, secondMs, testNow } from '../../support/backlog.ts'
import { others, records } from '../../support/confirming.ts'
import { holdingUnder } from '../../support/sky.ts'

interface Death {
  /** How long the receiver was well before. */
  wellMs: number
  /** From a PATCH to the end of its delivery. */
  takesMs: number
  /** Between the events of two records, and between those of others. */
  everyMs: number
  othersEveryMs?: number
}

/** Seconds from the receiver's death until its circuit opens, and the PATCHes of that time. */
async function die({ everyMs, othersEveryMs, takesMs, wellMs }: Death): Promise<{ seconds: number; retries: number }> {
  const diesAt = testNow + wellMs
  const count = 2000
  await using world = holdingUnder(
    {
      records: records(count, everyMs),
      delivered: othersEveryMs === undefined ? [] : others((count * everyMs) / othersEveryMs, othersEveryMs),
      latencyMs: 100,
      deliver: (_, now) => ({ afterMs: takesMs, status: now + takesMs < diesAt ? 'successful' : 'failed' }),
    },
    { maxPerSecond: 20 },
  )
  void world.start()
  await world.clock.advance(wellMs)
  const before = world.sky.counts().retry
  const isOpen = (): boolean => world.facts.some((fact) => fact.type === 'circuit' && fact.to === 'open')
  let seconds = 0
  for (; !isOpen() && seconds < 20 * 60; seconds += 1) await world.clock.advance(secondMs)
  return { seconds, retries: world.sky.counts().retry - before }
}

test.each<Death & { name: string }>([
  { name: 'delivered soon', wellMs: minuteMs, takesMs: 300, everyMs: secondMs },
  { name: 'among many of others', wellMs: minuteMs, takesMs: 300, everyMs: 5 * secondMs, othersEveryMs: 250 },
])('a receiver dies, $name: its circuit opens within a minute, after 400 deliveries at most', async (death) => {
  const { retries, seconds } = await die(death)
  expect(retries).toBeLessThanOrEqual(400)
  expect(seconds).toBeLessThanOrEqual(60)
})
