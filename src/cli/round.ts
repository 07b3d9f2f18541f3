// An engine's loops for the time of one command: one round of retries up to its outcomes, or one question to the receiver.
import type { Engine } from '../engine.ts'

export interface Signals {
  /** Ends the round in good order: retries in flight are waited for. */
  stop: AbortSignal
  /** Ends these too. */
  kill: AbortSignal
}

/**
 * Retries what was due at `onlyDueAt` (epoch ms of the platform's clock) and follows it to its outcome; what becomes due
 * meanwhile is not for this round. Resolves when nothing is left that could be done or waited for.
 * Rejects with the first bug that any part met.
 */
export async function runRound(engine: Engine, { stop, kill }: Signals, onlyDueAt: number): Promise<void> {
  const over = new AbortController()
  const bug = Promise.withResolvers<never>()
  bug.promise.catch(() => undefined)
  const beside = [engine.breaker, engine.receiver, engine.confirmer].map((part) =>
    part.run(over.signal).catch((error: unknown) => {
      if (!over.signal.aborted) bug.reject(error)
    }),
  )
  try {
    const signals = { stop: AbortSignal.any([stop, over.signal]), kill }
    await Promise.race([engine.dispatcher.run(signals, { onlyDueAt }), bug.promise])
  } finally {
    over.abort(new Error('the round is over'))
    await Promise.all(beside)
  }
}

/**
 * Asks the receiver's health address once. `answered` resolves when the engine tells of its answer.
 * Rejects with the signal's reason, or with a bug.
 */
export async function askReceiver(
  engine: Engine,
  answered: Promise<void>,
  stop: AbortSignal,
): Promise<boolean | undefined> {
  const over = new AbortController()
  const asking = engine.receiver.run(AbortSignal.any([stop, over.signal])).catch((error: unknown) => {
    if (!over.signal.aborted) throw error
  })
  try {
    await Promise.race([answered, asking])
  } finally {
    over.abort(new Error('it has been asked'))
    await asking
  }
  return engine.receiver.up()
}
