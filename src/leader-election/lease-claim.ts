// The contents of the Lease that an instance writes: held, released, and with the operator's pauses.
import { visibleText } from '../runtime/redact.ts'
import { LeaseFailure, type Lease } from './lease-client.ts'

export interface Claimant {
  /** New at each start of a process: a restarted leader must not mistake its old lease for its own. */
  identity: string
  /** Issuer and base URL: instances with the same lease share a platform. */
  platform: string
  leaseDurationMs: number
}

/** Holds the operator's pauses, so that they outlive the leader; absent without any. */
export const pauseAnnotation = 'webhook-reconciler/paused'
/** Names the holder's platform: an instance of another platform would wait for this lease forever. */
const platformAnnotation = 'webhook-reconciler/platform'

/** Empty without pauses. */
export const pausesOf = ({ annotations }: Lease): string => annotations[pauseAnnotation] ?? ''

export function withPauses(lease: Lease, text: string): Lease {
  const others = Object.entries(lease.annotations).filter(([name]) => name !== pauseAnnotation)
  return { ...lease, annotations: Object.fromEntries(text === '' ? others : [...others, [pauseAnnotation, text]]) }
}

/** The lease as held by this instance; `now`: epoch ms. */
export function claimOf(lease: Lease | undefined, claimant: Claimant, now: number): Lease {
  const { identity, leaseDurationMs, platform } = claimant
  const renewTime = new Date(now).toISOString()
  const isSame = lease?.holder === identity
  return {
    version: lease?.version,
    holder: identity,
    durationMs: leaseDurationMs,
    transitions: lease === undefined ? 0 : lease.transitions + (isSame ? 0 : 1),
    acquireTime: isSame ? lease.acquireTime : renewTime,
    renewTime,
    annotations: { ...lease?.annotations, [platformAnnotation]: platform },
    object: lease?.object ?? {},
  }
}

/** The lease without a holder, free for other instances. */
export const released = (lease: Lease, now: number): Lease => ({
  ...lease,
  holder: '',
  durationMs: 1000,
  renewTime: new Date(now).toISOString(),
})

/** @throws LeaseFailure for the lease of another platform: this instance would silently wait for the wrong lease */
export function refuseForeign(lease: Lease | undefined, platform: string, subject: string): void {
  const other = lease?.annotations[platformAnnotation]
  if (other === undefined || other === platform) return
  const message = `the Lease ${subject} is held for another platform (${visibleText(other).slice(0, 300)}), but this instance uses ${platform}: give each its own leaderElection.leaseName`
  throw new LeaseFailure('invalid', message)
}
