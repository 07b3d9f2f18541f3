// What is known to have arrived is not retried, unless a list that was asked for later shows it as failed. @see docs/architecture.md "Backlog and decisions"
import type { Watcher, WatcherOptions } from './watcher.ts'

export function createResolvedWatcher({ exercise, knowledge, violate }: WatcherOptions): Watcher {
  return {
    told({ id, operation }) {
      if (operation === 'retry' && knowledge.get(id)?.isDone === true) exercise('resolved by another client')
    },
    sent({ id, operation }) {
      if (operation !== 'retry' || knowledge.get(id)?.isDone !== true) return
      violate('premature', `retries ${id}, which was shown to be successful, and not as failed since`)
    },
  }
}
