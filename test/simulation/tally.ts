// How often each promise could have been broken: one that never could is no proof of anything.

export type Exercise = (promise: string) => void

export interface Tally {
  exercise: Exercise
  /** How often, by promise. */
  counts(): ReadonlyMap<string, number>
}

export function createTally(): Tally {
  const counts = new Map<string, number>()
  return {
    exercise(promise) {
      counts.set(promise, (counts.get(promise) ?? 0) + 1)
    },
    counts: () => counts,
  }
}
