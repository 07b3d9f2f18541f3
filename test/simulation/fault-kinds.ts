// What can go wrong between the daemon and the platform, and when.

export const faultKinds = [
  'server-error',
  'overloaded',
  'throttled',
  'reset-before',
  'reset-after',
  'refused-connection',
  'timeout-before',
  'timeout-after',
  'broken-after',
  'error-after',
  'odd-date',
  'unauthorized',
  'forbidden',
  'slow',
  'no-token',
  'token-refused',
] as const

/** `-before`: the platform never heard of the call; `-after`: it did what was asked, but nobody hears of it. */
export type FaultKind = (typeof faultKinds)[number]

export interface FaultWindow {
  /** ms since the start. */
  from: number
  to: number
  kind: FaultKind
  /** Share of the calls that it hits. */
  share: number
  on: 'all' | 'list' | 'retry'
}

/** Faults of the identity host; all others are the platform's. */
export const identityFaults: ReadonlySet<FaultKind> = new Set<FaultKind>(['no-token', 'token-refused'])
