// What /metrics and /status show is what was seen from outside, at every scrape. @see docs/status.md, docs/metrics.md
import type { FactOf } from '../../../src/observe/events.ts'
import { isIntercepted, isRefusal } from '../knowledge.ts'
import type { Told } from '../network.ts'
import { clocksOf } from '../world.ts'
import type { Sight, Watcher, WatcherOptions } from './watcher.ts'

/** A certificate is read again once a minute. */
const certificateCheckMs = 70_000
/** The retry loop turns at least so often. */
const turnMs = 30_000
/** A failure is known by then. */
const knownMs = 480_000
const decisions = ['due', 'blocked', 'awaiting', 'backing-off', 'exhausted'] as const

/** What the platform said to a PATCH, as `retries_total` names it. */
function resultOf(told: Told): string {
  const { found, isLimited, kind, status = 0, views } = told
  if (found !== undefined) return 'already-resolved'
  if (kind === 'told' && views.length > 0) return 'accepted'
  if (kind === 'nothing' || kind === 'never-left') return 'unreachable'
  if (status === 401 || status === 403) return 'unauthorized'
  if (status === 429 || isLimited === true) return 'throttled'
  if (isIntercepted(told)) return 'intercepted'
  if (status === 404) return 'gone'
  return status >= 500 || status < 400 ? 'platform-error' : 'rejected'
}

const pausesAll = ({ subscriptionId = null }: { subscriptionId?: string | null | undefined }): boolean =>
  subscriptionId === null

