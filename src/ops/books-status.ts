// The books in /status: deliveries missing from the receiver's ledger. A pure function.
import type { Snapshot } from '../observe/snapshot.ts'
import type { MissedCause } from '../reconcile/books/hours.ts'
import { maxCauses } from './causes.ts'

/** Event times are the platform's, as in requests to the ledger. */
export interface BooksStatus {
  comparedUntil: Date
  /** Deadline for comparing the hour that begins there. */
  due: Date
  /** Why an hour or more of events cannot be compared. */
  problem: { text: string; since: Date } | null
  /** Number of deliveries without a key: not compared. */
  withoutKey: number
  unprocessed: {
    total: number
    /** Deliveries since the first unprocessed one, with the number of their subscriptions and types. */
    delivered: number
    subscriptions: number
    eventTypes: number
    since: Date | null
    /** The end of the last hour of `delivered`. */
    until: Date | null
    /** False while an hour with unprocessed deliveries was compared only once. */
    isConfirmed: boolean
    /** Largest first. */
    causes: { total: number; list: UnprocessedCause[] }
  }
}

interface UnprocessedCause extends Omit<MissedCause, 'firstAt' | 'lastAt'> {
  firstDelivery: Date
  lastDelivery: Date
}

/** Null without `ledger.url`. */
export function booksStatus({ books, skewMs }: Pick<Snapshot, 'books' | 'skewMs'>): BooksStatus | null {
  if (books === undefined) return null
  const { comparedUntil, dueAt, missed, problem, withoutKey } = books
  const toCause = ({ firstAt, lastAt, ...cause }: MissedCause): UnprocessedCause => ({
    ...cause,
    firstDelivery: new Date(firstAt),
    lastDelivery: new Date(lastAt),
  })
  return {
    comparedUntil: new Date(comparedUntil),
    due: new Date(dueAt),
    problem: problem === undefined ? null : { text: problem.text, since: new Date(problem.since - skewMs.api) },
    withoutKey,
    unprocessed: {
      total: missed?.total ?? 0,
      delivered: missed?.delivered ?? 0,
      subscriptions: missed?.subscriptions ?? 0,
      eventTypes: missed?.eventTypes ?? 0,
      since: missed === undefined ? null : new Date(missed.firstAt),
      until: missed === undefined ? null : new Date(missed.untilAt),
      isConfirmed: missed?.isConfirmed ?? false,
      causes: { total: missed?.causes.length ?? 0, list: (missed?.causes ?? []).slice(0, maxCauses).map(toCause) },
    },
  }
}
