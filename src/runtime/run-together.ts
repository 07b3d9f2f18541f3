// Runs tasks concurrently: the first bug ends all of them.

/** A task completes, or rejects with the signal's reason. */
export type Task = (signal: AbortSignal) => Promise<unknown>

/**
 * Runs the tasks until all have ended. The first rejection before `signal` is aborted ends the others, and rejects without
 * waiting for them. Later rejections are ignored.
 * @throws that first error
 */
export async function runTogether(tasks: readonly Task[], signal: AbortSignal): Promise<void> {
  const over = new AbortController()
  const ended = AbortSignal.any([signal, over.signal])
  const run = async (task: Task): Promise<void> => {
    try {
      await task(ended)
    } catch (error) {
      if (!ended.aborted) throw error
    }
  }
  await Promise.all(tasks.map(run)).finally(() => {
    over.abort()
  })
}
