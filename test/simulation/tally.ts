// How often each promise could have been broken: one that never could is no proof of anything.

/** In the words in which `npm run simulate` prints them. */
export const promises = [
  '/metrics and /status are true',
  '/status says what is missing',
  'a circuit opens',
  'a circuit opens at exactly the ratio',
  'a last chance before the window ends',
  'a probe is of another type than the last one',
  'a record retried a moment ago is not stuck',
  'a refused retry is no attempt',
  'a refused token is not used again',
  'a sweep asks for its pages',
  'a sweep that goes on where there was no room has not seen all',
  'an error under 429 is no rejection',
  'assertions are not of the future',
  'checks are few',
  'checks come in time',
  'failed again is true',
  'full sweeps rest',
  'healthy records behind a full backlog',
  'no more than a second is skipped',
  'no subscription waits while it may go',
  'not exhausted for refusals',
  'one trial after each pause',
  'exhausted',
  'recent and old take turns',
  'recent sweeps rest',
  'refusals are counted',
  'resolved by another client',
  'the certificate that is in use is shown',
  'the difference between the clocks is shown',
  'the key that is in the file is used',
  'the least tried record is the probe',
  'the rate is cut',
  'the rate is cut once in a burst',
  'three failures are asked about',
  'tokens are renewed early',
  'what is about to leave the window is shown',
  'what is shown in quiet times is what the platform holds',
  'so it is where the backlog is full',
  'what expires is counted',
  'what lies beyond the window is counted',
] as const

/** How the main check (nothing that is due waits) ends after each complete full sweep: it looks, or why it does not. */
export const looks = [
  'first: no sweep before it',
  'small backlog: isRoomy is false',
  'held: a gate, a limit or a circuit holds retries',
  'free for less than two sweeps',
  'not calm: a fault or an outage',
  'looked at',
] as const

export type Look = (typeof looks)[number]

export type PromiseName = (typeof promises)[number]

export type Exercise = (promise: PromiseName) => void

export interface Tally {
  exercise: Exercise
  /** How often, by promise. */
  counts(): ReadonlyMap<PromiseName, number>
  look(look: Look): void
  looks(): ReadonlyMap<Look, number>
}

export function createTally(): Tally {
  const counts = new Map<PromiseName, number>()
  const looked = new Map<Look, number>()
  return {
    look: (look) => void looked.set(look, (looked.get(look) ?? 0) + 1),
    looks: () => looked,
    exercise(promise) {
      counts.set(promise, (counts.get(promise) ?? 0) + 1)
    },
    counts: () => counts,
  }
}
