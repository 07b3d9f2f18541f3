// The records of the backlog, by key and by subscription. No part of it is copied as a whole when it grows, which would take twice its memory.
import { hashOf } from '../../runtime/hash.ts'
import type { FailedRecord } from '../failed-record.ts'

/** The records of one subscription, in the order in which they were added. An iteration may go on while records come and leave. */
class RecordList {
  #records: (FailedRecord | undefined)[] = []
  size = 0

  add(record: FailedRecord): void {
    record.place = this.#records.push(record) - 1
    this.size += 1
  }

  remove(record: FailedRecord): void {
    this.#records[record.place] = undefined
    record.place = -1
    this.size -= 1
    if (this.#records.length < 2 * this.size) return
    // A new array, because an iteration may be at any place of this one.
    const records = this.#records.filter((held) => held !== undefined)
    for (const [place, held] of records.entries()) held.place = place
    this.#records = records
  }

  /** By hand: a generator is five times as slow, and all records are looked at for each scrape. */
  [Symbol.iterator](): Iterator<FailedRecord, undefined> {
    const records = this.#records
    let place = -1
    return {
      next() {
        do place += 1
        while (place < records.length && records[place] === undefined)
        const value = records[place]
        return value === undefined ? { done: true, value } : { done: false, value }
      },
    }
  }
}

export interface RecordIndex extends Iterable<FailedRecord> {
  get(key: string): FailedRecord | undefined
  add(record: FailedRecord): void
  /** It must be in the index. */
  remove(record: FailedRecord): void
  size(): number
  /** None is empty. */
  bySubscription(): ReadonlyMap<string, Iterable<FailedRecord>>
}

/** A Map in which entries come and go has up to four times the places that it needs; of a little less than a thousand, it has 2048. */
const recordsPerPart = 900

/** For about `maxRecords` records. */
export function createRecordIndex(maxRecords: number): RecordIndex {
  const parts = Array.from({ length: Math.ceil(maxRecords / recordsPerPart) }, () => new Map<string, FailedRecord>())
  const bySubscription = new Map<string, RecordList>()
  let size = 0
  const partOf = (key: string): Map<string, FailedRecord> | undefined => parts[hashOf(key) % parts.length]

  return {
    get: (key) => partOf(key)?.get(key),
    add(record) {
      partOf(record.key)?.set(record.key, record)
      bySubscription.getOrInsertComputed(record.subscriptionId, () => new RecordList()).add(record)
      size += 1
    },
    remove(record) {
      const { key, subscriptionId } = record
      partOf(key)?.delete(key)
      const others = bySubscription.get(subscriptionId)
      others?.remove(record)
      if (others?.size === 0) bySubscription.delete(subscriptionId)
      size -= 1
    },
    size: () => size,
    bySubscription: () => bySubscription,
    *[Symbol.iterator]() {
      for (const records of bySubscription.values()) yield* records
    },
  }
}
