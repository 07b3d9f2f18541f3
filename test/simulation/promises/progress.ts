// The last progress and the last sweep that saw all are those that happened: an outcome that no check showed is none. @see docs/metrics.md
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import type { Sight, Watcher, WatcherOptions } from './watcher.ts'

/** Answers to a retry that concern the record itself. */
const telling: ReadonlySet<string> = new Set(['accepted', 'already-resolved', 'gone', 'rejected'])
const toleranceSeconds = 0.002

export function createProgressWatcher({ exercise, scenario, timeline, violate }: WatcherOptions): Watcher {
  /** Epoch seconds of the host's clock, as it was then; 0 before the first. */
  const last = { progress: 0, complete_sweep: 0 }

  function hostSeconds(): number {
    const set = scenario.jumps.reduce((sum, { at, ms }) => (at <= timeline.now() ? sum + ms : sum), 0)
    return (scenario.startAt + timeline.now() + scenario.hostAheadMs + set) / 1000
  }

  function isProgress(fact: TelemetryEvent): boolean {
    if (fact.type === 'sweep') return fact.report.result !== 'failed'
    if (fact.type === 'retry') return telling.has(fact.answer.result)
    if (fact.type !== 'outcome') return false
    if (fact.outcome === 'unknown') exercise('an outcome that no check showed is no progress')
    return fact.outcome !== 'unknown'
  }

  return {
    fact(fact) {
      if (isProgress(fact)) last.progress = hostSeconds()
      if (fact.type !== 'sweep') return
      const { continued, kind, result } = fact.report
      if (continued) exercise('a sweep that goes on where there was no room has not seen all')
      else if (kind === 'full' && result === 'complete') last.complete_sweep = hostSeconds()
    },
    scraped({ metrics }: Sight) {
      for (const [name, seconds] of Object.entries(last)) {
        const shown = metrics.get(`last_${name}_timestamp_seconds`)
        if (shown === undefined || Math.abs(shown - seconds) > toleranceSeconds)
          violate('books', `shows the last ${name} at ${shown ?? 'no time'}, it was at ${seconds}`)
      }
    },
  }
}
