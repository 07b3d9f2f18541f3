// Leader election by a Lease, by the rules of client-go: the instance that renews it leads, and an expired one may be taken.
// @see https://pkg.go.dev/k8s.io/client-go/tools/leaderelection
import pLimit from 'p-limit'
import type { Clock } from '../runtime/clock.ts'
import { parseInstant } from '../runtime/instant.ts'
import { createNotifier } from '../runtime/notifier.ts'
import { runTogether } from '../runtime/run-together.ts'
import type { LeaderElection, LeadershipEvent, StandbyCause } from './leadership.ts'
import { LeaseFailure, type Lease, type LeaseClient } from './lease-client.ts'

export interface ElectionOptions {
  client: LeaseClient
  /** One for each start of a process: a crashed leader must not take its own lease for granted. */
  identity: string
  leaseDurationMs: number
  renewDeadlineMs: number
  retryPeriodMs: number
  clock: Clock
  emit: (event: LeadershipEvent) => void
  /**
   * Called for each state of the lease that is seen, before this instance leads by it. `since`: epoch ms of the operator's
   * pause; undefined while there is none. `isOurs`: this instance has just written it.
   */
  onPause: (since: number | undefined, isOurs: boolean) => void
}

export interface Election extends LeaderElection {
  /** Writes the operator's pause (epoch ms), or its end, into the lease; whether that changed it. Rejects with LeaseFailure. */
  setPause(since: number | undefined, signal?: AbortSignal): Promise<boolean>
}

/** Holds the operator's pause, so that it outlives the leader: ISO 8601, and absent while retries go on. */
export const pauseAnnotation = 'webhook-reconciler/paused-since'

/** The lease as this instance saw it last. */
interface Observed {
  lease: Lease
  /** Changes with each renewal, and not with an annotation. */
  renewal: string
  /** Monotonic ms. The age of a renewal counts on the local monotonic clock: hosts' clocks differ. */
  expiresAt: number
}

/** Another instance may write between our read and our write, but hardly so often. */
const maxConflicts = 5
/** The end of the process does not wait longer for the API. A lease that is not released expires. */
const maxReleaseMs = 5000

const lost = new Error('the lease is lost')

/** A pause that a person wrote in another form is a pause all the same, since it was first seen. */
function pauseOf({ annotations }: Lease, now: number): number | undefined {
  const text = annotations[pauseAnnotation]
  return text === undefined || text === '' ? undefined : (parseInstant(text) ?? now)
}

function withPause({ annotations }: Lease, since: number | undefined): Record<string, string> {
  const others = Object.fromEntries(Object.entries(annotations).filter(([name]) => name !== pauseAnnotation))
  return since === undefined ? others : { ...others, [pauseAnnotation]: new Date(since).toISOString() }
}

