// Trouble of the platform stops retries: a list says whether it answers, and single trials whether they are allowed. @see docs/architecture.md "Retry plan"
import { isQuestion } from '../asked.ts'
import { isIntercepted } from '../knowledge.ts'
import type { Call, Told } from '../network.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

const suspiciousRow = 3
/** With the most jitter. */
const shortestPauseMs = 500
const longestPauseMs = 150_000
/** The same within so long of a retry that passed; single refusals are of their records then. */
const [longestSomeMs, passedForMs] = [5000, 900_000]
/** A refused call is made once more with another token within so long, or never. */
const replayedWithinMs = 5000
const tolerance = 0.01
const atOnceMs = 0.001

export function createBreakerWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, knowledge, platform, timeline, violate } = options
  let failures = 0
  /** Retries that went out since the response that made the row three. */
  let sentSince: number | undefined
  /** When the first refusal by 403 came, until retries are allowed again. */
  let blockedAt: number | undefined
  /** The record of that refusal; empty: several were. */
  let blockedBy = ''
  /** Refusals by 403 since one passed, and when that was. */
  let [refusedInARow, passedAt] = [0, -Infinity]
  /** When others were refused that may be made once more: then that counts. */
  const mayBeReplayed = new Map<string, number>()
  /** Trials that were refused since. */
  let refused = 0
  let trial: Call | undefined
  /** When the trials since then were sent, by their records. */
  let trials = new Map<string, number>()
  /** A token is asked for: a refusal by 403 may be of the former one, and its call is made once more. */
  let isRenewing = false
  let isForbidden = false
  /** Calls that were sent once more with another token: no trials. */
  const replays = new WeakSet<Call>()
  let hasTrouble = false
  /** Something in front of the platform has answered the last three retries, and the list is asked. */
  let isSuspicious = false
  /** The list is asked because of three failures. */
  let isAsking = false

  /** When retries were sent whose response was lost, by their records. */
  const lost = new Map<string, number>()
  /** The platform has touched the record since. */
  const isTouched = (id: string, since: number): boolean => (platform.records.get(id)?.changedAt ?? -Infinity) >= since
  const wasTrialTaken = (): boolean => trials.entries().some(([id, sentAt]) => isTouched(id, sentAt))

  function learnPassed(): void {
    ;[refusedInARow, passedAt] = [0, timeline.now()]
    mayBeReplayed.clear()
  }

  /** A list may show that a retry has passed, though its response was lost. */
  function learnArrival(id: string): void {
    if (!isTouched(id, lost.get(id) ?? Infinity)) return
    lost.delete(id)
    learnPassed()
  }

  function forgetRow(): void {
    sentSince = undefined
    failures = 0
  }

  function learnTrouble(told: Told): void {
    const { code, isLimited, isVoid, kind, status = 0 } = told
    // A void token may be answered like a failure: the call is replayed with another token.
    if (isVoid === true) return
    const isUnreachable = kind === 'nothing' || kind === 'never-left'
    const isError = isUnreachable || isIntercepted(told) || status >= 500 || (kind === 'not-its-word' && status < 300)
    failures = isError && isLimited !== true && !(code !== undefined && status < 500) ? failures + 1 : 0
    if (sentSince !== undefined || failures < suspiciousRow) return
    sentSince = 0
    // What comes while it is asked does not change why.
    isSuspicious = !hasTrouble && !isAsking && isIntercepted(told)
    exercise('three failures are asked about')
  }

  /** Where lists pass and a gateway answers retries, single ones go out as after a refusal. */
  function learnQuestion({ kind, status }: Told): void {
    if (isSuspicious && kind === 'told' && status === 200) {
      // The first trial follows at once.
      blockedAt = timeline.now() - atOnceMs
      blockedBy = ''
      refused = -1
    }
    isSuspicious = false
  }

  function learnRefusal(call: Call, told: Told): void {
    const { isVoid, kind, status = 0 } = told
    if (trial === call) trial = undefined
    const isTrial = blockedAt !== undefined && call.sentAt > blockedAt && !replays.has(call)
    const isAnswered = kind === 'told' && !isIntercepted(told) && status !== 429 && status < 500
    const isRefused = status === 403 && isVoid !== true && !isRenewing
    if (isRefused && (isTrial || replays.has(call))) refusedInARow += 1
    else if (isRefused) mayBeReplayed.set(call.id, timeline.now())
    else if (isAnswered && isVoid !== true && status !== 401) learnPassed()
    const settled = mayBeReplayed.values().filter((at) => at < timeline.now() - replayedWithinMs)
    const isRow = refusedInARow + [...settled].length >= suspiciousRow
    const isOfAll = isRow || timeline.now() - passedAt > passedForMs
    if (isTrial && isIntercepted(told)) refused += 1
    else if (isRefused && (isOfAll || blockedAt !== undefined)) {
      if (isTrial) refused += 1
      else if (blockedAt === undefined) refused = 0
      if (blockedAt === undefined) {
        blockedBy = call.id
        trials = new Map()
      }
      blockedAt ??= timeline.now()
    } else if (isRefused) {
      return
    } else if (status === 401 || isVoid === true || (isTrial && isAnswered)) blockedAt = undefined
  }

  function checkTrial(call: Call): void {
    if (blockedAt === undefined) return
    exercise('one trial at a time')
    // Pauses of half a second, twice as long each time, up to minutes.
    const blockedMs = timeline.now() - blockedAt
    const passingMs = Math.min(blockedMs, Math.max(0, passedAt + passedForMs - blockedAt))
    const most = Math.log2(1 + blockedMs / shortestPauseMs) + blockedMs / longestPauseMs + passingMs / longestSomeMs
    if (refused + 1 > most + tolerance)
      violate('limits', `tries ${call.id} after ${refused} refused trials within ${Math.round(blockedMs)} ms`)
    if (trial !== undefined) violate('limits', `tries ${call.id} while the trial of ${trial.id} is under way`)
    trial = call
    trials.set(call.id, call.sentAt)
  }

  return {
    sent(call) {
      if (isQuestion(call)) {
        isAsking = sentSince !== undefined
        forgetRow()
      }
      if (call.operation === 'token') {
        blockedAt = undefined
        isRenewing = true
      }
      if (call.operation !== 'retry') return
      if (knowledge.get(call.id)?.mayReplay === true) {
        // The refusal was of the token, and is none of the record or the platform: a trial goes on.
        failures = Math.max(0, failures - 1)
        if (!mayBeReplayed.delete(call.id)) refusedInARow = Math.max(0, refusedInARow - 1)
        if (failures < suspiciousRow) sentSince = undefined
        if (trials.has(call.id)) {
          refused -= 1
          trial = call
        } else replays.add(call)
        if (blockedBy === call.id || blockedBy === '') blockedAt = undefined
        return
      }
      checkTrial(call)
      if (sentSince === undefined) return
      sentSince += 1
      if (sentSince > config.retry.concurrency)
        violate('limits', 'goes on after three failures in a row without asking')
    },
    told(call, told) {
      if (isQuestion(call)) {
        forgetRow()
        isAsking = false
        learnQuestion(told)
      }
      if (call.operation === 'token') isRenewing = false
      if (call.operation === 'list') for (const { id } of told.views) learnArrival(id)
      if (call.operation !== 'retry' || told.kind === 'given-up') return
      if (told.kind !== 'told') lost.set(call.id, call.sentAt)
      learnTrouble(told)
      learnRefusal(call, told)
    },
    fact(fact) {
      // An operator's probe is sent at once.
      if (fact.type === 'operator' && fact.command === 'probe') refused -= 1
      if (fact.type !== 'trouble') return
      // Responses of retries that were sent before a refusal: a trial of one retry has shown that the platform answers.
      if (isForbidden && fact.trouble === undefined) forgetRow()
      // A check has shown that a trial without a response was accepted.
      if (fact.trouble === undefined && wasTrialTaken()) blockedAt = undefined
      // What was on its way when it began tells nothing new.
      if (fact.trouble === 'platform' || fact.trouble === undefined) isSuspicious = false
      hasTrouble = fact.trouble !== undefined
      isForbidden = fact.trouble === 'unauthorized' || fact.trouble === 'intercepted'
    },
  }
}
