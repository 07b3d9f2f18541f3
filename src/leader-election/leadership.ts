// Leadership among several instances: the daemon's interface to it, its events, and the trivial case of a single instance.
import type { Reason } from '../platform/http/http.ts'
import { untilAborted } from '../runtime/notifier.ts'
import type { LeaseFailureReason } from './lease-client.ts'

/** What is known of who leads. */
export interface LeadershipState {
  /** `leaderElection.kind`. */
  kind: 'none' | 'kubernetes'
  isLeading: boolean
  /** `namespace/name` of the lease; undefined without one. */
  lease: string | undefined
  /** Holder identities: of this instance, and of the leader; undefined while no instance is known to lead. */
  identity: string
  leader: string | undefined
  /** Since when this instance leads, or stands by; epoch ms of this host's clock. */
  since: number
  /** Why the lease can't be had, or kept, or was given away; undefined while it can. */
  problem: string | undefined
  /** The same, once an instance that stands by has had no response of use for `leaderElection.leaseDuration`. */
  lastingProblem?: string | undefined
}

/** Why a term of leadership ended. */
export const termEnds = ['released', 'taken', 'expired', 'unreachable'] as const
export type StandbyCause = (typeof termEnds)[number] | 'seen'

export type LeadershipEvent =
  /** This instance leads from now on. */
  | { type: 'leading'; transitions: number }
  /**
   * It does not any more: it released the lease, another one holds it, it was not renewed in time (`problem`), or this
   * instance cannot reach the platform. `seen`: it did not before, and another instance leads from now on.
   */
  | { type: 'standing-by'; cause: StandbyCause; leader: string | undefined; problem?: string }
  /** The lease could not be read or written, and could be again. */
  | { type: 'lease-unavailable'; reason: LeaseFailureReason; problem: string }
  | { type: 'lease-available' }

/** Why a sweep failed; undefined when it did not. */
export type UnansweredSweep = { reason: Reason; code?: string | undefined; advice: string } | undefined

/** Why a command was not done. */
export interface CommandRefusal {
  problem: string
}

export interface LeaderElection {
  /** By the clock, at the moment of asking: a process that slept past its deadline does not lead. */
  isLeading(): boolean
  state(): LeadershipState
  /** Calls `work` for each term of leadership, one at a time; resolves after `stop`. The term's signal ends with `stop` too. */
  lead(work: (term: AbortSignal) => Promise<void>, stop: AbortSignal): Promise<void>
  /**
   * Notes the result of a sweep: why it failed, undefined when it did not. A leader whose sweeps have no response gives the
   * lease away: another instance may have another way to the platform.
   */
  swept(failure: UnansweredSweep): void
  /** Keeps the lease, or waits for it. Rejects with the signal's reason. */
  run(signal: AbortSignal): Promise<void>
  /** Gives the lease to the others, at once; gives up after 5 s without a response. */
  release(): Promise<void>
}

/** `leaderElection.kind: none`: one term, from the start to the end. */
export function leadAlone(identity: string, startedAt: number): LeaderElection {
  return {
    isLeading: () => true,
    state: () => ({
      kind: 'none',
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
