// The cursor of a list: where its next page starts, the time its durations count from, and the list it belongs to. Pure functions.
import { createHash } from 'node:crypto'
import { keyOf } from '../reconcile/packed-id.ts'
import { BadRequest, type Fields } from './filter.ts'
import type { ListPlace } from './memory.ts'

export interface Cursor {
  after: ListPlace
  /** Epoch ms. */
  asOf: number
}

/** Differs for lists of other records. */
function listId(fields: Fields): string {
  const own = Object.entries(fields).map(([name, values]) => [name, [...values].toSorted()] as const)
  const text = JSON.stringify(own.toSorted(([a], [b]) => (a < b ? -1 : 1)))
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** @param fields those that select records: without limit and format */
export function writeCursor(
  { id, localSecond }: { id: string; localSecond: number },
  asOf: number,
  fields: Fields,
): string {
  return `${listId(fields)}.${asOf}.${localSecond}.${id}`
}

/** @throws BadRequest for an invalid text, and for the cursor of another list */
export function readCursor(text: string, fields: Fields): Cursor {
  const [, list, asOf, localSecond, id] = /^([\da-f]{16})\.(\d{1,15})\.(-?\d{1,15})\.([\da-f-]{36})$/i.exec(text) ?? []
  if (id === undefined) throw new BadRequest('cursor: "next" of the previous page, unchanged.')
  if (list !== listId(fields)) {
    throw new BadRequest('cursor: it is from another list; repeat the previous parameters, except limit and format.')
  }
  return { asOf: Number(asOf), after: { localSecond: Number(localSecond), key: keyOf(id) } }
}
