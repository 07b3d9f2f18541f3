// Times that are said come true: the end of the recovery, and the next try. @see docs/status.md
import { doneOf } from '../../../src/ops/figures.ts'
import type { Operation } from '../network.ts'
import { changesAfter, changesOf } from '../world.ts'
import type { Sight, Watcher, WatcherOptions } from './watcher.ts'

const minuteMs = 60_000
/** It is said to the minute, and looked at once a minute. */
const slackMs = 2.5 * minuteMs
const nextSlackMs = 3000
const trialMs = 15_000
/** Until a changed file is read. */
const unreadMs = 15_000

interface Said {
  at: number
  ms: number
  text: string
  ids: Set<string>
}

export function createEstimatesWatcher(options: WatcherOptions): Watcher {
  const { exercise, expectations, knowledge, platform, scenario, timeline, violate } = options
  const changes = changesOf(scenario)
  let said: Said[] = []
  /** True once this process has seen that a success did not last. */
  let hasRelapsed = false
  /** Time of the next try that was said, and what was said. */
  let next: { from: number; to: number; saidAt: number; text: string; operation: Operation } | undefined

  function isOpen(id: string): boolean {
    const record = platform.records.get(id)
    if (record === undefined || record.status === 'successful') return false
    return !expectations.isExhausted({ attempts: record.attempts, tries: knowledge.get(id)?.tries ?? 0 })
  }

  const isOwed = (id: string): boolean => knowledge.owed().has(id) || knowledge.inFlight().has(id)

  function noteDone({ status }: Sight): void {
    const now = timeline.now()
    const { doneAt } = status.drain
    const text = doneOf(status)
    const open = status.missing - status.expired - status.failed.exhausted
    if (doneAt === null || text[0] === 'Unknown' || open === 0) return
    // Of the others nothing is said.
    if (text.join().includes('known by now')) return
    const ids = [...platform.records.values()]
      .filter(({ id, status }) => status === 'failed' || isOwed(id))
      .filter(({ plan }) => plan.aheadMs === undefined && plan.unreadable === undefined)
      .filter((record) => expectations.isSelected(record) && isOpen(record.id))
      .map(({ id }) => id)
    const ms = doneAt.getTime() - status.now.getTime()
    // What has changed within the last minute does not show in the pace yet.
    if (ids.length > 0 && now + 2 * ms + slackMs < changesAfter(changes, now - minuteMs))
      said.push({ at: now, ms, text: text.join(': '), ids: new Set(ids) })
  }

  /** The end of one that fails again is not said. */
  function noteFailed(id: string): void {
    for (const { ids, text } of said) if (text.includes('that fail again')) ids.delete(id)
  }

  /** Until the first success that does not last, the platform's word is all that there is. */
  function noteRelapse(): void {
    if (!hasRelapsed) said = []
    hasRelapsed = true
  }

  function checkDone(): void {
    const now = timeline.now()
    said = said.filter(({ at, ids, ms, text }) => {
      const passed = now - at
      const open = [...ids].filter(isOpen)
      if (open.length > 0) {
        if (passed <= 2 * ms + slackMs) return true
        exercise('the end that is said is the end')
        violate(
          'said',
          `said "done ${text}" ${Math.round(passed / 1000)} s ago, and ${open.length} are open, as ${open[0]}`,
        )
        return false
      }
      exercise('the end that is said is the end')
      if (passed < ms / 2 - slackMs)
        violate('said', `said "done ${text}", and all had arrived after ${Math.round(passed / 1000)} s`)
      return false
    })
  }

  /** The next try that is said, and which call it is. */
  function nextOf({ status }: Sight): { ms: number; operation: Operation } | undefined {
    const { gates, now, summary, tokenTrouble } = status
    if (!summary.detail.includes('The next try is in')) return undefined
    if (tokenTrouble !== null && summary.headline.includes('access token'))
      return { ms: tokenTrouble.nextTry.getTime() - now.getTime(), operation: 'token' }
    const gate = gates.find(({ call, opensInSeconds }) => call !== null && opensInSeconds !== null)
    if (gate?.call == null) return undefined
    // With a token, the next call that needs one is a list.
    const operation = gate.call.operation === 'token' && tokenTrouble === null ? 'list' : gate.call.operation
    return { ms: 1000 * (gate.opensInSeconds ?? 0), operation }
  }

  function noteNext(sight: Sight): void {
    next = undefined
    const said = nextOf(sight)
    if (said === undefined || expectations.hasRepeatedHour) return
    const [saidAt, text] = [timeline.now(), `${sight.status.summary.headline} ${sight.status.summary.detail}`]
    const at = saidAt + said.ms
    // A retry is the trial after a ping; and a token may be asked for by anybody once its time has come.
    const to = at + (said.operation === 'retry' ? trialMs : nextSlackMs)
    if (to < changesAfter(changes, saidAt - unreadMs))
      next = { from: at - nextSlackMs, to, saidAt, text, operation: said.operation }
  }

  return {
    told(call, { status }) {
      // Without a token no other call goes out.
      if (call.operation === 'token' && status !== 200 && next?.operation !== 'token') next = undefined
      // It was not let through, and backs off once more.
      if (call.operation === 'retry' && status === 429) for (const { ids } of said) ids.delete(call.id)
    },
    fact(fact) {
      if (fact.type === 'outcome' && fact.isRelapse) noteRelapse()
      if (fact.type === 'outcome' && fact.outcome === 'failed-again') noteFailed(fact.webhookId)
    },
    sent(call) {
      if (next?.operation !== call.operation) return
      exercise('the next try is the next call')
      const now = timeline.now()
      if (now < next.from || now > next.to)
        violate('said', `said "${next.text}", and the next call (${call.operation}) came after ${now - next.saidAt} ms`)
      next = undefined
    },
    scraped(sight) {
      if (sight.isLast) return
      checkDone()
      noteDone(sight)
      noteNext(sight)
    },
  }
}
