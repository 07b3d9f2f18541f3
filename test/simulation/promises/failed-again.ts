// "Failed again" is reported only of what has failed again, and of what is not known to have arrived. @see docs/architecture.md "Outcomes"
import type { Watcher, WatcherOptions } from './watcher.ts'

/** An attempt may be dated up to so long before the PATCH that caused it. */
const clockToleranceMs = 2000

export function createFailedAgainWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, knowledge, platform, scenario, timeline, violate } = options
  const { counts, delivery, deliveryTime, meanwhile, queue } = scenario.habits
  /** An attempt that is counted and shown as failed while it is under way can't be distinguished from one that has failed. */
  const looksFailed = counts === 'start' && meanwhile === 'failed'
  /** A delivery that ends sooner than a failure is doubted must not be taken for one. */
  const isQuick = delivery === 'async' && queue[1] + deliveryTime[1] < 4 * config.outcome.firstCheck
  /** Records whose retry was reported to have failed while it was under way. */
  const early = new Map<string, number>()

  return {
    fact(fact) {
      if (fact.type !== 'outcome' || fact.outcome !== 'failed-again') return
      exercise('failed again is true')
      const { id } = fact
      const record = platform.records.get(id)
      const known = knowledge.get(id)
      if (record === undefined || known === undefined) return
      if (known.last?.view.status === 'successful') {
        violate('untrue', `says that ${id} failed again, which was shown to be successful`)
      }
      if (record.failedAt >= known.sentAt - clockToleranceMs) return
      if (looksFailed) {
        early.set(id, timeline.now())
        return
      }
      // An attempt that no list had shown before the retry may have been made before it, too.
      if (record.attempts > known.baseline) return
      violate('untrue', `says that ${id} failed again, and nothing has failed since its retry`)
    },
    sent({ id }) {
      early.delete(id)
    },
    delivered({ id, status }) {
      const toldAt = early.get(id)
      if (toldAt === undefined) return
      early.delete(id)
      if (status === 'successful' && isQuick) violate('untrue', `said that ${id} failed again while it was under way`)
    },
  }
}
