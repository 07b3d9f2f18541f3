// What /metrics and /status show is what was seen from outside, at every scrape. @see docs/status.md
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import type { Call, Told } from '../network.ts'
import { isRefusal } from '../knowledge.ts'
import type { Sight, Watcher, WatcherOptions } from './watcher.ts'

const certificateCheckMs = 70_000
const decisions = ['due', 'blocked', 'awaiting', 'backing-off', 'exhausted'] as const

/** What the platform said to a PATCH, as `retries_total` names it. */
function resultOf(told: Told): string {
  const { found, kind, status = 0, views } = told
  if (found !== undefined) return 'already-resolved'
  if (kind === 'told' && views.length > 0) return 'accepted'
  if (kind === 'nothing' || kind === 'never-left') return 'unreachable'
  if (status === 401 || status === 403) return 'unauthorized'
  if (status === 429) return 'throttled'
  if (status === 404) return 'gone'
  return status >= 500 || status < 300 ? 'platform-error' : 'rejected'
}

export function createTruthWatcher(options: WatcherOptions): Watcher {
  const { exercise, holds, keyFiles, knowledge, timeline, violate } = options
  const counts = new Map<string, number>()
  /** Calls that came back, with or without an answer. */
  const answered = { list: 0, retry: 0, token: 0, health: 0 }
  const results = new Map<string, Told>()
  let isPaused = false
  let certificateSince = timeline.now()
  let certificate = keyFiles.notAfter()
  const count = (series: string): void => {
    counts.set(series, (counts.get(series) ?? 0) + 1)
  }

  function expect(metrics: Sight['metrics'], series: string, value: number): void {
    const shown = metrics.get(series)
    if (shown !== value) violate('books', `shows ${series} ${shown ?? 'not at all'}, it is ${value}`)
  }

  /** A call that is replayed with another token is reported with its last answer. */
  function retried(fact: Extract<TelemetryEvent, { type: 'retry' }>): void {
    const id = fact.webhookId.toLowerCase()
    const told = results.get(id)
    results.delete(id)
    if (told === undefined) return
    count(`retries_total{result="${resultOf(told)}"}`)
    if (isRefusal(told)) exercise('refusals are counted')
  }

  function checkCounters({ metrics }: Sight): void {
    for (const [series, value] of counts) expect(metrics, series, value)
    const requests = { list: 0, confirm: 0, retry: 0, token: 0 }
    for (const [series, value] of metrics) {
      if (!series.startsWith('platform_requests_total')) continue
      const operation = /operation="(\w+)"/.exec(series)?.[1]
      if (operation !== undefined) requests[operation as keyof typeof requests] += value
    }
    const { confirm, list, retry, token } = requests
    if (list + confirm !== answered.list) violate('books', `counts ${list + confirm} lists, ${answered.list} came back`)
    if (retry !== answered.retry) violate('books', `counts ${retry} PATCHes, ${answered.retry} came back`)
    if (token !== answered.token) violate('books', `counts ${token} token requests, ${answered.token} came back`)
  }
  function checkGauges({ metrics, status }: Sight): void {
    const owed = knowledge.owed().size
    expect(metrics, 'awaiting_webhooks', owed)
    expect(metrics, 'paused', isPaused ? 1 : 0)
    const flying = metrics.get('retries_in_flight') ?? 0
    const known = knowledge.inFlight().size
    // One that waits for a token, or for its replay, is not to be seen on the wire.
    if (flying < known) violate('books', `shows ${flying} retries in flight, there are ${known}`)
    expect(metrics, 'failed_webhooks{decision="awaiting"}', owed + flying)
    const closed = metrics.get('circuits{state="open"}') ?? 0
    if (closed > holds.notClosed().size)
      violate('books', `shows ${closed} open circuits, ${holds.notClosed().size} are`)
    if (status.circuits.notClosed !== holds.notClosed().size) {
      violate(
        'books',
        `/status has ${status.circuits.notClosed} circuits not closed, there are ${holds.notClosed().size}`,
      )
    }
  }

  function checkStatus({ metrics, status }: Sight): void {
    for (const decision of [...decisions, 'excluded'] as const) {
      expect(metrics, `failed_webhooks{decision="${decision}"}`, status.failed[decision])
    }
    const missing = decisions.reduce((sum, decision) => sum + status.failed[decision], 0)
    if (missing > 0) exercise('/status says what is missing')
    if (status.missing !== missing + status.expired)
      violate(
        'books',
        `/status says that ${status.missing} are missing, it shows ${missing} and ${status.expired} expired`,
      )
    expect(metrics, 'expired_webhooks_total', status.expired)
    const { list, more, onlyCounted } = status.causes
    const caused = list.reduce((sum, { records }) => sum + records, more.records + onlyCounted)
    const { exhausted } = status
    if (caused !== missing) violate('books', `/status gives causes for ${caused} records, ${missing} are missing`)
    if (exhausted.total !== status.failed.exhausted)
      violate('books', `/status lists ${exhausted.total} exhausted records`)
    expect(metrics, 'stuck_processing_webhooks', status.stuckProcessing)
    expect(metrics, 'failed_webhooks_beyond_window', status.beyondWindow)
    if ((status.paused !== null) !== isPaused) violate('books', `/status is wrong on the operator's pause`)
  }

  /** It is read again once a minute. */
  function checkCertificate({ metrics }: Sight): void {
    const now = keyFiles.notAfter()
    if (now !== certificate) {
      certificate = now
      certificateSince = timeline.now()
    }
    if (certificate === undefined) return
    const isKnown = timeline.now() - certificateSince > certificateCheckMs
    if (isKnown) {
      exercise('the certificate that is in use is shown')
      expect(metrics, 'client_certificate_expiry_timestamp_seconds', certificate / 1000)
    }
  }

  return {
    told(call: Call, told) {
      if (told.kind === 'given-up') return
      answered[call.operation] += 1
      if (call.operation === 'retry') results.set(call.id, told)
    },
    fact(fact) {
      if (fact.type === 'operator') isPaused = fact.command === 'pause'
      else if (fact.type === 'retry') retried(fact)
      else if (fact.type === 'circuit') count(`circuit_transitions_total{to="${fact.to}"}`)
      else if (fact.type === 'sweep') count(`sweeps_total{kind="${fact.report.kind}",result="${fact.report.result}"}`)
    },
    scraped(sight) {
      exercise('/metrics and /status are true')
      checkCounters(sight)
      checkStatus(sight)
      checkCertificate(sight)
      if (!sight.isLast) checkGauges(sight)
    },
  }
}
