// What one process of the daemon did to each record, and what it was shown of it: made from its calls and its facts alone.
import { probeTimeoutMs } from '../../src/reconcile/retry/circuit-breaker.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { Outcome } from '../../src/reconcile/confirm/evidence.ts'
import { isSweepPage } from './asked.ts'
import type { Call, Told } from './network.ts'
import type { View } from './platform.ts'
import type { World } from './world.ts'

/** The daemon's retries of a record. */
interface Tries {
  /** Retries that the platform took, or may have taken: the largest number. */
  tries: number
  /** Refusals in a row: by 401, 403, an error of the platform with a code; one by a limit, or of a call that never left, is the first of a row. */
  refusals: number
}

/** Of one record. `At` in ms since the start; `triedAt` in epoch ms of the platform's clock. */
export interface Known extends Tries {
  /** The smallest numbers. */
  sure: Tries
  /** Last retry, refused or not. */
  triedAt: number
  /** When its last retry was first sent, in ms since the start: a replay with another token is the same retry. */
  sentAt: number
  /** As failed, since the last retry or its outcome: any of these may be acted on. */
  views: readonly View[]
  /** What was last shown of it and taken in: checks are only for records whose outcome is owed. */
  last: { view: View; askedAt: number; shownAt: number } | undefined
  /** Fewest attempts of the views before the last retry: the daemon compares with one of them. */
  baseline: number
  /** A list that was asked for before this knows less than what happened since. */
  touchedAt: number
  inFlight: Call | undefined
  /** Since its retry was answered, or its response given up. */
  owed: { kind: 'accepted' | 'lost'; why: 'answer' | 'timeout' | 'cut'; at: number } | undefined
  /** Its last retry was a trial: a refusal does not make its rest longer. */
  isTrial: boolean
  /** The platform refused the token: the call may be made once more, as the same retry. */
  mayReplay: boolean
  /** A PATCH, or the look after it, has shown it as successful. */
  isDone: boolean
}

export interface Knowledge {
  /** Made when there is none. */
  of(id: string): Known
  /** Without making one. */
  get(id: string): Known | undefined
  /** Calls that wait for their response, by the record's id. */
  inFlight(): ReadonlyMap<string, Call>
  /** Records whose outcome is owed. */
  owed(): ReadonlySet<string>
  /** Records whose retry failed on the platform's side: each keeps its place in the circuit for `probeTimeoutMs`. */
  failedRetries(): readonly string[]
  sent(call: Call): void
  told(call: Call, told: Told): void
  fact(fact: TelemetryEvent): void
}

const refusing: ReadonlySet<number | undefined> = new Set([401, 403, 429])

/** True for what something in front of the platform says of a call that it did not pass on: an error without a code, or a page. */
export function isIntercepted({ code, isPage, status = 0, views }: Told): boolean {
  if (code !== undefined || refusing.has(status) || views.length > 0) return false
  return (
    status === 501 ||
    status === 511 ||
    (status >= 300 && status < 500) ||
    (status >= 200 && status < 300 && isPage === true)
  )
}

/** True for a response that leaves open whether the retry was taken: none at all, or none of the platform. */
function isLost(told: Told): boolean {
  const { isLimited, kind, status = 0 } = told
  if (isIntercepted(told) || isLimited === true) return false
  return kind === 'nothing' || (kind === 'not-its-word' && (status >= 500 || (status >= 200 && status < 300)))
}

/** True for what a call may be sent once more for, with another token. A page with 200 may come from behind the platform. */
function isReplayable(told: Told): boolean {
  const { status = 0 } = told
  return status === 401 || status === 403 || (status >= 300 && isIntercepted(told))
}

/** The last view may be of a list that lags behind. */
function lastAndNewest(views: readonly View[]): readonly View[] {
  const most = Math.max(...views.map(({ attempts }) => attempts))
  return views.filter((view) => view === views.at(-1) || view.attempts === most)
}

/** True for what is no try: the platform has not even looked at the record. */
export function isRefusal(told: Told): boolean {
  const { code, isLimited, kind, status = 0 } = told
  const isOwnError = kind === 'told' && status >= 500 && code !== undefined
  return kind === 'never-left' || refusing.has(status) || isLimited === true || isIntercepted(told) || isOwnError
}

/** True for a response that shows the platform at work, whatever it says of a record. */
export function isAnswered(told: Told): boolean {
  const { code, kind, status = 0 } = told
  if (kind !== 'told' || refusing.has(status) || isIntercepted(told)) return false
  return status < 400 || (status < 500 && code !== undefined)
}

const untried: Tries = { tries: 0, refusals: 0 }

