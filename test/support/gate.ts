// A sandbox that holds calls until the test lets them go: what is in flight is then in flight for sure, without any sleeping.
import { systemClock, type Clock } from '../../src/runtime/clock.ts'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import { within } from './process.ts'

export interface Gate {
  /** What the sandbox gets as its clock. */
  clock: Clock
  /** A fault that holds calls of this operation at the gate, before they do their work. */
  hold(operation: FaultRule['operation'], more?: Omit<FaultRule, 'operation' | 'fault'>): FaultRule
  /** Resolves when this many calls have come to the gate, counted from the start. */
  arrived(count: number): Promise<void>
  /** Calls that wait at the gate now. */
  waiting(): number
  /** Lets those go that wait now. */
  release(): void
  /** Lets all go, and does not hold any more. */
  open(): void
}

/** A delay that nothing else asks for. */
const heldMs = 987_654_321

export function createGate(): Gate {
  const standing = new Set<() => void>()
  const looks = new Set<() => void>()
  let came = 0
  let isOpen = false

  async function stand(signal: AbortSignal | undefined): Promise<void> {
    came += 1
    const let_ = Promise.withResolvers<undefined>()
    const go = (): void => {
      let_.resolve(undefined)
    }
    if (isOpen) go()
    else standing.add(go)
    signal?.addEventListener('abort', go, { once: true })
    for (const look of looks) look()
    await let_.promise
    signal?.throwIfAborted()
  }

  function release(): void {
    for (const go of standing) go()
    standing.clear()
  }

  return {
    clock: { ...systemClock, sleep: (ms, signal) => (ms === heldMs ? stand(signal) : systemClock.sleep(ms, signal)) },
    hold: (operation, more = {}) => ({ operation, fault: { kind: 'latency', ms: heldMs }, ...more }),
    async arrived(count) {
      const enough = Promise.withResolvers<undefined>()
      const look = (): void => {
        if (came >= count) enough.resolve(undefined)
      }
      looks.add(look)
      look()
      try {
        await within(enough.promise, `${count} calls at the gate`, () => `${came} came`)
      } finally {
        looks.delete(look)
      }
    },
    waiting: () => standing.size,
    release,
    open() {
      isOpen = true
      release()
    },
  }
}
