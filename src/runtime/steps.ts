// Work in steps, so that it need not block the event loop as a whole.
import type { Clock } from './clock.ts'

/** Other work may run between two steps. */
export type Steps<T> = Generator<undefined, T, undefined>

/** Records that a step looks at, where each costs a microsecond or two. */
export const lookedAtPerStep = 5000

/** Makes all steps at once. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}

/** Resolves in a turn of the event loop without other work of these steps. */
export type Turn = () => Promise<void>

/** Grants one turn after another to any number of waiters: responses, timers and probes run in between. */
export function createTurns(clock: Pick<Clock, 'sleep'>): Turn {
  let last = Promise.resolve()
  return () => (last = last.then(() => clock.sleep(1)))
}

/** Runs one step per turn. */
export async function finishInTurns<T>(steps: Steps<T>, turn: Turn): Promise<T> {
  let step = steps.next()
  while (step.done !== true) {
    await turn()
    step = steps.next()
  }
  return step.value
}
