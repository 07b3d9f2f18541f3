// A record at the attempt limit is not retried; what the platform refused to look at is no attempt. @see docs/architecture.md "Backlog and decisions"
import type { Watcher, WatcherOptions } from './watcher.ts'

export function createExhaustedWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, knowledge, platform, violate } = options
  /** It remembers the tries of as many records as it has places, with and without one. */
  const tried = new Set<string>()
  const remembers = (): boolean => tried.size <= config.backlog.maxRecords
  const { maxAttempts } = config.retry

  return {
    sent({ id, operation }) {
      if (operation === 'retry') tried.add(id)
      const known = knowledge.get(id)
      if (operation !== 'retry' || known === undefined || known.mayReplay || known.views.length === 0) return
      const shown = Math.min(...known.views.map(({ attempts }) => attempts))
      const attempts = Math.max(shown, remembers() ? known.sure.tries : 0)
      if (attempts === maxAttempts - 1) exercise('exhausted')
      if (attempts >= maxAttempts) violate('premature', `retries ${id}, which is exhausted: ${attempts} attempts`)
    },
    scraped({ metrics }) {
      // Records that the daemon alone has touched: it was shown all of their attempts.
      let most = 0
      for (const [id, known] of knowledge.entries()) {
        const record = platform.records.get(id)
        if (known.firstShownAt === undefined || record === undefined) continue
        if (Math.max(record.attempts, known.tries) >= maxAttempts) most += 1
        else if (known.refusals > 0 || known.tries > 0) exercise('not exhausted for refusals')
      }
      const exhausted = metrics.get('failed_webhooks{decision="exhausted"}') ?? 0
      if (exhausted > most) violate('waits', `has ${exhausted} records exhausted, ${most} have so many attempts`)
    },
  }
}
