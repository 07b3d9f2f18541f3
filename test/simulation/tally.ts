// How often each promise could have been broken: one that never could is no proof of anything.

/** In the words in which `npm run simulate` prints them. */
export const promises = [
  '/metrics and /status are true',
  '/status says what is missing',
  'a clock that is set holds no tick up',
  'a gateway uses up no attempt',
  'a last chance before the window ends',
  'a limit of one subscription limits no other',
  'a low limit is used',
  'a record at the attempt limit is left alone',
  'a recovery is counted once',
  'a success that does not last is taken back',
  'a refused retry is no attempt',
  'a record of a retry job is sent once, and has an outcome or a reason',
  'a refused token is not used again',
  'a sweep asks for its pages',
  'an error under 429 is no rejection',
  'assertions are not of the future',
  'checks are few',
  'checks come in time',
  'failed again is true',
  'full sweeps rest',
  'recent sweeps rest',
  'no more than a second is skipped',
  'new failures are seen within five minutes',
  'no retry before it is due',
  'nothing is called whole that is not',
  'what is whole is called so',
  'one trial at a time',
  'refusals are counted',
  'resolved by another client',
  'the certificate that is in use is shown',
  'the difference between the clocks is shown',
  'the key that is in the file is used',
  'three failures are asked about',
  'tokens are renewed early',
  'a key that works signs while a new one does not',
  'a void token is replaced, however that is said',
  'circuits close soon after an outage',
  'what is about to leave the window is shown',
  'what may go out does not wait',
  'healthy records are recovered within the hour',
  'what is shown in quiet times is what the platform holds',
  'so it is where the backlog is full',
  'what expires is counted',
  'what lies beyond the window is counted',
  'a time that is not known is said',
  'what lies ahead of the clock is counted',
  'gauges of what is not known are absent',
  'the party that is named is broken',
  'well is said only when nothing is missing',
  'a number of missing ones is exact, or says at least',
  'nothing to do is said only where nothing is',
  'levels are steady where nothing changes',
  'a receiver that takes nothing is trouble',
  'a limit that lets no retry through is trouble',
  'retries that are never made are said',
  'all is well two minutes after the last recovery',
  'the end that is said is the end',
  'the next try is the next call',
  'what stops all for a quarter of an hour pages',
  'what needs a person is a warning',
  'what heals by itself within ten minutes fires nothing',
  'what a receiver lost behind a 200 is named',
  'a ledger that gives no books is said to be that',
] as const

export type PromiseName = (typeof promises)[number]

/** What keeps a promise from being put to the test, each with its promise. */
export const exemptions = {
  'something holds all retries': 'what may go out does not wait',
  'a fault of the platform or the network': 'what may go out does not wait',
  'a circuit is not closed, or has no place': 'what may go out does not wait',
  'the rate or all slots are used up': 'what may go out does not wait',
  'the backlog has no room': 'what may go out does not wait',
  "the platform's clock was set a moment ago": 'no retry before it is due',
  'its delivery is shown as failed while it is under way': 'failed again is true',
} as const satisfies Record<string, PromiseName>

export type Exemption = keyof typeof exemptions

export interface Tally {
  /** A promise could have been broken here. */
  exercise: (promise: PromiseName) => void
  /** It could have been, but for this. */
  exempt: (exemption: Exemption) => void
  /** How often. */
  counts(): ReadonlyMap<PromiseName | Exemption, number>
}

export function createTally(): Tally {
  const counts = new Map<PromiseName | Exemption, number>()
  function add(name: PromiseName | Exemption): void {
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return { exercise: add, exempt: add, counts: () => counts }
}
