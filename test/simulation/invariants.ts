// The invariants, checked as it runs: watches one process of the daemon from outside, every call, every answer, every fact that it tells.
import type { Config } from '../../src/config/schema.ts'
import type { Fact } from '../../src/facts.ts'
import { createCallLimits } from './call-limits.ts'
import { createDeadReceivers, type DeadReceivers } from './dead-receivers.ts'
import type { Expectations } from './expectations.ts'
import type { Call, NetworkWatch, Told } from './network.ts'
import { createOpenListings } from './open-listings.ts'
import type { SimulatedPlatform, SimulatedRecord, View } from './platform.ts'
import type { Scenario } from './scenario.ts'
import type { Invariant, Trace } from './trace.ts'
import type { Timeline } from './timeline.ts'

/** What the platform's side counted of a process: its own facts and metrics must say the same. */
export interface Books {
  accepted: number
  lost: number
  recovered: number
  'failed-again': number
  unknown: number
}

export interface ProcessWatch extends NetworkWatch, DeadReceivers {
  fact(fact: Fact): void
  /** Compares the metrics that it shows with what was seen. */
  scraped(metrics: ReadonlyMap<string, number>, isLast: boolean): void
  books(): Readonly<Books>
  /** Retries whose outcome it owes. */
  owed(): number
  /** How often it retried this record. */
  tries(id: string): number
}

export interface ProcessWatchOptions {
  number: number
  scenario: Scenario
  config: Config
  timeline: Timeline
  platform: SimulatedPlatform
  expectations: Expectations
  trace: Trace
}

/** What it did to a record, and what it was shown of it since. */
interface Touched {
  /** Retries that the platform took, or may have taken; and those since the last of these that it refused, or that never left. */
  tries: number
  refusals: number
  /** Epoch ms of the platform's clock. */
  triedAt: number
  views: View[]
  /** The platform refused the token: the call may be made once more, as the same retry. */
  mayReplay: boolean
}

interface Sweep {
  startedAt: number
}

function isLost({ kind, status = 0 }: Told): boolean {
  return kind === 'nothing' || (kind === 'not-its-word' && (status >= 500 || (status >= 200 && status < 300)))
}

/** The platform refused the call, not the record: with its word, or before it could have heard of it. */
function isRefusal({ kind, status = 0 }: Told): boolean {
  return kind === 'never-left' || [401, 403, 429].includes(status) || (kind === 'told' && status >= 500)
}

