// Leadership among several instances: the daemon's interface to it, its events, and the trivial case of one instance.
import type { Reason } from '../platform/http/http.ts'
import { untilAborted } from '../runtime/notifier.ts'
import type { LeaseFailureReason } from './lease-client.ts'

/** Known facts about the leader. */
export interface LeadershipState {
  isLeading: boolean
  /** `namespace/name` of the lease; undefined without one. */
  lease: string | undefined
  /** Holder identities: of this instance, and of the leader; undefined while no instance is known to lead. */
  identity: string
  leader: string | undefined
  /** Since when this instance leads or stands by; epoch ms of this host's clock. */
  since: number
  /** Why the lease cannot be acquired or kept, or was released; undefined otherwise. */
  problem: string | undefined
  /** The same, once a standby has had no usable response for `leaderElection.leaseDuration`. */
  lastingProblem?: string | undefined
}

/** Why a term of leadership ended. */
export const termEnds = ['released', 'taken', 'expired', 'unreachable'] as const
export type StandbyCause = (typeof termEnds)[number] | 'seen'

export type LeadershipEvent =
  /** This instance now leads. */
  | { type: 'leading'; transitions: number }
  /**
   * It no longer leads: it released the lease, another instance holds it, it was not renewed in time (`problem`), or this
   * instance cannot reach the platform. `seen`: it did not lead before, and another instance now does.
   */
  | { type: 'standing-by'; cause: StandbyCause; leader: string | undefined; problem?: string }
  /** The lease became unreadable or unwritable, or usable again. */
  | { type: 'lease-unavailable'; reason: LeaseFailureReason; problem: string }
  | { type: 'lease-available' }

/** Why a sweep failed; undefined if it succeeded. */
export type UnansweredSweep = { reason: Reason; code?: string | undefined; advice: string } | undefined

/** Why a command was not executed. */
export interface CommandRefusal {
  problem: string
}

export interface LeaderElection {
  /** Judged at the time of the call: a process that slept past its deadline does not lead. */
  isLeading(): boolean
  state(): LeadershipState
  /** Calls `work` for each term of leadership, one at a time; resolves after `stop`, which also ends the term's signal. */
  lead(work: (term: AbortSignal) => Promise<void>, stop: AbortSignal): Promise<void>
  /**
   * Reports the result of a sweep. A leader whose sweeps get no response releases the lease: another instance may reach the
   * platform.
   */
  swept(failure: UnansweredSweep): void
  /** Keeps or awaits the lease. Rejects with the signal's reason. */
  run(signal: AbortSignal): Promise<void>
  /** Releases the lease at once; gives up after 5 s without a response. */
  release(): Promise<void>
}

/** `leaderElection.kind: none`: one term, from start to end. */
export function leadAlone(identity: string, startedAt: number): LeaderElection {
  return {
    isLeading: () => true,
    state: () => ({
      isLeading: true,
      lease: undefined,
      identity,
      leader: identity,
      since: startedAt,
      problem: undefined,
    }),
    lead: (work, stop) => work(stop),
    swept: () => undefined,
    run: untilAborted,
    release: () => Promise.resolve(),
  }
}
