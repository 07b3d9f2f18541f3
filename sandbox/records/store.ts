// The webhook records: objects in an array sorted by event time, and maps by id. Made for 100,000 of them.
import { z } from 'zod'
import { httpStatus } from '../fields.ts'

/** Result of the last attempt. */
export const resultSchema = z.strictObject({
  responseStatusCode: httpStatus.nullable(),
  responsePayload: z.string().nullable(),
  responseHeaders: z.record(z.string(), z.array(z.string())).nullable(),
  lastAttemptErrorMessage: z.string().nullable(),
})

export type AttemptResult = z.infer<typeof resultSchema>

export const noResult: AttemptResult = {
  responseStatusCode: null,
  responsePayload: null,
  responseHeaders: null,
  lastAttemptErrorMessage: null,
}

/** Times are local microseconds: zone.ts. */
export interface StoredRecord {
  readonly id: string
  readonly eventId: string
  readonly subscriptionId: string
  readonly eventType: string
  readonly eventMicros: number
  /** Its place in the shuffled order, and the seed of its payload. */
  readonly random: number
  /** One of `webhookStatuses`, or one that the specification does not name. */
  status: string
  attempts: number
  /** Null when there was no attempt yet. */
  lastAttemptMicros: number | null
  result: AttemptResult
  /** How many retries of it were accepted. */
  acceptedRetries: number
  /** In place of the one that `random` makes. */
  readonly requestPayload?: Record<string, unknown> | undefined
  /** Laid over the record as it is sent. */
  readonly wire?: Record<string, unknown> | undefined
}

/** `shuffled` is pseudo-random but always the same. */
export type RecordOrder = 'event' | 'id' | 'shuffled'

export interface Store {
  /** Adds records that are sorted by event time. */
  add(records: readonly StoredRecord[]): void
  /** All records. An order is sorted when it is first asked for, and kept. */
  inOrder(order: RecordOrder): readonly StoredRecord[]
  /** Where the records of an event time in [from, to) stand in the order by event: first position, and the one after the last. */
  positions(from: number, to: number): readonly [first: number, end: number]
  /** Ids in any case. */
  find(id: string): StoredRecord | undefined
  /** The records of one event: one for each subscription. */
  ofEvent(eventId: string): readonly StoredRecord[]
}

type Compare = (a: StoredRecord, b: StoredRecord) => number

const compares: Readonly<Record<RecordOrder, Compare>> = {
  event: (a, b) => a.eventMicros - b.eventMicros,
  id: (a, b) => (a.id < b.id ? -1 : 1),
  shuffled: (a, b) => a.random - b.random,
}

export function createStore(): Store {
  const byId = new Map<string, StoredRecord>()
  const byEventId = new Map<string, StoredRecord[]>()
  const byEvent: StoredRecord[] = []
  const orders = new Map<RecordOrder, StoredRecord[]>([['event', byEvent]])

  return {
    add(records) {
      for (const record of records) {
        byId.set(record.id.toLowerCase(), record)
        byEventId.getOrInsertComputed(record.eventId.toLowerCase(), () => []).push(record)
      }
      for (const [order, sorted] of orders) {
        const [only] = records
        if (records.length === 1 && only !== undefined) insert(sorted, only, compares[order])
        else {
          for (const record of records) sorted.push(record)
          sorted.sort(compares[order])
        }
      }
    },
    inOrder(order) {
      const sorted = orders.get(order) ?? byEvent.toSorted(compares[order])
      orders.set(order, sorted)
      return sorted
    },
    positions: (from, to) => [
      firstIndex(byEvent, ({ eventMicros }) => eventMicros >= from),
      firstIndex(byEvent, ({ eventMicros }) => eventMicros >= to),
    ],
    find: (id) => byId.get(id.toLowerCase()),
    ofEvent: (eventId) => byEventId.get(eventId.toLowerCase()) ?? [],
  }
}

/** The first index from which on all records pass the test: they are sorted so. */
function firstIndex(sorted: readonly StoredRecord[], isBeyond: (record: StoredRecord) => boolean): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const record = sorted[middle]
    if (record !== undefined && isBeyond(record)) high = middle
    else low = middle + 1
  }
  return low
}

/** Behind those that are equal. */
function insert(sorted: StoredRecord[], record: StoredRecord, compare: Compare): void {
  sorted.splice(
    firstIndex(sorted, (other) => compare(other, record) > 0),
    0,
    record,
  )
}
