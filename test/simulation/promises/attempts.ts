// A retry is reported with the number of its attempt, and a record at the limit has none: PATCHes that were refused, or never left, are not counted. @see docs/architecture.md "Backlog and decisions"
import { isIntercepted } from '../knowledge.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

export function createAttemptsWatcher({ config, exercise, holds, knowledge, violate }: WatcherOptions): Watcher {
  const { maxAttempts } = config.retry
  /** Of the retries that wait for their response: as low and as high as it can be. */
  const numbers = new Map<string, { least: number; most: number }>()

  /** Responses in the platform's place, by record. */
  const intercepted = new Map<string, number>()
  const attemptsOf = (shown: readonly number[], tries: number): number => Math.max(tries, Math.min(...shown))

  return {
    told({ id, operation }, told) {
      const isForeign = told.kind === 'not-its-word' || isIntercepted(told)
      if (operation === 'retry' && isForeign) intercepted.set(id, (intercepted.get(id) ?? 0) + 1)
    },
    sent({ id, operation }) {
      if (operation !== 'retry') return
      const { mayReplay, refusals, sure, tries, views } = knowledge.of(id)
      if (mayReplay || views.length === 0) return
      const shown = views.map(({ attempts }) => attempts)
      numbers.set(id, { least: 1 + sure.tries, most: 1 + Math.max(...shown, tries) })
      if (refusals > 0) exercise('a refused retry is no attempt')
      if (attemptsOf(shown, sure.tries) + (intercepted.get(id) ?? 0) >= maxAttempts)
        exercise('a gateway uses up no attempt')
      const attempts = attemptsOf(shown, sure.tries)
      if (attempts === maxAttempts - 1) exercise('a record at the attempt limit is left alone')
      if (attempts >= maxAttempts && !holds.isAskedFor(id))
        violate('premature', `retries ${id}, which is exhausted: ${attempts} attempts`)
    },
    fact(fact) {
      if (fact.type !== 'retry') return
      const { attempt, webhookId: id } = fact
      const number = numbers.get(id)
      numbers.delete(id)
      if (number === undefined || (attempt >= number.least && attempt <= number.most)) return
      violate('books', `says attempt ${attempt} of ${id}, it is ${number.least} to ${number.most}`)
    },
  }
}
