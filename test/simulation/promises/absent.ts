// A gauge of what is not known is absent: a 0 there means that all is well. @see docs/metrics.md
import type { Watcher, WatcherOptions } from './watcher.ts'

/** Known from the first full sweep on. */
const counted =
  /^(failed_webhooks|failed_webhooks_\w+|missing_webhooks|expiring_webhooks|stuck_processing_webhooks|unreadable_records|oldest_failed_event_timestamp_seconds|estimated_drain_seconds)(\{|$)/

export function createAbsentWatcher({ exercise, holds, violate }: WatcherOptions): Watcher {
  return {
    scraped({ metrics, status }) {
      const isSwept = holds.isSwept()
      const shown = [...metrics.keys()].filter((series) => counted.test(series))
      if (!isSwept) exercise('gauges of what is not known are absent')
      if (!isSwept && shown.length > 0) violate('said', `shows ${shown.join(', ')} before a full sweep has ended`)
      if (isSwept && shown.length === 0) violate('said', 'does not show what is missing, which it knows')
      const missing = [...metrics].filter(([series]) => series.startsWith('missing_webhooks{'))
      const sum = missing.reduce((all, [, records]) => all + records, 0)
      if (isSwept && sum !== status.missing) violate('said', `shows ${sum} missing ones, and says ${status.missing}`)
    },
  }
}
