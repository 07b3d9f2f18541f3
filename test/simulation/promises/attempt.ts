// A retry is reported with the number of its attempt: PATCHes that were refused, or never left, are not counted. @see docs/architecture.md "Backlog and decisions"
import type { Watcher, WatcherOptions } from './watcher.ts'

export function createAttemptWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, knowledge, scenario, violate } = options
  /** It remembers the tries of as many records as it has places, with and without one. */
  const tried = new Set<string>()
  const remembers = (): boolean => tried.size <= config.backlog.maxRecords
  /** Where others retry too, a page of before may be taken in after a newer one. */
  const isAlone = scenario.habits.ownRetries + scenario.habits.ownRetriesAfterRetry + scenario.others.length === 0
  /** Of the retries that wait for their answer: as low and as high as it can be. */
  const numbers = new Map<string, { least: number; most: number }>()

  return {
    sent({ id, operation }) {
      if (operation === 'retry') tried.add(id)
      const known = knowledge.get(id)
      if (operation !== 'retry' || known === undefined || known.mayReplay || known.views.length === 0) return
      const shown = known.views.map(({ attempts }) => attempts)
      const least = 1 + Math.max(isAlone ? Math.min(...shown) : 0, remembers() ? known.sure.tries : 0)
      numbers.set(id, { least, most: 1 + Math.max(...shown, known.tries) })
      if (known.refusals > 0) exercise('a refused retry is no attempt')
    },
    fact(fact) {
      if (fact.type !== 'retry') return
      const { attempt, webhookId: id } = fact
      const number = numbers.get(id)
      numbers.delete(id)
      if (number === undefined) return
      if (attempt < number.least) violate('books', `says attempt ${attempt} of ${id}, it is at least ${number.least}`)
      if (attempt > number.most) violate('books', `says attempt ${attempt} of ${id}, it is at most ${number.most}`)
    },
  }
}