export function createProcessWatch(options: ProcessWatchOptions): ProcessWatch {
  const { config, expectations, platform, scenario, timeline, trace } = options
  const { concurrency } = config.retry
  const name = `process ${options.number}`
  const violate = (invariant: Invariant, what: string): void => {
    trace.violate(invariant, `${name} ${what}`)
  }
  let freeSince = timeline.now()
  const held = (): void => {
    freeSince = timeline.now()
  }
  const limits = createCallLimits({
    config,
    now: timeline.now,
    onHold: held,
    violate: (what) => {
      violate('limits', what)
    },
  })
  const dead = createDeadReceivers({
    ...options,
    now: timeline.now,
    violate: (what) => {
      violate('dead-receiver', what)
    },
  })
  const inFlight = new Map<string, Call>()
  const listings = createOpenListings(config.sweep.sliceRecords)
  /** Retries that were accepted, or whose answer was lost, and no outcome told yet. */
  const owed = new Map<string, 'accepted' | 'lost'>()
  const touched = new Map<string, Touched>()
  const books: Books = { accepted: 0, lost: 0, recovered: 0, 'failed-again': 0, unknown: 0 }
  let sweeps: Sweep[] = []
  /** Circuits that pause or probe. */
  const notClosed = new Set<string>()
  let hasTrouble = false
  let isPaused = false
  /** What it could not remember for want of room is not held against it. */
  const isRoomy = config.backlog.maxRecords >= scenario.records.length
  function touchedOf(id: string): Touched {
    const known = touched.get(id) ?? { tries: 0, refusals: 0, triedAt: -Infinity, views: [], mayReplay: false }
    touched.set(id, known)
    return known
  }

  /** The earliest moment that any of what it was shown since its last retry allows, in epoch ms of the platform's clock. */
  function earliestDue(record: SimulatedRecord, { refusals, tries, triedAt, views }: Touched): number {
    const dues = views.map(({ attempts, lastAt }) =>
      expectations.earliestDue(record, {
        attempts: Math.max(attempts, isRoomy ? tries : 0),
        refusals: isRoomy ? refusals : 0,
        lastAt: Math.max(lastAt ?? record.eventAt, isRoomy ? triedAt : -Infinity),
      }),
    )
    return Math.min(...dues)
  }

  function checkRetry(call: Call): void {
    const { id } = call
    const record = platform.records.get(id.toLowerCase())
    if (record === undefined) {
      violate('premature', `retries ${id}, which the platform never had`)
      return
    }
    if (inFlight.has(id)) violate('premature', `retries ${id} while its retry is in flight`)
    const owing = owed.get(id)
    if (owing !== undefined) violate('premature', `retries ${id} whose outcome is not known (${owing})`)
    const known = touchedOf(id)
    if (!expectations.isSelected(record)) violate('premature', `retries ${id}, which is not selected`)
    if (known.views.length === 0) violate('premature', `retries ${id} without having been shown it as failed`)
    if (listings.spans().some(({ from, to }) => platform.isBetween(record, from, to))) {
      violate('premature', `retries ${id} while the list that it stands in is being read`)
    }
    const earliest = earliestDue(record, known) - expectations.clockTolerance
    if (platform.now() < earliest) {
      violate('premature', `retries ${id} ${Math.round(earliest - platform.now())} ms before it is due`)
    }
  }

  function sendRetry(call: Call): void {
    const known = touchedOf(call.id)
    if (known.mayReplay) {
      known.mayReplay = false
      known.refusals -= 1
    } else {
      checkRetry(call)
      known.triedAt = platform.now()
    }
    inFlight.set(call.id, call)
    if (inFlight.size > concurrency) {
      violate('limits', `has ${inFlight.size} retries in flight, ${concurrency} are allowed`)
    }
    if (inFlight.size >= concurrency - 1) held()
    if (isFull()) held()
  }

  /** Whether an allowance may hold it: half of an initial one is used up. */
  function isFull(): boolean {
    return owed.size + inFlight.size >= Math.max(1, config.circuit.initialAllowance / 2)
  }

  function toldRetry(call: Call, told: Told): void {
    inFlight.delete(call.id)
    const known = touchedOf(call.id)
    if (told.kind === 'given-up') return
    if (isRefusal(told)) known.refusals += 1
    else {
      known.tries += 1
      known.refusals = 0
    }
    known.mayReplay = told.status === 401
    if (isLost(told)) {
      owed.set(call.id, 'lost')
      books.lost += 1
    } else if (told.kind === 'told' && told.views.length > 0) {
      owed.set(call.id, 'accepted')
      books.accepted += 1
    }
    if (owed.has(call.id)) known.views = known.views.slice(-1)
  }

  /** A retry for which no token could be had is not seen from outside: only its fact tells of it. */
  function toldOfRetry({ answer, id }: Extract<Fact, { type: 'retry' }>): void {
    const known = touchedOf(id)
    if (!answer.sent && !known.mayReplay) {
      known.refusals += 1
      known.triedAt = platform.now()
    }
    known.mayReplay = false
  }

  function show(views: readonly View[]): void {
    for (const view of views) {
      const known = touchedOf(view.id)
      const last = known.views.at(-1)
      if (view.status !== 'failed') continue
      if (last?.attempts !== view.attempts || last.lastAt !== view.lastAt) known.views.push(view)
    }
  }

  function outcome(fact: Extract<Fact, { type: 'outcome' }>): void {
    const record = platform.records.get(fact.id.toLowerCase())
    books[fact.outcome] += 1
    if (isFull()) held()
    if (fact.outcome === 'recovered' && record?.status !== 'successful') {
      violate('untrue', `says that ${fact.id} is recovered, which is ${record?.status ?? 'unknown'}`)
    }
    if (!owed.delete(fact.id)) violate('books', `tells an outcome of ${fact.id} that it does not owe`)
    // What it saw last is what counts from here on: views of before the retry are no longer acted on.
    const known = touchedOf(fact.id)
    if (fact.outcome === 'failed-again') known.views = known.views.slice(-1)
  }

  /** A record that was due, free to go and known, and that nobody retried through two whole sweeps. */
  function isOverdue(record: SimulatedRecord, since: number): boolean {
    const { refusals, tries, triedAt } = touched.get(record.id) ?? { refusals: 0, tries: 0, triedAt: -Infinity }
    if (record.status !== 'failed' || record.busy > 0 || record.changedAt > since || owed.has(record.id)) return false
    if (!expectations.isSelected(record)) return false
    const known = {
      attempts: Math.max(record.attempts, tries),
      refusals,
      lastAt: Math.max(record.lastAt ?? record.eventAt, triedAt),
    }
    if (expectations.isParked(known)) return false
    const sinceTruth = scenario.startAt + since
    if (expectations.isLapsed(record, platform.now(), 0)) return false
    return expectations.latestDue(record, known) + expectations.clockTolerance < sinceTruth
  }

  function swept(report: Extract<Fact, { type: 'sweep' }>['report']): void {
    if (report.result !== 'complete') held()
    if (report.kind !== 'full' || report.continued || report.result !== 'complete') return
    sweeps = [...sweeps.slice(-1), { startedAt: timeline.now() - report.seconds * 1000 }]
    const [before] = sweeps
    if (sweeps.length < 2 || before === undefined || !isRoomy || config.retry.orderPerEntity) return
    if (isHeld() || freeSince >= before.startedAt || !isCalmSince(before.startedAt)) return
    for (const record of platform.records.values()) {
      if (!isOverdue(record, before.startedAt)) continue
      violate('waits', `lets ${record.id} wait through two full sweeps although it is due`)
      return
    }
  }

  /** Whether anything holds retries now. */
  function isHeld(): boolean {
    return isPaused || hasTrouble || isFull() || limits.isReceiverDown() || notClosed.size > 0
  }

  /** Whether nothing outside held it up since then. */
  function isCalmSince(at: number): boolean {
    const now = timeline.now()
    const touches = ({ from, to }: { from: number; to: number }): boolean => from <= now && to > at
    return !scenario.faults.some(touches) && !scenario.receivers.some(({ outages }) => outages.some(touches))
  }

  function checkMetric(metrics: ReadonlyMap<string, number>, metric: string, most: number): void {
    const value = metrics.get(metric) ?? 0
    if (value > most) violate('bounds', `shows ${metric} ${value}, ${most} are allowed`)
  }

  function checkBooks(metrics: ReadonlyMap<string, number>): void {
    const { accepted, lost, recovered, unknown } = books
    const awaiting = metrics.get('awaiting_webhooks') ?? 0
    const known = recovered + books['failed-again'] + unknown
    if (accepted + lost !== known + awaiting) {
      violate('books', `accepted ${accepted} + lost ${lost} is not known ${known} + awaiting ${awaiting}`)
    }
    const shown = metrics.get('retries_total{result="accepted"}') ?? 0
    if (shown !== accepted) violate('books', `counts ${shown} accepted retries, there were ${accepted}`)
    for (const kind of ['recovered', 'failed-again', 'unknown'] as const) {
      const counted = metrics.get(`outcomes_total{outcome="${kind}"}`) ?? 0
      if (counted !== books[kind]) violate('books', `counts ${counted} ${kind}, it told ${books[kind]}`)
    }
  }

  return {
    note: trace.note,
    sent(call) {
      trace.note(`${name} call ${call.number} ${call.operation} ${call.id.slice(0, 8)}`)
      limits.sent(call)
      listings.sent(call)
      if (call.operation === 'retry') sendRetry(call)
    },
    told(call, told) {
      trace.note(`${name} call ${call.number} answer ${told.kind} ${told.status ?? ''} rows=${told.views.length}`)
      limits.told(call, told)
      listings.told(call, told)
      if (call.operation === 'retry') toldRetry(call, told)
      show(told.views)
    },
    fact(fact) {
      if (fact.type === 'retry') {
        toldOfRetry(fact)
      } else if (fact.type === 'outcome') {
        trace.note(`${name} outcome ${fact.id.slice(0, 8)} ${fact.outcome}`)
        outcome(fact)
      } else if (fact.type === 'circuit') {
        trace.note(`${name} circuit ${fact.subscriptionId.slice(0, 8)} ${fact.to}`)
        if (fact.to === 'closed') notClosed.delete(fact.subscriptionId)
        else notClosed.add(fact.subscriptionId)
        held()
      } else if (fact.type === 'trouble') {
        trace.note(`${name} trouble ${fact.trouble ?? 'over'}`)
        hasTrouble = fact.trouble !== undefined
        held()
      } else if (fact.type === 'sweep') {
        const { kind, result, seconds } = fact.report
        trace.note(`${name} sweep ${kind} ${result} listed=${fact.report.listed} ${seconds.toFixed(3)}s`)
        swept(fact.report)
      } else if (fact.type === 'paused') {
        trace.note(`${name} ${fact.paused ? 'paused' : 'resumed'}`)
        isPaused = fact.paused
        limits.paused(isPaused)
      } else if (fact.type === 'receiver') {
        trace.note(`${name} receiver ${fact.up ? 'up' : 'down'}`)
        held()
      }
    },
    delivered: dead.delivered,
    scraped(metrics, isLast) {
      checkMetric(metrics, 'backlog_records', config.backlog.maxRecords)
      checkMetric(metrics, 'awaiting_webhooks', config.backlog.maxRecords)
      if (isLast) checkBooks(metrics)
    },
    books: () => books,
    owed: () => owed.size,
    tries: (id) => touched.get(id)?.tries ?? 0,
  }
}
