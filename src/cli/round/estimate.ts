// How long a recovery takes at a given pace, when the receiver takes what it gets. A pure function.

export interface PaceOfRetries {
  /** Calls a second to the platform that are allowed at present. */
  callsPerSecond: number
  /** Retries a second at most; undefined: no bound of their own. */
  retriesPerSecond: number | undefined
  /** Retries in flight at most. */
  concurrency: number
  /** How long a call takes, in seconds, as far as it was measured; 0 when it was not. */
  secondsPerCall: number
  /** Retries without a known outcome at first; undefined without circuits. It doubles with each round of outcomes. */
  initialLimit: number | undefined
  /** How long an outcome takes at least, in seconds. */
  secondsPerOutcome: number
}

/** One retry, and its share of the looks at what became of it. @see docs/architecture.md "Outcomes" */
const callsPerRecord = 1.05

/** Seconds until all of these records have an outcome; 0 for none. */
export function estimateSeconds(records: number, pace: PaceOfRetries): number {
  if (records <= 0) return 0
  const perSecond = Math.min(
    pace.callsPerSecond / callsPerRecord,
    pace.retriesPerSecond ?? Infinity,
    pace.secondsPerCall > 0 ? pace.concurrency / pace.secondsPerCall : Infinity,
  )
  const { initialLimit } = pace
  const rounds = initialLimit === undefined ? 1 : Math.ceil(Math.log2(records / initialLimit + 1))
  return records / perSecond + rounds * pace.secondsPerOutcome
}
