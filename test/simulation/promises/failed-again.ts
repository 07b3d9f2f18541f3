// "Failed again" is reported only of what has failed again, and of what is not known to have arrived. @see docs/architecture.md "Outcomes"
import { firstCheckMs } from '../../../src/reconcile/confirm/evidence.ts'
import { isSweepPage } from '../asked.ts'
import type { Call, Told } from '../network.ts'
import type { View } from '../platform.ts'
import { looksFailed } from '../scenario.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** An attempt may be dated up to so long before the PATCH that caused it. */
const clockToleranceMs = 2000
/** Hosts of a platform have clocks of their own: one that was counted is believed so late, with any date. */
const believedMs = 120_000
/** Checks may wait for the rate before they go out. */
const reserveMs = 30_000

/** When a new attempt of what is owed was shown as failed: in the first and in the last call, ms since the start. */
interface Shown {
  firstAt: number
  lastAt: number
}

export function createFailedAgainWatcher(options: WatcherOptions): Watcher {
  const { exempt, exercise, knowledge, platform, scenario, timeline, violate } = options
  const shown = new Map<string, Shown>()
  /** When a list first showed a new attempt while its PATCH was under way: its slice may be taken in after the response. */
  const earlyAt = new Map<string, number>()
  /** A page that is read in parts is taken in at its end: then a PATCH may be answered that was not when a part came. */
  const isReadWhole = scenario.habits.rowBytes < 80_000
  const doubtMs = 4 * firstCheckMs
  /** Records that it was wrong about, and when it said so: their deliveries were under way, which only their success shows. */
  const mistaken = new Map<string, number>()
  /** How often it could learn of a mistake that it had not learned from, and when last; the doubt is at its longest after two. */
  let [lessons, taughtAt] = [0, -Infinity]
  /** Records that were shown for long enough, and since when. */
  const mustBeKnown = new Map<string, number>()

  function checkKnown(): void {
    for (const [id, since] of mustBeKnown) {
      if (timeline.now() <= since) continue
      mustBeKnown.delete(id)
      if (knowledge.get(id)?.owed !== undefined)
        violate('waits', `does not say that ${id} failed again, which checks have shown for long enough`)
    }
  }

  function show(call: Call, view: View): void {
    const known = knowledge.get(view.id)
    if (known === undefined || view.status !== 'failed') return
    const askedAt = call.operation === 'retry' ? timeline.now() : call.sentAt
    const mayBeNew = view.attempts > known.baseline || (view.lastAt ?? 0) >= known.triedAt - clockToleranceMs
    if (askedAt < known.sentAt || !mayBeNew) return
    if (known.owed === undefined) {
      if ((earlyAt.get(view.id) ?? -Infinity) < known.sentAt) earlyAt.set(view.id, askedAt)
      return
    }
    const { firstAt, lastAt } = shown.get(view.id) ?? { firstAt: askedAt, lastAt: askedAt }
    // Of two calls side by side, the one that was sent first may be answered last.
    shown.set(view.id, { firstAt, lastAt: Math.max(lastAt, askedAt) })
    const isSurelyNew = view.attempts > Math.max(0, ...known.views.map(({ attempts }) => attempts))
    if (!isSurelyNew || isSweepPage(call) || askedAt - firstAt < doubtMs + reserveMs) return
    mustBeKnown.set(view.id, timeline.now())
  }

  function checkTruth(id: string): void {
    const record = platform.records.get(id)
    const known = knowledge.get(id)
    if (record === undefined || known === undefined) return
    if (isReadWhole && known.last?.view.status === 'successful')
      violate('untrue', `says that ${id} failed again, which was shown to be successful`)
    const isCounted = record.attempts > known.baseline
    const isLate = isCounted && known.owed?.kind === 'accepted' && timeline.now() - known.sentAt >= believedMs
    // Where no response tells the time, an attempt that is new may be anybody's.
    const isAnybodys = isLate || (isCounted && scenario.habits.withoutDate === true)
    const hasFailed = isAnybodys || record.failedAt >= known.sentAt - clockToleranceMs
    exercise('failed again is true')
    if (hasFailed) return
    if (looksFailed(scenario.habits) && lessons < 2) {
      mistaken.set(id, timeline.now())
      exempt('its delivery is shown as failed while it is under way')
    } else violate('untrue', `says that ${id} failed again, and nothing has failed since its retry`)
  }

  function learn({ id }: Call, { found }: Told): void {
    const said = mistaken.get(id)
    mistaken.delete(id)
    if (found !== 'successful' || said === undefined || said <= taughtAt) return
    lessons += 1
    taughtAt = timeline.now()
  }

  return {
    told(call, told) {
      const { kind, views } = told
      checkKnown()
      if (call.operation === 'retry') {
        shown.delete(call.id)
        learn(call, told)
      }
      if (kind === 'told') for (const view of views) show(call, view)
    },
    scraped: checkKnown,
    fact(fact) {
      if (fact.type !== 'outcome' || fact.isRelapse) return
      const { webhookId: id } = fact
      const { firstAt, lastAt } = shown.get(id) ?? { firstAt: NaN, lastAt: NaN }
      shown.delete(id)
      if (fact.outcome !== 'failed-again') return
      checkTruth(id)
      const early = earlyAt.get(id) ?? -Infinity
      const since = early < knowledge.of(id).sentAt ? firstAt : early
      if (isReadWhole && !(lastAt - since >= doubtMs - 1))
        violate('untrue', `says that ${id} failed again after checks within ${Math.round(lastAt - firstAt)} ms`)
    },
  }
}
