// Suppresses repeated log lines: logs a condition when it starts and ends, and limits the lines of an event.
import type { Clock } from '../../runtime/clock.ts'

export interface Condition {
  /**
   * Reports a sign of the condition; true for the first sign of each key since it started, and when it should be logged again.
   */
  begins(key?: string): boolean
  /** Number of signs and duration; undefined for the first sign. */
  soFar(): { failures: number | undefined; failingSeconds: number | undefined }
  /** Ends it; returns the number of signs, 0 if it did not hold. */
  ends(): number
}

/** Maximum number of keys of a condition; further keys count as known. */
const maxKeys = 1_000

/**
 * A condition is logged when it starts and ends, and again `againMs` after its last line. After `quietMs` without a sign, the
 * next sign starts it again.
 */
export function createCondition(
  clock: Pick<Clock, 'monotonic'>,
  { againMs = Infinity, quietMs = Infinity }: { againMs?: number; quietMs?: number } = {},
): Condition {
  const keys = new Set<string>()
  let signs = 0
  let [since, saidAt, lastAt] = [0, 0, 0]

  function ends(): number {
    const ended = signs
    keys.clear()
    signs = 0
    return ended
  }

  return {
    ends,
    begins(key = '') {
      const now = clock.monotonic()
      if (now - lastAt >= quietMs) ends()
      lastAt = now
      if (signs === 0) since = now
      signs += 1
      const isKnown = keys.has(key) || keys.size >= maxKeys
      if (isKnown && now - saidAt < againMs) return false
      if (!isKnown) keys.add(key)
      saidAt = now
      return true
    },
    soFar() {
      const failingSeconds = Math.round((clock.monotonic() - since) / 1000)
      return signs > 1 ? { failures: signs, failingSeconds } : { failures: undefined, failingSeconds: undefined }
    },
  }
}

const maxLines = 20
const limitMs = 600_000

/** Allows 20 lines in 10 minutes; `suppressed` counts the others since the last allowed line. */
export function createLimit(
  clock: Pick<Clock, 'monotonic'>,
): () => { passes: boolean; suppressed: number | undefined } {
  let [since, lines, held] = [-Infinity, 0, 0]
  return () => {
    const now = clock.monotonic()
    if (now - since >= limitMs) [since, lines] = [now, 0]
    lines += 1
    const passes = lines <= maxLines
    const suppressed = passes ? held || undefined : undefined
    held = passes ? 0 : held + 1
    return { passes, suppressed }
  }
}
