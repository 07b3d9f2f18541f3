// Ids that something happened to while a listing was under way, with its time: a listing begun before may not know of it.

export interface Recent {
  /**
   * A listing is about to begin, `at` monotonic ms: what happens from now on is remembered until the returned function
   * is called, however long that takes. More calls of it do nothing.
   */
  open(at: number): () => void
  /** `at` in monotonic ms. Nothing is remembered while no listing is under way. */
  add(id: string, at: number): void
  /** Whether it happened at or after a moment. */
  has(id: string, since: number): boolean
  size(): number
}

export function createRecent(): Recent {
  const times = new Map<string, number>()
  const listings = new Set<{ since: number }>()

  function forgetBefore(since: number): void {
    for (const [id, at] of times) if (at < since) times.delete(id)
  }

  return {
    open(at) {
      const own = { since: at }
      listings.add(own)
      return () => {
        listings.delete(own)
        forgetBefore(Math.min(...[...listings].map(({ since }) => since)))
      }
    },
    add(id, at) {
      if (listings.size > 0) times.set(id, at)
    },
    has: (id, since) => (times.get(id) ?? -Infinity) >= since,
    size: () => times.size,
  }
}
