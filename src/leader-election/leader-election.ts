// Leader election by a Lease, by the rules of client-go: the instance that renews it leads; an expired lease may be taken.
// @see https://pkg.go.dev/k8s.io/client-go/tools/leaderelection
import pLimit from 'p-limit'
import { deadline, type Clock } from '../runtime/clock.ts'
import { parseInstant } from '../runtime/instant.ts'
import { abortable } from '../runtime/notifier.ts'
import { runTogether } from '../runtime/run-together.ts'
import type { LeaderElection, LeadershipEvent, StandbyCause } from './leadership.ts'
import { LeaseFailure, leaseTimes, type Lease, type LeaseClient } from './lease-client.ts'
import { claimOf, pausesOf, refuseForeign, released, withPauses, type Claimant } from './lease-claim.ts'
import { createReach } from './reach.ts'
import { createSighting } from './sighting.ts'
import { createTerm, type Moment } from './term.ts'

export interface ElectionOptions extends Claimant {
  client: LeaseClient
  clock: Clock
  emit: (event: LeadershipEvent) => void
  /**
   * Called for each observed state of the lease, before this instance leads by it. `text`: the annotation with the operator's
   * pauses; empty without any. `isOurs`: this instance has just written it.
   */
  onPauses: (text: string, isOurs: boolean) => void
}

export interface Election extends LeaderElection {
  /** Changes the annotation with the operator's pauses; true if that changed it. Rejects with LeaseFailure. */
  changePauses(change: (text: string) => string): Promise<boolean>
}

/** Another instance may write between a read and a write, but rarely this often. */
const maxConflicts = 5
/** Maximum wait for the API at the end of the process. An unreleased lease expires. */
const maxReleaseMs = 5000
/** Maximum wait of a command for the API: a renewal, a read and a write in sequence. */
const maxPauseMs = 20_000

/** Runs an action, which may wait for its turn first, with a signal. After `ms` that aborts, and the wait ends, with this message. */
async function within<T>(
  [ms, message]: readonly [number, string],
  clock: Pick<Clock, 'timer'>,
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  using late = deadline(clock, ms, new LeaseFailure('unreachable', message))
  return await abortable(act(late.signal), late.signal)
}

/** Repeats at once when another instance wrote in between; usually that instance has won. */
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

