// Keeps repeated lines out of the log: a condition is logged when it begins and when it ends, and a kind of line is limited.
import type { Clock } from '../../runtime/clock.ts'

export interface Condition {
  /** Reports a sign of the condition; true for the first one of each key since it began, and where it has to be said again. */
  begins(key?: string): boolean
  /** Number of signs, and for how long it holds; undefined for the first sign. */
  soFar(): { failures: number | undefined; failingSeconds: number | undefined }
  /** Ends it; returns the number of signs, 0 when it did not hold. */
  ends(): number
}

/** Maximum number of keys of a condition; further ones count as known. */
const maxKeys = 1_000

/**
 * A condition that is logged when it begins and when it ends, and again `againMs` after its last line. After `quietMs` without a sign,
 * the next sign begins it again.
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

/** Allows 20 lines in 10 minutes; `suppressed` counts the others since the last allowed one. */
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
