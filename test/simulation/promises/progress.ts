// The last sweep that saw all is the one that happened. @see docs/metrics.md
import type { Sight, Watcher, WatcherOptions } from './watcher.ts'

const toleranceSeconds = 0.002

export function createProgressWatcher({ exercise, scenario, timeline, violate }: WatcherOptions): Watcher {
  /** Epoch seconds of the host's clock, as it was then; 0 before the first. */
  let lastComplete = 0

  function hostSeconds(): number {
    const set = scenario.jumps.reduce((sum, { at, ms }) => (at <= timeline.now() ? sum + ms : sum), 0)
    return (scenario.startAt + timeline.now() + scenario.hostAheadMs + set) / 1000
  }

  return {
    fact(fact) {
      if (fact.type !== 'sweep') return
      const { continued, kind, result } = fact.report
      if (continued) exercise('a sweep that goes on where there was no room has not seen all')
      else if (kind === 'full' && result === 'complete') lastComplete = hostSeconds()
    },
    scraped({ metrics }: Sight) {
      const shown = metrics.get('last_complete_sweep_timestamp_seconds')
      if (shown === undefined || Math.abs(shown - lastComplete) > toleranceSeconds)
        violate('books', `shows the last complete sweep at ${shown ?? 'no time'}, it was at ${lastComplete}`)
    },
  }
}
