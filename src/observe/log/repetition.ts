// Keeps repeated lines out of the log: a condition is logged when it begins and when it ends, and a kind of line is limited.
import type { Clock } from '../../runtime/clock.ts'

export interface Condition {
  /** Reports a sign of the condition; true for the first one of each key since it began. */
  begins(key?: string): boolean
  /** Ends it; returns the number of signs, 0 when it did not hold. */
  ends(): number
}

/** Maximum number of keys of a condition; further ones count as known. */
const maxKeys = 1_000

/** A condition that is logged when it begins and when it ends. After `quietMs` without a sign, the next sign begins it again. */
export function createCondition(clock: Pick<Clock, 'monotonic'>, quietMs = Infinity): Condition {
  const keys = new Set<string>()
  let signs = 0
  let lastAt = 0

  function ends(): number {
    const ended = signs
    keys.clear()
    signs = 0
    return ended
  }

  return {
    ends,
    begins(key = '') {
      if (clock.monotonic() - lastAt >= quietMs) ends()
      lastAt = clock.monotonic()
      signs += 1
      if (keys.has(key) || keys.size >= maxKeys) return false
      keys.add(key)
      return true
    },
  }
}

const maxLines = 20
const limitMs = 600_000

/** Allows 20 lines of a kind in 10 minutes, of those that are news; `suppressed` counts the others since the last allowed one. */
export function createLimit(
  clock: Pick<Clock, 'monotonic'>,
): (isNews: boolean) => { passes: boolean; suppressed: number | undefined } {
  let [since, lines, held] = [-Infinity, 0, 0]
  return (isNews) => {
    if (!isNews) return { passes: false, suppressed: undefined }
    const now = clock.monotonic()
    if (now - since >= limitMs) [since, lines] = [now, 0]
    lines += 1
    if (lines > maxLines) {
      held += 1
      return { passes: false, suppressed: undefined }
    }
    const suppressed = held || undefined
    held = 0
    return { passes: true, suppressed }
  }
}
