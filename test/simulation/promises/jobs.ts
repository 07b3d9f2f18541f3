// An operator asks, and the daemon retries: each record of a job is sent once, and has an outcome or a reason; the sums of a job are what was seen of it.
import { standings } from '../../../src/records/job.ts'
import type { AskedJob, Watcher, WatcherOptions } from './watcher.ts'

export function createJobsWatcher({ exercise, platform, violate }: WatcherOptions): Watcher {
  const jobs = new Set<AskedJob>()
  /** Outcomes that were reported, by record. */
  const outcomes = new Map<string, Set<string>>()

  function check(job: AskedJob): void {
    const view = job.view()
    if (view === undefined) {
      jobs.delete(job)
      return
    }
    const { asked, awaiting, excluded, exhausted, found, waiting } = view.sums
    const places = standings.reduce((sum, standing) => sum + view.sums[standing], 0)
    if (found !== excluded + exhausted + asked || asked !== places)
      violate('books', `has a retry job whose sums differ: ${JSON.stringify(view.sums)}`)
    if (view.state === 'running' && waiting + awaiting === 0) violate('waits', 'has a retry job that does not end')
    if (view.state === 'ended' && waiting > 0) violate('books', 'ends a retry job while records wait')
    const seen = new Set<string>()
    for (const { result, webhookId } of job.retried()) {
      const id = webhookId.toLowerCase()
      if (seen.has(id)) violate('books', `has ${id} twice in a retry job`)
      seen.add(id)
      const isOutcome = result === 'recovered' || result === 'failed-again' || result === 'unknown'
      if (isOutcome && outcomes.get(id)?.has(result) !== true)
        violate('untrue', `says ${result} of ${id} in a retry job, and reported no such outcome`)
      const isThere = result === 'recovered' || result === 'resolved'
      if (isThere && platform.records.get(id)?.status !== 'successful')
        violate('untrue', `says ${result} of ${id} in a retry job, which is not delivered`)
    }
    if (view.state !== 'ended') return
    if (asked > 0) exercise('a record of a retry job is sent once, and has an outcome or a reason')
    jobs.delete(job)
  }

  return {
    asked(job) {
      jobs.add(job)
    },
    fact(fact) {
      if (fact.type === 'outcome') outcomes.getOrInsertComputed(fact.webhookId, () => new Set()).add(fact.outcome)
    },
    scraped() {
      for (const job of jobs) check(job)
    },
  }
}