export function createKnowledge({ config, platform, scenario, timeline }: World): Knowledge {
  const byId = new Map<string, Known>()
  const inFlight = new Map<string, Call>()
  const owed = new Set<string>()
  let hasTrouble = false
  let failures: { id: string; until: number }[] = []

  /** Of the record whose retry made this one; shown before that is answered, it may seem to be a new one. */
  function triesBefore(id: string): Tries & Pick<Known, 'sure'> {
    const retried = byId.get(platform.records.get(id)?.madeBy?.id ?? '')
    if (retried === undefined) return { ...untried, sure: { ...untried } }
    const { inFlight, refusals, sure, tries } = retried
    return inFlight === undefined
      ? { refusals, tries, sure: { ...sure } }
      : { refusals, tries: tries + 1, sure: { ...untried } }
  }

  const of = (id: string): Known =>
    byId.getOrInsertComputed(id, () => ({
      ...triesBefore(id),
      triedAt: -Infinity,
      sentAt: -Infinity,
      views: [],
      last: undefined,
      baseline: 0,
      touchedAt: -Infinity,
      inFlight: undefined,
      owed: undefined,
      isTrial: false,
      mayReplay: false,
      isDone: false,
    }))

  function change(known: Known, by: (tries: Tries) => void): void {
    by(known)
    by(known.sure)
  }

  function refuse(known: Known, isLimited = false): void {
    change(known, (tries) => {
      tries.refusals = known.isTrial ? Math.max(1, tries.refusals) : isLimited ? 1 : tries.refusals + 1
    })
  }

  function toldRetry({ id }: Call, told: Told): void {
    inFlight.delete(id)
    const known = of(id)
    known.inFlight = undefined
    if (told.kind === 'given-up') return
    known.touchedAt = timeline.now()
    known.mayReplay = isReplayable(told)
    // With another token: the fact of the retry says when that is over.
    if (known.mayReplay) return
    const isLimited = told.status === 429 || told.isLimited === true
    if (isLimited || isRefusal(told)) {
      refuse(known, isLimited)
      return
    }
    change(known, (tries) => {
      tries.tries += 1
      if (!isLost(told)) tries.refusals = 0
    })
    if (told.found === 'successful') known.isDone = true
    const isAccepted = told.kind === 'told' && told.views.length > 0
    if (isAccepted || isLost(told)) {
      const why = isAccepted ? 'answer' : told.kind === 'nothing' && told.isTimeout !== true ? 'cut' : 'timeout'
      known.owed = { kind: isAccepted ? 'accepted' : 'lost', why, at: timeline.now() }
      owed.add(id)
      known.views = lastAndNewest(known.views)
    }
  }

  /** A retry whose answer was lost, and that checks have not shown, was none, but a refusal. */
  function settled(known: Known, outcome: Outcome): void {
    const { kind, at } = known.owed ?? { kind: 'accepted', at: 0 }
    const wasNotTaken = outcome === 'unknown' && kind === 'lost'
    // That late, it may be of a record that is processing, or not shown.
    const isSure = wasNotTaken && timeline.now() - at < config.outcome.giveUpAfter
    if (!wasNotTaken) {
      change(known, (tries) => (tries.refusals = 0))
      return
    }
    known.sure.tries -= 1
    known.refusals += 1
    if (!isSure) return
    known.tries -= 1
    known.sure.refusals += 1
  }

  function show(call: Call, view: View): void {
    const known = of(view.id)
    // The response to a PATCH is as new as anything can be.
    const askedAt = call.operation === 'retry' ? timeline.now() : call.sentAt
    const isTakenIn = call.operation === 'retry' || known.owed !== undefined || isSweepPage(call)
    const isNewest = known.last === undefined || known.last.askedAt <= askedAt
    if (isTakenIn && isNewest) known.last = { view, askedAt, shownAt: timeline.now() }
    if (view.status !== 'failed' || askedAt < known.touchedAt) return
    // A list that lags behind shows it as it was.
    if (platform.records.get(view.id)?.status !== 'successful') known.isDone = false
    const before = known.views.at(-1)
    // A last attempt that lies ahead was made before the platform's clock was put back: it counts as none, until it is shown again.
    const lastAt = view.lastAt !== null && view.lastAt > platform.now() ? null : view.lastAt
    const isSame = before?.attempts === view.attempts && before.responseStatusCode === view.responseStatusCode
    if (!isSame || before.lastAt !== lastAt) known.views = [...known.views, { ...view, lastAt }]
  }

  return {
    of,
    get: (id) => byId.get(id),
    inFlight: () => inFlight,
    owed: () => owed,
    failedRetries() {
      failures = failures.filter(({ until }) => until > timeline.now())
      return failures.map(({ id }) => id)
    },
    sent(call) {
      if (call.operation !== 'retry') return
      const known = of(call.id)
      inFlight.set(call.id, call)
      known.inFlight = call
      const isReplay = known.mayReplay
      known.mayReplay = false
      known.triedAt = platform.now()
      if (isReplay) return
      const attempts = known.views.map((view) => view.attempts)
      known.baseline = attempts.length === 0 ? 0 : Math.min(...attempts)
      known.sentAt = timeline.now()
      known.isTrial = hasTrouble
    },
    told(call, told) {
      if (call.operation === 'retry') toldRetry(call, told)
      for (const view of told.views) show(call, view)
    },
    fact(fact) {
      if (fact.type === 'trouble') hasTrouble = fact.trouble !== undefined
      else if (fact.type === 'retry') {
        const known = of(fact.webhookId)
        // It ended with a refused token, or no other token could be had for the replay.
        if (known.mayReplay) refuse(known)
        known.mayReplay = false
        if (fact.response.result === 'platform-error' && known.owed === undefined)
          failures.push({ id: fact.webhookId, until: known.sentAt + probeTimeoutMs })
      } else if (fact.type === 'outcome') {
        const known = of(fact.webhookId)
        settled(known, fact.outcome)
        owed.delete(fact.webhookId)
        known.owed = undefined
        // Of large rows a round reads many parts: an earlier one may have settled it.
        if (scenario.habits.rowBytes < 100_000) known.views = lastAndNewest(known.views)
        if (fact.outcome !== 'recovered') return
        // A list that lags behind may still show it as failed.
        Object.assign(known, { isDone: true, views: [] } satisfies Partial<Known>)
      }
    },
  }
}
