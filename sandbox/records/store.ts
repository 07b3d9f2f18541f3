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

export interface Store {
  /** Sorted by event time. */
  readonly all: readonly StoredRecord[]
  add(records: readonly StoredRecord[]): void
  /** Where the records of an event time in [from, to) stand in `all`: first position, and the one after the last. */
  positions(from: number, to: number): readonly [first: number, end: number]
  /** Ids in any case. */
  find(id: string): StoredRecord | undefined
  /** The records of one event: one for each subscription. */
  ofEvent(eventId: string): readonly StoredRecord[]
}

export function createStore(): Store {
  const byId = new Map<string, StoredRecord>()
  const byEventId = new Map<string, StoredRecord[]>()
  const all: StoredRecord[] = []

  return {
    all,
    add(records) {
      for (const record of records) {
        byId.set(record.id.toLowerCase(), record)
        byEventId.getOrInsertComputed(record.eventId.toLowerCase(), () => []).push(record)
      }
      const [only] = records
      if (records.length === 1 && only !== undefined) {
        // Behind those of the same time.
        const at = firstIndex(all, ({ eventMicros }) => eventMicros > only.eventMicros)
        all.splice(at, 0, only)
        return
      }
      for (const record of records) all.push(record)
      all.sort((a, b) => a.eventMicros - b.eventMicros)
    },
    positions: (from, to) => [
      firstIndex(all, ({ eventMicros }) => eventMicros >= from),
      firstIndex(all, ({ eventMicros }) => eventMicros >= to),
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
