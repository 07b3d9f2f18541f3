// The pace at which retries may go out, as far as limits and slots bound it. Pure functions.

export interface PaceLimits {
  /** Calls a second to the platform that are allowed at present. */
  callsPerSecond: number
  /** Maximum retries a second; undefined: no limit of their own. */
  retriesPerSecond: number | undefined
  /** Maximum retries in flight. */
  concurrency: number
  /** How long a call takes, in seconds, as far as it was measured; 0 when it was not. */
  secondsPerCall: number
}

/** One retry, and its share of the checks of outcomes. @see docs/architecture.md "Outcomes" */
const callsPerRecord = 1.05

/** Retries per second. */
export function permittedPace(limits: PaceLimits): number {
  return Math.min(
    limits.callsPerSecond / callsPerRecord,
    limits.retriesPerSecond ?? Infinity,
    limits.secondsPerCall > 0 ? limits.concurrency / limits.secondsPerCall : Infinity,
  )
}

/** Rounds of outcomes that a circuit needs for so many records: its limit doubles with each. */
export function slowStartRounds(records: number, initialLimit: number): number {
  return Math.ceil(Math.log2(records / initialLimit + 1))
}