export function createElection(options: ElectionOptions): Election {
  const { client, clock, emit, identity, leaseDurationMs, onPauses, platform } = options
  const { renewDeadlineMs, retryPeriodMs } = leaseTimes(leaseDurationMs)
  /** One exchange with the API at a time: an older response never follows a newer one. */
  const slot = pLimit(1)
  const oneByOne = <T>(act: () => Promise<T>): Promise<T> => slot(() => againOnConflict(act))
  const sighting = createSighting(clock, leaseDurationMs)
  const term = createTerm(clock, renewDeadlineMs)
  /** Our last write until the API confirms it: it may have succeeded. `asked` as in Term. */
  let unconfirmed: { renewTime: string; asked: Moment } | undefined
  let failure: LeaseFailure | undefined
  /** Monotonic ms of the first of the consecutive failures. */
  let failingSince = 0
  let seenLeader: string | undefined
  const reach = createReach(clock, leaseDurationMs)

  const isFailing = (): boolean => !term.isOn() && clock.monotonic() - failingSince >= leaseDurationMs

  function leaderNow(): string | undefined {
    if (term.isOn()) return identity
    const holder = sighting.holder()
    return ['', identity].includes(holder) || sighting.isExpired() ? undefined : holder
  }

  function standBy(cause: Exclude<StandbyCause, 'seen'>, problem?: string): void {
    if (!term.end()) return
    const leader = cause === 'taken' ? sighting.holder() : undefined
    seenLeader = leader
    emit({ type: 'standing-by', cause, leader, ...(problem !== undefined && { problem }) })
  }

  function expire(): void {
    standBy('expired', failure?.message)
  }

  function leadFrom(asked: Moment, { transitions }: Lease): void {
    if (!term.isOn()) expire()
    if (!term.lead(asked)) return
    reach.begin()
    emit({ type: 'leading', transitions })
  }

  /** A read that shows our last write confirms it: the response was lost, or reported a failure. */
  function leadByRead(lease: Lease | undefined): void {
    if (unconfirmed === undefined || lease?.holder !== identity) return
    // The API formats the same time differently.
    const isWritten = parseInstant(lease.renewTime ?? '') === parseInstant(unconfirmed.renewTime)
    if (isWritten) leadFrom(unconfirmed.asked, lease)
  }

  function observe(lease: Lease, isOurs: boolean): void {
    sighting.see(lease)
    onPauses(pausesOf(lease), isOurs)
  }

  async function readLease(signal: AbortSignal, isOurs: boolean): Promise<Lease | undefined> {
    const lease = await client.read(signal)
    if (lease === undefined) return sighting.miss()
    observe(lease, isOurs)
    return lease
  }

  function noteLeader(): void {
    const holder = sighting.holder()
    const isNew = holder !== '' && holder !== identity && holder !== seenLeader
    if (isNew) emit({ type: 'standing-by', cause: 'seen', leader: holder })
    seenLeader = holder
  }

  /** Free, ours, or expired. */
  function mayTake(): boolean {
    return !reach.isAbstaining() && (['', identity].includes(sighting.holder()) || sighting.isExpired())
  }

  /** Writes a claim of this instance, or another change of the lease. */
  async function write(lease: Lease, signal: AbortSignal, isOurs = false): Promise<void> {
    const isClaim = (): boolean => lease.holder === identity && !reach.isAbstaining()
    const asked = { monotonic: clock.monotonic(), wall: clock.now() }
    if (isClaim()) unconfirmed = { renewTime: lease.renewTime ?? '', asked }
    const written = await client.write(lease, signal)
    unconfirmed = undefined
    observe(written, isOurs)
    noteLeader()
    if (isClaim()) leadFrom(asked, written)
  }

  /**
   * A leader whose last write was confirmed renews by a write alone. If another instance wrote since, that conflicts, and the
   * lease is read.
   */
  const own = (): Lease | undefined => (term.isOn() && unconfirmed === undefined ? sighting.lease() : undefined)

  /** Releases the lease at once. */
  async function giveAway(signal: AbortSignal): Promise<void> {
    const lease = await client.read(signal)
    if (lease?.holder !== identity) return
    await write(released(lease, clock.now()), signal)
  }

  async function acquireOrRenew(signal: AbortSignal): Promise<void> {
    if (reach.isAbstaining() && sighting.holder() === identity) await giveAway(signal)
    const lease = own() ?? (await readLease(signal, false))
    if (!mayTake()) {
      standBy('taken')
      noteLeader()
      refuseForeign(lease, platform, client.subject)
      return
    }
    leadByRead(lease)
    await write(claimOf(lease, options, clock.now()), signal)
  }

  /** A leader renews the lease with the same write, so that commands cannot prevent renewals. */
  async function claimPauses(change: (text: string) => string, signal: AbortSignal): Promise<boolean> {
    const isChangeOf = (lease: Lease): boolean => change(pausesOf(lease)) !== pausesOf(lease)
    const held = own()
    const free = {
      ...claimOf(undefined, options, clock.now()),
      holder: '',
      acquireTime: undefined,
      renewTime: undefined,
    }
    // Only a read can show that nothing changes: another instance may have written since.
    const lease = held !== undefined && isChangeOf(held) ? held : ((await readLease(signal, true)) ?? free)
    if (!mayTake()) refuseForeign(lease, platform, client.subject)
    const isChange = isChangeOf(lease)
    if (!isChange && lease.version !== undefined) return false
    const claim = lease.holder === identity && mayTake() ? claimOf(lease, options, clock.now()) : lease
    await write(withPauses(claim, change(pausesOf(lease))), signal, true)
    return isChange
  }

  function note(next: LeaseFailure | undefined): void {
    const before = failure
    failure = next
    if (before === undefined) failingSince = clock.monotonic()
    if (next !== undefined) emit({ type: 'lease-unavailable', reason: next.reason, problem: next.message })
    else if (before !== undefined) emit({ type: 'lease-available' })
  }

  /** Records a failure. */
  async function attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act()
      note(undefined)
    } catch (error) {
      if (!(error instanceof LeaseFailure)) throw error
      note(error)
    }
  }

  /** Every retry period; a standby also when the lease expires. */
  async function keepTrying(signal: AbortSignal): Promise<never> {
    for (;;) {
      const startedAt = clock.monotonic()
      await attempt(() => oneByOne(() => acquireOrRenew(signal)))
      const now = clock.monotonic()
      const expiresAt = !term.hasBegun() && sighting.expiresAt() > now ? sighting.expiresAt() : Infinity
      await clock.sleep(Math.min(startedAt + retryPeriodMs, expiresAt) - now, signal)
    }
  }

  return {
    isLeading: term.isOn,
    state: () => ({
      isLeading: term.isOn(),
      lease: client.subject,
      identity,
      leader: leaderNow(),
      since: term.since(),
      problem: failure?.message ?? (term.isOn() ? undefined : reach.problem()),
      lastingProblem: isFailing() ? failure?.message : undefined,
    }),
    lead: term.work,
    run: (signal) => runTogether([keepTrying, (ended) => term.watch(expire, ended)], signal),
    swept(result) {
      const problem = reach.swept(result, term.isOn())
      if (problem !== undefined) standBy('unreachable', problem)
    },
    async release() {
      if (!term.hasBegun()) return
      standBy('released')
      const limit = [maxReleaseMs, 'the lease could not be released in time: it expires'] as const
      await attempt(() => within(limit, clock, (signal) => oneByOne(() => giveAway(signal))))
    },
    changePauses(change) {
      const limit = [maxPauseMs, `the Kubernetes API took over ${maxPauseMs / 1000} s: ask for the status`] as const
      return within(limit, clock, (signal) => oneByOne(() => claimPauses(change, signal)))
    },
  }
}
