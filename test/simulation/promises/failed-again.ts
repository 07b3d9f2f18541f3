// "Failed again" is reported only of what has failed again, and of what is not known to have arrived. @see docs/architecture.md "Outcomes"
import { isSweepPage } from '../asked.ts'
import type { Call } from '../network.ts'
import type { View } from '../platform.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** An attempt may be dated up to so long before the PATCH that caused it. */
const clockToleranceMs = 2000
/** The first call that shows a failure may have waited before it went out. */
const reserveMs = 3000

export function createFailedAgainWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, knowledge, platform, scenario, timeline, violate } = options
  const { counts, delivery, deliveryTime, meanwhile, queue } = scenario.habits
  /** An attempt that is counted and shown as failed while it is under way can't be distinguished from one that has failed. */
  const looksFailed = counts === 'start' && meanwhile === 'failed'
  /** A delivery that ends sooner than a failure is doubted must not be taken for one. */
  const isQuick = delivery === 'async' && queue[1] + deliveryTime[1] < 4 * config.outcome.firstCheck
  /** Records whose retry was reported to have failed while it was under way. */
  const early = new Map<string, number>()

  /** When a new attempt of what is owed was shown as failed: in the first and in the last call, ms since the start. */
  const shown = new Map<string, { firstAt: number; lastAt: number }>()
  const doubtMs = 4 * config.outcome.firstCheck
  /** Where calls may wait for the rate, it is not seen from outside when a check was asked for. */
  const isPrompt = config.platform.maxRequestsPerSecond >= 20 && scenario.faults.length === 0
  let mustBeKnown: string | undefined
  let mustBeKnownAt = Infinity

  function checkKnown(): void {
    const id = mustBeKnown
    if (id === undefined || timeline.now() <= mustBeKnownAt) return
    mustBeKnown = undefined
    if (knowledge.get(id)?.owed !== undefined)
      violate('waits', `does not say that ${id} failed again, which checks have shown for long enough`)
  }

  function show(call: Call, view: View): void {
    const known = knowledge.get(view.id)
    if (known?.owed === undefined || view.status !== 'failed') return
    const askedAt = call.operation === 'retry' ? timeline.now() : call.sentAt
    const mayBeNew = view.attempts > known.baseline || (view.lastAt ?? 0) >= known.triedAt - clockToleranceMs
    if (askedAt < known.sentAt || !mayBeNew) return
    const { firstAt, lastAt } = shown.get(view.id) ?? { firstAt: askedAt, lastAt: askedAt }
    // Of two calls side by side, the one that was sent first may be answered last.
    shown.set(view.id, { firstAt, lastAt: Math.max(lastAt, askedAt) })
    const isSurelyNew = view.attempts > Math.max(0, ...known.views.map(({ attempts }) => attempts))
    if (!isPrompt || !isSurelyNew || isSweepPage(call) || mustBeKnown !== undefined) return
    if (askedAt - firstAt < doubtMs + reserveMs) return
    mustBeKnown = view.id
    mustBeKnownAt = timeline.now()
  }

  return {
    told(call, { kind, views }) {
      checkKnown()
      if (call.operation === 'retry') shown.delete(call.id)
      if (kind === 'told') for (const view of views) show(call, view)
    },
    scraped: checkKnown,
    fact(fact) {
      if (fact.type !== 'outcome') return
      const { firstAt, lastAt } = shown.get(fact.webhookId) ?? { firstAt: NaN, lastAt: NaN }
      shown.delete(fact.webhookId)
      if (fact.outcome !== 'failed-again') return
      if (!(lastAt - firstAt >= doubtMs - 1))
        violate(
          'untrue',
          `says that ${fact.webhookId} failed again after checks within ${Math.round(lastAt - firstAt)} ms`,
        )
      exercise('failed again is true')
      const { webhookId: id } = fact
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
