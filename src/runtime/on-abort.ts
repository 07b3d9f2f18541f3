// Calls on the abort of a signal that many operations share.

/** Callbacks of a signal; one listener calls all. */
class Calls extends Set<() => void> {
  handleEvent(): void {
    for (const call of this) call()
    this.clear()
  }
}

const callsOf = new WeakMap<AbortSignal, Calls>()

/**
 * Calls `act` when the signal is aborted, unless the returned function is called before. A signal compares each new listener
 * with all that it has: with 64 calls under way, 8 us a call.
 */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  const calls = callsOf.getOrInsertComputed(signal, () => new Calls())
  if (calls.size === 0) signal.addEventListener('abort', calls, { once: true })
  calls.add(act)
  return () => {
    if (calls.delete(act) && calls.size === 0) signal.removeEventListener('abort', calls)
  }
}
