// Work that is cut into steps, so that it need not block the event loop as a whole.
import type { Clock } from './clock.ts'

/** Other work may run between two steps. */
export type Steps<T> = Generator<undefined, T, undefined>

/** Makes all steps at once. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}

/** Makes one step in a turn of the event loop: answers, timers and probes come in between. */
export async function finishInTurns<T>(steps: Steps<T>, clock: Pick<Clock, 'sleep'>): Promise<T> {
  let step = steps.next()
  while (step.done !== true) {
    await clock.sleep(1)
    step = steps.next()
  }
  return step.value
}
