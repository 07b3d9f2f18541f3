// Ids that something happened to a short while ago, with its time: forgotten by themselves.

export interface Recent {
  /** `at` in monotonic ms, never smaller than the one before. */
  add(id: string, at: number): void
  /** Whether it happened at or after a moment. */
  has(id: string, since: number): boolean
  size(): number
}

/** Remembers for at least `keptMs`. */
export function createRecent(keptMs: number): Recent {
  /** In the order in which they were added. */
  const times = new Map<string, number>()
  return {
    add(id, at) {
      times.delete(id)
      times.set(id, at)
      for (const [other, time] of times) {
        if (time >= at - keptMs) break
        times.delete(other)
      }
    },
    has: (id, since) => (times.get(id) ?? -Infinity) >= since,
    size: () => times.size,
  }
}
