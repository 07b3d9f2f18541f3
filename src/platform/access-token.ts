// A token in hand: its value kept out of logs, and the moments of its life.
import { inspect } from 'node:util'

/** Logging it shows when it was had, not what it is. */
export interface AccessToken {
  /** Not enumerable. */
  readonly value: string
  /** Host's monotonic clock, ms. */
  readonly obtainedAt: number
  /** Not the value either. */
  toString(): string
}

export interface HeldToken {
  token: AccessToken
  /** On the monotonic clock, ms: renewed in the background from here, callers wait from here, it ends here. */
  shouldRenewAt: number
  mustRenewAt: number
  endsAt: number
}

/** Renewed in the background from 60 to 70 % of its life, so that many instances don't come at once. */
const shouldRenewFrom = 0.6
const shouldRenewJitter = 0.1
const mustRenewMs = 10_000
const mustRenewPart = 0.2
/** Tokens of a few seconds' life, or late ones, are not renewed in the background more often than this. */
const leastRenewMs = 1000

const hidden = '[access token]'

function accessToken(value: string, obtainedAt: number): AccessToken {
  return Object.defineProperties({ obtainedAt } as AccessToken, {
    value: { value },
    toString: { value: () => hidden },
    [inspect.custom]: { value: () => hidden },
  })
}

export interface TokenLife {
  lifetimeMs: number
  /** When the request was sent, and when its answer was there: monotonic clock, ms. Life counts from the former. */
  sentAt: number
  obtainedAt: number
  /** Uniform in [0, 1): spreads the renewal. */
  jitter: number
}

/** @see design section 6: should refresh, must refresh */
export function holdToken(value: string, { lifetimeMs, sentAt, obtainedAt, jitter }: TokenLife): HeldToken {
  const endsAt = sentAt + lifetimeMs
  const renewAt = sentAt + lifetimeMs * (shouldRenewFrom + shouldRenewJitter * jitter)
  return {
    token: accessToken(value, obtainedAt),
    shouldRenewAt: Math.max(renewAt, obtainedAt + leastRenewMs),
    mustRenewAt: endsAt - Math.min(mustRenewMs, lifetimeMs * mustRenewPart),
    endsAt,
  }
}