export function createElection(options: ElectionOptions): Election {
  const { client, clock, emit, identity, leaseDurationMs, onPause, renewDeadlineMs, retryPeriodMs } = options
  const changed = createNotifier(clock)
  /** One exchange with the API at a time: an older answer never comes after a newer one. */
  const oneByOne = pLimit(1)
  const never = new AbortController().signal
  let observed: Observed | undefined
  /** Our last write, until the API confirms it: it may have been done all the same. `askedAt` as in `leadFrom`. */
  let unconfirmed: { renewTime: string; askedAt: number } | undefined
  /** Aborted when this instance leads no more; undefined while it stands by. */
  let term: AbortController | undefined
  /** Monotonic ms. */
  let leadsUntil = -Infinity
  let since = clock.now()
  let failure: LeaseFailure | undefined
  /** Monotonic ms: when the first of the failures in a row was noted. */
  let failingSince = 0
  let seenLeader: string | undefined

  const isLeading = (): boolean => term !== undefined && clock.monotonic() < leadsUntil
  const isFailing = (): boolean => !isLeading() && clock.monotonic() - failingSince >= leaseDurationMs
  const isExpired = (): boolean => observed === undefined || clock.monotonic() >= observed.expiresAt

  function leaderNow(): string | undefined {
    if (isLeading()) return identity
    const holder = observed?.lease.holder ?? ''
    return ['', identity].includes(holder) || isExpired() ? undefined : holder
  }

  function standBy(cause: Exclude<StandbyCause, 'seen'>): void {
    const ended = term
    if (ended === undefined) return
    term = undefined
    leadsUntil = -Infinity
    since = clock.now()
    ended.abort(lost)
    const leader = cause === 'taken' ? observed?.lease.holder : undefined
    seenLeader = leader
    const problem = cause === 'expired' && failure !== undefined ? { problem: failure.message } : {}
    emit({ type: 'standing-by', cause, leader, ...problem })
    changed.notify()
  }

  /** `askedAt`: before the write was sent, so that the others see it expire later than this instance does. */
  function leadFrom(askedAt: number, { transitions }: Lease): void {
    if (!isLeading()) standBy('expired')
    leadsUntil = askedAt + renewDeadlineMs
    if (term !== undefined || clock.monotonic() >= leadsUntil) return
    term = new AbortController()
    since = clock.now()
    emit({ type: 'leading', transitions })
    changed.notify()
  }

  /** A read that shows our last write confirms it: its answer was lost, or spoke of a failure. */
  function leadByRead(lease: Lease | undefined): void {
    if (unconfirmed === undefined || lease?.version === undefined || lease.holder !== identity) return
    // The API writes the same time in another form.
    const isWritten = parseInstant(lease.renewTime ?? '') === parseInstant(unconfirmed.renewTime)
    if (isWritten) leadFrom(unconfirmed.askedAt, lease)
  }

  function observe(lease: Lease, isOurs: boolean): void {
    const { acquireTime, durationMs = leaseDurationMs, holder, renewTime, transitions } = lease
    const renewal = [holder, acquireTime, renewTime, transitions].join(' ')
    const expiresAt = observed?.renewal === renewal ? observed.expiresAt : clock.monotonic() + durationMs
    observed = { lease, renewal, expiresAt }
    onPause(pauseOf(lease, clock.now()), isOurs)
  }

  /**
   * A lease that was deleted counts as it was seen last, and is made again so: with its holder, which renews it, and with
   * the operator's pause. Undefined when none was ever seen.
   */
  async function readLease(signal: AbortSignal, isOurs: boolean): Promise<Lease | undefined> {
    const lease = await client.read(signal)
    if (lease !== undefined) observe(lease, isOurs)
    if (lease !== undefined || observed === undefined) return lease
    // A person deletes a lease that would hold for years.
    observed.expiresAt = Math.min(observed.expiresAt, clock.monotonic() + leaseDurationMs)
    return { ...observed.lease, version: undefined, durationMs: leaseDurationMs, object: {} }
  }

  function noteLeader(): void {
    const holder = observed?.lease.holder ?? ''
    const isNew = holder !== '' && holder !== identity && holder !== seenLeader
    if (isNew) emit({ type: 'standing-by', cause: 'seen', leader: holder })
    seenLeader = holder
  }

  /** The lease as this instance holds it. */
  function claimOf(lease: Lease | undefined): Lease & { renewTime: string } {
    const renewTime = new Date(clock.now()).toISOString()
    const isSame = lease?.holder === identity
    return {
      version: lease?.version,
      holder: identity,
      durationMs: leaseDurationMs,
      transitions: lease === undefined ? 0 : lease.transitions + (isSame ? 0 : 1),
      acquireTime: isSame ? lease.acquireTime : renewTime,
      renewTime,
      annotations: lease?.annotations ?? {},
      object: lease?.object ?? {},
    }
  }

  /** Free, ours, or expired. */
  function mayTake(): boolean {
    return ['', identity, undefined].includes(observed?.lease.holder) || isExpired()
  }

  /** A leader whose last write was confirmed renews by a write alone. When another one wrote since, it conflicts and is read. */
  const own = (): Lease | undefined => (isLeading() && unconfirmed === undefined ? observed?.lease : undefined)

  async function acquireOrRenew(signal: AbortSignal): Promise<void> {
    const lease = own() ?? (await readLease(signal, false))
    if (!mayTake()) {
      standBy('taken')
      noteLeader()
      return
    }
    leadByRead(lease)
    const claim = claimOf(lease)
    const askedAt = clock.monotonic()
    unconfirmed = { renewTime: claim.renewTime, askedAt }
    const written = await client.write(claim, signal)
    unconfirmed = undefined
    observe(written, false)
    noteLeader()
    leadFrom(askedAt, written)
  }

  /** Again at once when another instance wrote in between: mostly it has won. */
  async function againOnConflict<T>(act: () => Promise<T>): Promise<T> {
    for (let conflicts = 1; ; conflicts++) {
      try {
        return await act()
      } catch (error) {
        const isConflict = error instanceof LeaseFailure && error.reason === 'conflict'
        if (!isConflict || conflicts >= maxConflicts) throw error
      }
    }
  }

  function note(next: LeaseFailure | undefined): void {
    const before = failure
    failure = next
    if (before === undefined) failingSince = clock.monotonic()
    if (next !== undefined) emit({ type: 'lease-unavailable', reason: next.reason, problem: next.message })
    else if (before !== undefined) emit({ type: 'lease-available' })
  }

  /** What the exchange gives; undefined after a failure, which is noted. */
  async function attempt(act: () => Promise<void>): Promise<void> {
    try {
      await oneByOne(() => againOnConflict(act))
      note(undefined)
    } catch (error) {
      if (!(error instanceof LeaseFailure)) throw error
      note(error)
    }
  }

  /** Every `retryPeriod`; a standby also at the moment at which the lease expires. */
  async function keepTrying(signal: AbortSignal): Promise<never> {
    for (;;) {
      const startedAt = clock.monotonic()
      await attempt(() => acquireOrRenew(signal))
      const now = clock.monotonic()
      const expiresAt =
        observed !== undefined && term === undefined && observed.expiresAt > now ? observed.expiresAt : Infinity
      await clock.sleep(Math.min(startedAt + retryPeriodMs, expiresAt) - now, signal)
    }
  }

  /** Ends the term at its deadline, also while a call hangs. */
  async function watchDeadline(signal: AbortSignal): Promise<never> {
    for (;;) {
      if (!isLeading()) standBy('expired')
      await changed.wait(term === undefined ? undefined : leadsUntil - clock.monotonic(), signal)
    }
  }

  return {
    isLeading,
    state: () => ({
      kind: 'kubernetes',
      isLeading: isLeading(),
      lease: client.subject,
      identity,
      leader: leaderNow(),
      since,
      problem: failure?.message,
      lastingProblem: isFailing() ? failure?.message : undefined,
    }),
    async lead(work, stop) {
      while (!stop.aborted) {
        if (term !== undefined && isLeading()) await work(AbortSignal.any([stop, term.signal]))
        // Rejects only when `stop` is aborted, and then the loop is over.
        else await changed.wait(undefined, stop).catch(() => undefined)
      }
    },
    run: (signal) => runTogether([keepTrying, watchDeadline], signal),
    async release() {
      if (term === undefined) return
      standBy('released')
      const late = new AbortController()
      const cancel = clock.timer(maxReleaseMs, () => {
        late.abort(new LeaseFailure('unreachable', 'the lease could not be released in time: it expires'))
      })
      try {
        await attempt(async () => {
          const lease = await client.read(late.signal)
          if (lease?.holder !== identity) return
          const renewTime = new Date(clock.now()).toISOString()
          observe(await client.write({ ...lease, holder: '', durationMs: 1000, renewTime }, late.signal), false)
        })
      } finally {
        cancel()
      }
    },
    setPause: (pausedSince, signal = never) =>
      oneByOne(() =>
        againOnConflict(async () => {
          const free = { ...claimOf(undefined), holder: '', acquireTime: undefined, renewTime: undefined }
          const lease = (await readLease(signal, true)) ?? free
          const isPaused = pauseOf(lease, clock.now()) !== undefined
          const isChange = isPaused !== (pausedSince !== undefined)
          if (!isChange && lease.version !== undefined) return false
          const annotations = isChange ? withPause(lease, pausedSince) : lease.annotations
          observe(await client.write({ ...lease, annotations }, signal), true)
          return isChange
        }),
      ),
  }
}
