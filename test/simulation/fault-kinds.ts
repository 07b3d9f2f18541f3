// What can go wrong between the daemon and the platform, and when.

export const faultKinds = [
  'server-error',
  'coded-error',
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
  'token-throttled',
  'misrouted',
  'gateway-page',
  'bad-span',
  'health-404',
  'ignored',
  'barred',
] as const

/**
 * `-before`: the platform never heard of the call; `-after`: it did what was asked, but no response arrives.
 * `coded-error`: the platform's own word; `token-throttled`: an OAuth error under 429; `misrouted`: a gateway answers 404 to each PATCH; `gateway-page`: a page of HTML with any status; `health-404`: the
 * receiver's health address is not there; `ignored`: a retry is accepted, and no delivery follows; `barred`: a retry is rejected by the platform's own word.
 */
export type FaultKind = (typeof faultKinds)[number]

export interface FaultWindow {
  /** ms since the start. */
  from: number
  to: number
  kind: FaultKind
  /** Share of the calls that it hits. */
  share: number
  on: 'all' | 'list' | 'retry'
  /** With `ignored` and `barred`: only records of this one. Default: of all. */
  subscription?: number
  /** With `gateway-page`, `bad-span` and `barred`. */
  status?: number
  /** With `overloaded`: the wait that is demanded, 0 for none; undefined: any. */
  waitMs?: number
  /** With `bad-span`: only lists of this status fail. */
  of?: 'processing' | 'failed'
  /** With `bad-span`: lists of several rows fail whose span holds the event of this moment, ms since the start. */
  eventAt?: number
}

/** Faults of the identity host; all others are the platform's. */
export const identityFaults: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'no-token',
  'token-refused',
  'token-throttled',
])
