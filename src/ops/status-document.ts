// The status document: the types of the answer to GET /status, which the page shows too.
import type { SubscriptionNames } from './words.ts'
import type { Incident } from '../observe/incident.ts'
import type { HistoryStep } from '../observe/history.ts'
import type { Reason } from '../platform/http/http.ts'
import type { SweepEnd } from '../observe/progress.ts'
import type { Snapshot } from '../observe/snapshot.ts'
import type { Decision } from '../reconcile/decide.ts'
import type { CircuitView } from '../reconcile/retry/circuits.ts'
import type { Drain } from '../reconcile/drain.ts'
import type { FailedCall } from '../reconcile/retry/platform-breaker.ts'
import type { Gate } from '../reconcile/retry/gates.ts'
import type { CauseStatus, ExhaustedRecord } from './causes.ts'

/** `well`; `working`: it mends itself; `waiting`: for something that passes or is wanted; `trouble`: a person is needed. */
export type Level = 'well' | 'working' | 'waiting' | 'trouble'

export interface Notice {
  level: Exclude<Level, 'well'>
  text: string
  /** The advice. */
  advice: string
  /** Address of its section of the runbook; null without one. */
  runbook: string | null
}

export interface StatusSummary {
  /** Of the headline. Exhausted records alone, which stay for as long as the window is, are no trouble. */
  level: Level
  /** The worst notice, or what goes on, and how many deliveries are missing. */
  headline: string
  /** More on that notice, and its advice; empty without one. */
  detail: string
  advice: string
  runbook: string | null
  /** The other ones, the worst first. */
  notices: Notice[]
}

/** A gate that is shut. */
export interface GateStatus {
  gate: Gate
  /** Null where it is not recorded. */
  since: Date | null
  /** How many subscriptions it blocks; null when it blocks everything. */
  subscriptions: number | null
  /** How long until it may open: to the end of a Retry-After, or to the next ping of the platform; null when no clock tells. */
  opensInSeconds: number | null
  /** With `unauthorized` and `platform`: the call that failed last, else null. */
  call: FailedCall | null
  reason: string
  advice: string
  /** Its section of docs/runbook.md, without `WebhookReconciler`. */
  runbook: string | null
}

/** Of the instances that share a lease. */
export interface LeadershipStatus {
  leading: boolean
  /** Of this instance: `instance.name`, and an id for each start. */
  identity: string
  /** Null while no instance is known to lead. */
  leader: string | null
  /** Since when this instance leads, or stands by. */
  since: Date
  /** Why the lease cannot be read or written; null while it can. */
  problem: string | null
}

/** A circuit that is not closed. */
export interface CircuitStatus extends Omit<CircuitView, 'openForMs' | 'pausesForMs'> {
  /** How long its cooldown goes on; 0 without one. */
  pausesForSeconds: number
  /** When it opened first. */
  openSince: Date
}

/** The incident, with times as dates and spans in seconds; null where there is none. */
export interface IncidentStatus extends Omit<Incident, 'since' | 'endedAt' | 'longestMs' | 'gates'> {
  since: Date
  endedAt: Date | null
  longestSeconds: number | null
  gates: readonly { gate: Gate; seconds: number }[]
}

/** With `failed`: why, and the thing to do about it; in our own words. */
export interface SweepStatus extends Omit<SweepEnd, 'failure'> {
  problem?: string | undefined
  advice?: string | undefined
}

