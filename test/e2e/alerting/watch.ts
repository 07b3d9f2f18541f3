// Waits that look again and again, and so end as soon as they can.
import { systemClock } from '../../../src/runtime/clock.ts'

const everyMs = 250

/**
 * Looks until `done` holds. `check` is called at each look, and throws when something has gone wrong meanwhile.
 * @throws Error when the time is over, with what was waited for
 */
export async function watch(
  what: string,
  seconds: number,
  done: () => boolean | Promise<boolean>,
  check: () => void = () => undefined,
): Promise<void> {
  const deadline = systemClock.monotonic() + seconds * 1000
  for (;;) {
    check()
    if (await done()) return
    if (systemClock.monotonic() > deadline) throw new Error(`waited ${seconds} s in vain for: ${what}`)
    await systemClock.sleep(everyMs)
  }
}

/** Looks for so long, all the while, that `check` does not throw. */
export async function keepWatching(seconds: number, check: () => void): Promise<void> {
  const end = systemClock.monotonic() + seconds * 1000
  await watch('the end of the time', seconds + 60, () => systemClock.monotonic() >= end, check)
}
