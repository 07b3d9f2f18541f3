// UUIDs that are computed from a record's number and lead back to it, so that a million of them need no memory.
import { hash, mix, unmix, uuidOf } from './hash.ts'

export interface Ids {
  /** The UUID of this record number. */
  of: (record: number) => string
  /** The record number that this UUID may belong to: check it against `of`. Undefined when it is no UUID. */
  find(id: string): number | undefined
  /** The leading 32 bits of the UUID, unique for each record number: sorting by it sorts by UUID. */
  sortKey: (record: number) => number
  /** The record number of a sort key. */
  fromSortKey: (key: number) => number
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** True for a UUID in any case. */
export function isUuid(text: string): boolean {
  return uuidPattern.test(text.toLowerCase())
}

/** Another `purpose` gives other UUIDs of the same numbers. */
export function createIds(seed: number, purpose: number): Ids {
  const key = hash(seed, purpose)
  const sortKey = (record: number): number => mix(record ^ key)
  const fromSortKey = (word: number): number => (unmix(word) ^ key) >>> 0
  return {
    sortKey,
    fromSortKey,
    of: (record) => uuidOf(sortKey(record), hash(key, record, 1), hash(key, record, 2), hash(key, record, 3)),
    find: (id) => (isUuid(id) ? fromSortKey(Number.parseInt(id.slice(0, 8), 16)) : undefined),
  }
}