/** The measured part, of which the summary is made. */
export interface StatusFacts {
  instance: string
  version: string
  /** Configured names by id. */
  subscriptions: SubscriptionNames
  startedAt: Date
  /** When this was so. */
  now: Date
  /**
   * Deliveries that are missing: failed records of the window without excluded ones, and `expired` ones. A lower bound while
   * `lastFullSweep` is null, or the zone is wrong.
   */
  missing: number
  /** Records that left the window while they were failed, since the start: they are not retried any more. */
  expired: number
  /** Deliveries that the receiver has refused twice, though it takes others. */
  refusedAgain: number
  drain: {
    /** Deliveries seen to recover in a minute: in the last one, or on average of the last five when none did then. */
    recoveredPerMinute: number
    /** How long until nothing is missing but exhausted records, if each arrives at its next retry; null when unknown. */
    seconds: number | null
    /** When that is. */
    doneAt: Date | null
    /** What decides it, or why it is unknown. */
    limitedBy: Drain['limitedBy']
  }
  /** Failed records of the window by their present decision, as in `failed_webhooks`. */
  failed: Readonly<Record<Decision, number>>
  /** Event time of the oldest failed record that is neither exhausted nor excluded. */
  oldestOpenEvent: Date | null
  /** When it leaves the window: the first of all to do so. Null without one. */
  firstExpiry: Date | null
  /** Failed records that leave the window within `window.expiryWarning`, in all and by decision. */
  expiring: { total: number; byDecision: Snapshot['expiring'] }
  /** Retried records without a known outcome. */
  awaiting: number
  /** Retries that wait for the platform's answer. */
  inFlight: number
  /** Records in processing for longer than `outcome.stuckAfter`, as the last full sweep saw them. */
  stuckProcessing: number
  /** Failed records older than the window, as the last full sweep saw them: they are not retried any more. */
  beyondWindow: number
  /** Null with `leaderElection.kind: none`. */
  leadership: LeadershipStatus | null
  /** Since when an operator's pause goes on; null without one. */
  paused: { since: Date | null } | null
  /** Names of the gates that are shut now; empty when retries may go out. */
  holding: Gate[]
  /** The same, with since when, what they block, and what to do. */
  gates: GateStatus[]
  /** Null without `receiver.healthUrl`. The last answer and its words, `HTTP 503`; null before the first. */
  receiver: { up: boolean | null; detail: string | null } | null
  /** Circuits that are not closed: how many, deliveries that wait for them, and the first of them (at most 1000). */
  circuits: { notClosed: number; deliveries: number; list: CircuitStatus[] }
  /** The rate of calls to the platform. `throttledForSeconds`: how long its Retry-After goes on; 0 without one. */
  rate: { callsPerSecond: number; throttledForSeconds: number }
  /** The last sweeps that ended, newest first (at most 10). */
  sweeps: SweepStatus[]
  /** How many retries in a row the platform did not accept, and the last one's reason; null when it accepted the last. */
  notAccepted: { inARow: number; reason: Reason } | null
  /** Records that somebody else resolved in the last hour, the platform's own retries included. */
  resolvedByOthers: number
  /** When a full sweep last ended without failing; null before the first. */
  lastFullSweep: Date | null
  /** When a full sweep last saw the whole window; null before the first. */
  lastCompleteSweep: Date | null
  nextTick: Date | null
  /** From when on the access token counts as expired; null without one. */
  tokenExpires: Date | null
  /** When the certificate of the signing key ends; null without `auth.certificateFile`. */
  certificateExpires: Date | null
  /** Why the key file, which has changed, can not be used; null while it can. */
  keyProblem: string | null
  /** How far the servers' clocks are ahead of this host's. */
  clock: { skewSeconds: { auth: number; api: number } }
  /**
   * `platform.timeZone`, and how far the attempt times of retried records lie outside the time in which they were made:
   * far from 0 means that the zone is wrong. Null before a retry was seen. `actualOffset`: the platform's offset from UTC
   * now, by these times, `+02:00`.
   */
  timeZone: { platform: string; offsetSeconds: number | null; actualOffset: string | null }
  /** Why deliveries are missing: the causes with the most records (at most 50), and how many more there are. */
  causes: {
    total: number
    list: CauseStatus[]
    more: { causes: number; records: number }
    /** Missing deliveries that had no room in the backlog: only their number is known, and they are in no cause. */
    onlyCounted: number
  }
  /** Records at `retry.maxAttempts`, which are not retried any more: how many, and the oldest (at most 100). */
  exhausted: { total: number; list: ExhaustedRecord[] }
  /** Deliveries seen to recover in the last 24 hours, as far as the process has run, and when the last one was. */
  recovered: { lastDay: number; lastAt: Date | null }
  /** The incident under way, or the last one; null before the first. */
  incident: IncidentStatus | null
  /**
   * Since the beginning of the incident under way, but at least the last hour as far as the process has run, in at most 120
   * equal steps of whole minutes, oldest first; the last one is under way.
   */
  history: HistoryStep[]
}

/**
 * It follows SemVer: fields come, but none goes or changes its meaning while `schemaVersion` is 2. Times are ISO 8601 in
 * UTC on this host's clock. Only ids, types, codes, counts, times and our own sentences; nothing of a webhook's content.
 */
export interface StatusDocument extends StatusFacts {
  schemaVersion: 2
  summary: StatusSummary
}
