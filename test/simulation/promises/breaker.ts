// Trouble of the platform stops retries: a list says whether it answers, and single trials whether they are allowed. @see docs/architecture.md "Retry plan"
import { isQuestion } from '../asked.ts'
import type { Call, Told } from '../network.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

const suspiciousRow = 3
const firstPauseMs = 1000
const maxPauseMs = 300_000

export function createBreakerWatcher({ config, exercise, knowledge, timeline, violate }: WatcherOptions): Watcher {
  let failures = 0
  let misrouted = 0
  /** Retries that went out since the answer that made the row three. */
  let sentSince: number | undefined
  /** Since the first refusal by 403: when it came, refused trials since, when the last of these came. */
  let block: { from: number; trials: number; at: number } | undefined
  let trial: Call | undefined
  let isForbidden = false

  function forgetRow(): void {
    sentSince = undefined
    failures = 0
    misrouted = 0
  }

  function learnTrouble({ code, kind, status = 0 }: Told): void {
    misrouted = status === 404 ? misrouted + 1 : 0
    const isUnreachable = kind === 'nothing' || kind === 'never-left'
    const isError = isUnreachable || status >= 500 || (kind === 'not-its-word' && status < 300)
    failures = isError && !(code !== undefined && status < 500) ? failures + 1 : 0
    if (sentSince !== undefined || (failures < suspiciousRow && misrouted < suspiciousRow)) return
    sentSince = 0
    exercise('three failures are asked about')
  }

  function learnRefusal(call: Call, { kind, status = 0 }: Told): void {
    const now = timeline.now()
    if (trial === call) trial = undefined
    const isTrial = block !== undefined && call.sentAt > block.from
    if (status === 401) block = undefined
    else if (status === 403) {
      block ??= { from: now, trials: 0, at: now }
      if (isTrial) block = { ...block, trials: block.trials + 1, at: now }
    } else if (isTrial && (kind === 'told' || status === 404) && status !== 429 && status < 500) {
      // A gateway's 404 can't be told from that of a record that is gone.
      block = undefined
    }
  }

  /** The pauses double, and the jitter takes up to half of each. */
  function checkTrial(call: Call): void {
    if (block === undefined) return
    exercise('one trial after each pause')
    const least = Math.min(maxPauseMs, firstPauseMs * 2 ** Math.min(20, block.trials)) / 2
    const early = block.at + least - timeline.now()
    if (early > 1)
      violate('limits', `tries ${call.id} ${Math.round(early)} ms too early after ${block.trials} refused trials`)
    if (trial !== undefined) violate('limits', `tries ${call.id} while the trial of ${trial.id} is under way`)
    trial = call
  }

  return {
    sent(call) {
      if (isQuestion(call)) forgetRow()
      if (call.operation === 'token') block = undefined
      if (call.operation !== 'retry' || knowledge.get(call.id)?.mayReplay === true) return
      checkTrial(call)
      if (sentSince === undefined) return
      sentSince += 1
      if (sentSince > config.retry.concurrency)
        violate('limits', 'goes on after three failures in a row without asking')
    },
    told(call, told) {
      if (isQuestion(call)) forgetRow()
      if (call.operation !== 'retry' || told.kind === 'given-up') return
      learnTrouble(told)
      learnRefusal(call, told)
    },
    fact(fact) {
      if (fact.type !== 'trouble') return
      // Answers of retries that were sent before a refusal: a trial of one retry has shown that the platform answers.
      if (isForbidden && fact.trouble === undefined) forgetRow()
      isForbidden = fact.trouble === 'unauthorized'
    },
  }
}
