// Healthy records are recovered within the hour, though the backlog is too small for those of dead receivers, or the platform's limit for their probes, or lists fail again and again, or show their first rows alone. @see docs/architecture.md "Backlog and decisions", "Retry plan"
import type { Watcher, WatcherOptions } from './watcher.ts'

const boundMs = 3_600_000

export function createBesideDeadWatcher({ exercise, platform, scenario, timeline, violate }: WatcherOptions): Watcher {
  const stages = ['over the bound', 'probes over the limit', 'outages beside sweeps', 'first rows of dead receivers']
  let isDue = scenario.readings.some((name) => stages.includes(name))

  return {
    scraped({ status }) {
      if (!isDue || timeline.now() < boundMs) return
      isDue = false
      const healthy = platform.records.values().filter(({ plan }) => scenario.subscriptions[plan.subscription] === 1)
      const left = [...healthy].filter(({ status }) => status !== 'successful').length
      exercise('healthy records are recovered within the hour')
      if (left > 0) violate('waits', `leaves ${left} records of healthy receivers for an hour`)
      if (status.lastFullSweep === null) violate('waits', 'has ended no full sweep within an hour')
    },
  }
}
