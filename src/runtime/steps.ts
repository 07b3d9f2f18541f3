// Long work in steps, so that it does not block the event loop.
import type { Clock } from './clock.ts'

/** Other work may run between two steps. */
export type Steps<T> = Generator<undefined, T, undefined>

/** Records per step, if each costs a microsecond or two. */
export const lookedAtPerStep = 5000

/** Runs all steps at once. */
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
