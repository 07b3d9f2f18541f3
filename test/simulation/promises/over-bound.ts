// Beside many dead receivers with far more failed records than the backlog holds, healthy records are recovered within the hour. @see docs/architecture.md "Backlog and decisions"
import type { Watcher, WatcherOptions } from './watcher.ts'

const boundMs = 3_600_000

export function createOverBoundWatcher({ exercise, platform, scenario, timeline, violate }: WatcherOptions): Watcher {
  let isDue = scenario.readings.includes('over the bound')

  return {
    scraped() {
      if (!isDue || timeline.now() < boundMs) return
      isDue = false
      const healthy = platform.records.values().filter(({ plan }) => scenario.subscriptions[plan.subscription] === 1)
      const left = [...healthy].filter(({ status }) => status !== 'successful').length
      exercise('healthy records are recovered within the hour')
      if (left > 0) violate('waits', `leaves ${left} records of healthy receivers for an hour`)
    },
  }
}
