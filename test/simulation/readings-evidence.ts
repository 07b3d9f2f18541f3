// How platforms show attempts: late, made without being asked, or as failed before they have ended. @see readings.ts
import { minuteMs, secondMs, type Draw } from './draw.ts'
import { looksFailed, withHabits, type Scenario } from './scenario.ts'

/** Lists are read from replicas, each of which lags behind in its own way: for longer than a delivery under way may be doubted. */
function withLag(draw: Draw, { habits, ...scenario }: Scenario): Scenario | undefined {
  if (looksFailed(habits)) return undefined
  return { ...scenario, habits: { ...habits, lagMs: draw.within(5, 120) * secondMs } }
}

/** The platform has tried for some time before the daemon began, and goes on. */
function withOwnAttempts(draw: Draw, { habits, ...scenario }: Scenario): Scenario {
  const records = scenario.records.map((record) =>
    record.attempts === 0 ? record : { ...record, attempts: draw.within(1, 12) },
  )
  const ownRetries = draw.within(0, 12)
  return {
    ...scenario,
    records,
    habits: { ...habits, ownRetries, ownRetryMs: draw.within(5 * secondMs, 10 * minuteMs) },
  }
}

/** An attempt is counted, and shown as failed, from its beginning on: only what comes of it shows that it had not ended. */
const withEarlyFailures = withHabits((draw) => {
  const longest = draw.within(5, 30) * secondMs
  const shown = { delivery: 'async', meanwhile: 'failed', counts: 'start' } as const
  return { ...shown, deliveryTime: [secondMs, longest], deliveryTimeout: longest, lagMs: 0 }
})

export const evidenceReadings = {
  'lists lag behind': { share: 0.06, change: withLag },
  'attempts are shown as failed at first': { share: 0.05, change: withEarlyFailures },
  'attempts of the platform': { share: 0.06, change: withOwnAttempts },
}
