// Runs a reconciler's loops for the time of one command: a round of retries up to its outcomes, or one question to the receiver.
import { runTogether } from '../../runtime/run-together.ts'
import type { Reconciler, RetrySignals } from '../../reconciler.ts'

/**
 * Retries what was due at `onlyDueAt` (epoch ms of the platform's clock) and follows it to its outcome; what becomes due
 * meanwhile is not for this round. Resolves when nothing is left that could be done or waited for.
 * Rejects with the first bug that any part met.
 */
export async function runReconciler(
  { confirm, receiver, retry }: Reconciler,
  { stop, kill }: RetrySignals,
  onlyDueAt: number,
): Promise<void> {
  const over = new AbortController()
  async function round(signal: AbortSignal): Promise<void> {
    await retry({ stop: AbortSignal.any([stop, signal]), kill }, { onlyDueAt })
    over.abort(new Error('the round is over'))
  }
  await runTogether([round, receiver.run, confirm], over.signal)
}

/**
 * Asks the receiver's health address once. `answered` resolves when the reconciler reports its answer.
 * Rejects with the signal's reason, or with a bug.
 */
export async function askReceiver(
  reconciler: Reconciler,
  answered: Promise<void>,
  stop: AbortSignal,
): Promise<boolean | undefined> {
  const over = new AbortController()
  const asking = reconciler.receiver.run(AbortSignal.any([stop, over.signal])).catch((error: unknown) => {
    if (!over.signal.aborted) throw error
  })
  try {
    await Promise.race([answered, asking])
  } finally {
    over.abort(new Error('it has been asked'))
    await asking
  }
  return reconciler.receiver.up()
}
