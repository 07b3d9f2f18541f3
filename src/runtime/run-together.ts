// Runs tasks concurrently: the first bug ends all of them.
import { linkAbort } from './notifier.ts'

/** A task ends on its own, or with the signal's reason. */
export type Task = (signal: AbortSignal) => Promise<unknown>

/**
 * Runs the tasks until all have ended. The first rejection before `signal` is aborted ends the others, and rejects without
 * waiting for them. Later rejections are ignored.
 * @throws that first error
 */
export async function runTogether(tasks: readonly Task[], signal: AbortSignal): Promise<void> {
  using ended = linkAbort([signal])
  await Promise.all(
    tasks.map(async (task) => {
      try {
        await task(ended.signal)
      } catch (error) {
        if (!ended.signal.aborted) throw error
      }
    }),
  )
}