export function createTruthWatcher(options: WatcherOptions): Watcher {
  const { exercise, expectations, holds, keyFiles, knowledge, platform, scenario, timeline, violate } = options
  const { hostNow, identityNow } = clocksOf(scenario, timeline)
  const counts = new Map<string, number>()
  /** Calls that came back, with or without a response. */
  const answered = { list: 0, retry: 0, token: 0, health: 0 }
  const results = new Map<string, Told>()
  let isPaused = false
  let certificateSince = timeline.now()
  let certificate = keyFiles.notAfter()
  /** Answers with the time, and when the last one came from the identity host. */
  const answersOfTime = { auth: 0, api: 0 }
  let identityTimeAt = -Infinity

  const count = (series: string): void => {
    counts.set(series, (counts.get(series) ?? 0) + 1)
  }

  /** A clock that was set has ended the pause: that is reported as the loop turns. */
  function hasJustEnded({ status }: Sight): boolean {
    const isLately = ({ at }: { at: number }): boolean => at <= timeline.now() && at > timeline.now() - turnMs
    return !status.pauses.some(pausesAll) && scenario.jumps.some(isLately)
  }

  function expect({ metrics }: Sight, series: string, value: number, tolerance = 0): void {
    const shown = metrics.get(series) ?? NaN
    // Gauges of what is not known are absent. @see absent.ts
    if (!holds.isSwept() && !metrics.has(series)) return
    if (!(Math.abs(shown - value) <= tolerance)) violate('books', `shows ${series} ${shown}, it is ${value}`)
  }

  /** A call that is replayed with another token is reported with its last response. */
  function retried(fact: FactOf<'retry'>): void {
    const id = fact.webhookId.toLowerCase()
    const told = results.get(id)
    results.delete(id)
    if (told === undefined) return
    count(`retries_total{result="${resultOf(told)}"}`)
    if (isRefusal(told)) exercise('refusals are counted')
  }

  function checkCounters(sight: Sight): void {
    for (const [series, value] of counts) expect(sight, series, value)
    const requests = { books: 0, list: 0, confirm: 0, retry: 0, token: 0 }
    for (const [series, value] of sight.metrics) {
      if (!/^(?:platform|token)_requests_total/.test(series)) continue
      const operation = series.startsWith('token') ? 'token' : /operation="(\w+)"/.exec(series)?.[1]
      if (operation !== undefined) requests[operation as keyof typeof requests] += value
    }
    const { books, confirm, list, retry, token } = requests
    const counted = `${books + list + confirm} lists, ${retry} PATCHes, ${token} token requests`
    const came = `${answered.list} lists, ${answered.retry} PATCHes, ${answered.token} token requests`
    if (counted !== came) violate('books', `counts ${counted}; ${came} came back`)
  }

  /** Retries whose outcome is owed. One with a response is in flight while another token is asked for. */
  const owedNow = (): number => [...knowledge.owed()].filter((id) => !results.has(id)).length

  function checkGauges(sight: Sight): void {
    const owed = owedNow()
    const flying = sight.metrics.get('retries_in_flight') ?? 0
    const known = knowledge.inFlight().size
    // One that waits for a token, or for its replay, is not to be seen on the wire.
    if (flying < known) violate('books', `shows ${flying} retries in flight, there are ${known}`)
    expect(sight, 'failed_webhooks{decision="awaiting"}', owed + flying)
    expect(sight, 'gates{gate="paused"}', isPaused ? 1 : 0)
    const [shown, notClosed] = [sight.status.circuits.notClosed, holds.notClosed().size]
    if (shown !== notClosed) violate('books', `/status has ${shown} circuits not closed, there are ${notClosed}`)
  }

  function checkStatus(sight: Sight): void {
    const { aheadOfClock, causes, expired, failed, missing, pauses } = sight.status
    const mostAhead = scenario.records.filter(({ aheadMs }) => aheadMs !== undefined).length
    // Events of before the platform's clock was put back lie ahead of it.
    if (aheadOfClock > mostAhead && scenario.platformJumps.length === 0)
      violate('books', `/status has ${aheadOfClock} ahead of the clock, there are at most ${mostAhead}`)
    const sum = decisions.reduce((total, decision) => total + failed[decision], 0)
    if (sum > 0) exercise('/status says what is missing')
    const { onlyCounted } = causes
    if (missing !== sum + onlyCounted + expired)
      violate(
        'books',
        `/status says that ${missing} are missing, it shows ${sum}, ${onlyCounted} and ${expired} expired`,
      )
    expect(sight, 'failed_webhooks_only_counted', onlyCounted)
    const caused = causes.list.reduce((total, { records }) => total + records, causes.more.records)
    for (const [decision, records] of Object.entries(failed))
      expect(sight, `failed_webhooks{decision="${decision}"}`, records)
    // A counter does not fall where a clock that is put back, or an operator, brings records into the window again.
    if (scenario.platformJumps.length === 0 && scenario.jobs.every(({ by }) => by === undefined))
      expect(sight, 'expired_webhooks_total', expired)
    if (caused !== sum) violate('books', `/status gives causes for ${caused} records, ${sum} are missing`)
    if (pauses.some(pausesAll) !== isPaused) violate('books', `/status is wrong on the operator's pause`)
  }

  /** What did not last was no recovery, once that is known. */
  function checkTaken({ status: { recovered, summary } }: Sight): void {
    const all = [...platform.records.values()]
    const taken = all.filter(({ changedAt, isTaken }) => isTaken || changedAt > timeline.now() - knownMs).length
    if (recovered.lastDay > taken)
      violate('said', `says that ${recovered.lastDay} are recovered, and at most ${taken} are`)
    if (summary.headline.includes('succeed again') && !all.some(({ isTaken }) => isTaken))
      violate('said', `says "${summary.headline}", and none was taken`)
  }

  function checkCertificate(sight: Sight): void {
    const now = keyFiles.notAfter()
    if (now !== certificate) {
      certificate = now
      certificateSince = timeline.now()
    }
    if (certificate === undefined || timeline.now() - certificateSince <= certificateCheckMs) return
    exercise('the certificate that is in use is shown')
    expect(sight, 'client_certificate_expiry_timestamp_seconds', certificate / 1000)
  }

  /** The platform's clock and this host's were set by as much: for the API's responses, the host was suspended, and the identity host's goes on. */
  function isLikeSuspend(): boolean {
    const isUnseen = ({ at }: { at: number }): boolean => at <= timeline.now() && at > identityTimeAt
    return scenario.jumps.some(
      (jump) => isUnseen(jump) && scenario.platformJumps.some((other) => isUnseen(other) && other.ms === jump.ms),
    )
  }

  /** The difference between the clocks is shown as it is, also after one of them was set. */
  function checkClocks(sight: Sight): void {
    const wasSuspended = scenario.jumps.some((jump) => scenario.platformJumps.includes(jump))
    const skewsMs = { auth: identityNow() - hostNow(), api: platform.now() - hostNow() }
    for (const origin of ['auth', 'api'] as const) {
      if (origin === 'api' && scenario.habits.withoutDate === true) {
        exercise('a time that is not known is said')
        if (sight.status.clock.isKnown) violate('books', '/status knows the time of a platform that sends none')
        continue
      }
      // Of a suspend, the API's responses show it for both.
      const isSure =
        !wasSuspended && origin === 'auth'
          ? !isLikeSuspend()
          : holds.isSureOfTime() && scenario.habits.withoutDate !== true
      if (answersOfTime[origin] === 0 || !isSure) continue
      exercise('the difference between the clocks is shown')
      const tokenMs = origin === 'auth' ? scenario.habits.tokenTime[1] : 0
      const tolerance = (expectations.clockTolerance + tokenMs / 2) / 1000 + 1
      expect(sight, `clock_skew_seconds{origin="${origin}"}`, skewsMs[origin] / 1000, tolerance)
    }
  }

  return {
    told(call, told) {
      if (told.kind === 'given-up') return
      answered[call.operation] += 1
      if (call.operation === 'retry') results.set(call.id, told)
      if (told.hasDate && call.operation === 'token') identityTimeAt = timeline.now()
      if (told.hasDate && call.operation !== 'health') answersOfTime[call.operation === 'token' ? 'auth' : 'api'] += 1
    },
    fact(fact) {
      if (fact.type === 'operator' && 'changed' in fact)
        isPaused = pausesAll(fact) ? fact.command === 'pause' : isPaused
      else if (fact.type === 'retry') retried(fact)
      else if (fact.type === 'outcome') count(`outcomes_total{outcome="${fact.outcome}"}`)
      else if (fact.type === 'circuit') count(`circuit_transitions_total{to="${fact.to}"}`)
      else if (fact.type === 'sweep') {
        const { kind, result } = fact.report
        count(`sweeps_total{kind="${kind}",result="${result}"}`)
      }
    },
    scraped(sight) {
      if (hasJustEnded(sight)) isPaused = false
      exercise('/metrics and /status are true')
      checkCounters(sight)
      expect(sight, 'awaiting_webhooks', owedNow())
      checkStatus(sight)
      checkTaken(sight)
      checkCertificate(sight)
      checkClocks(sight)
      // By the host's clock as it is set now; 0 before the first.
      const { endedAt } = holds.lastComplete() ?? {}
      const completeAt = endedAt === undefined ? 0 : (hostNow() - timeline.now() + endedAt) / 1000
      expect(sight, 'last_complete_sweep_timestamp_seconds', completeAt, 0.002)
      if (!sight.isLast) checkGauges(sight)
    },
  }
}
