// The webhook records, in columns of numbers: a million of them take some 40 MiB. What can be computed from the seed is not stored.
import { webhookStatuses, type WebhookStatus } from '../src/platform/wire.ts'
import { emptyColumns, grown } from './columns.ts'
import { createIds, type Ids } from './ids.ts'
import { createInterned, type Interned } from './interned.ts'
import { createOrderedIndex, type OrderedIndex } from './ordered-index.ts'

/** Status codes are the positions in `webhookStatuses`; this one is of the statuses that nobody specified. */
export const otherStatus = webhookStatuses.length

export const processing = webhookStatuses.indexOf('processing')
export const successful = webhookStatuses.indexOf('successful')
export const failed = webhookStatuses.indexOf('failed')

/** What came of the last attempt. */
export interface AttemptResult {
  responseStatusCode: number | null
  responsePayload: string | null
  responseHeaders: Record<string, string[]> | null
  lastAttemptErrorMessage: string | null
}

export const noResult: AttemptResult = {
  responseStatusCode: null,
  responsePayload: null,
  responseHeaders: null,
  lastAttemptErrorMessage: null,
}

/** What a record has that can't be computed from its number. */
export interface Particulars {
  id?: string
  eventId?: string
  requestPayload?: Record<string, unknown>
  /** Laid over the record as it is sent; undefined takes a field away. For records that break the specification. */
  wire?: Record<string, unknown>
}

export interface NewRecord {
  eventLocalMicros: number
  /** NaN when there was no attempt yet. */
  lastAttemptLocalMicros: number
  /** A status code. */
  status: number
  attempts: number
  subscriptionId: string
  eventType: string
  result: AttemptResult
  particulars?: Particulars
}

export interface Attempt {
  status: number
  lastAttemptLocalMicros: number
  attempts: number
  result: AttemptResult
}

export interface Store {
  readonly size: number
  readonly byEvent: OrderedIndex
  readonly webhookIds: Ids
  /** Adds many; `make` is called once for each, in order. The number of the first is returned, the others follow it. */
  addMany(count: number, make: (position: number) => NewRecord): number
  add(record: NewRecord): number
  /** The record's number. */
  find(id: string): number | undefined
  findEvent(eventId: string): number | undefined
  idOf(record: number): string
  eventIdOf(record: number): string
  statusOf: (record: number) => number
  attemptsOf(record: number): number
  eventMicrosOf(record: number): number
  lastAttemptMicrosOf(record: number): number
  subscriptionOf: (record: number) => string
  eventTypeOf: (record: number) => string
  resultOf(record: number): AttemptResult
  particularsOf(record: number): Particulars | undefined
  setStatus(record: number, status: number): void
  setAttempt(record: number, attempt: Partial<Attempt>): void
  /** Retries accepted of this record since it was added, up to 65,535. */
  acceptedOf(record: number): number
  noteAccepted(record: number): void
  /** Called with every record added alone, and once with none after many were. */
  onAdded(listener: (record?: number) => void): void
  onMoved(listener: (record: number, before: number, after: number) => void): void
}

export function createStore(seed: number): Store {
  const webhookIds = createIds(seed, 1)
  const eventIds = createIds(seed, 2)
  const subscriptions = createInterned<string>((value) => value)
  const eventTypes = createInterned<string>((value) => value)
  const results = createInterned<AttemptResult>((value) => JSON.stringify(value))
  const special = new Map<number, Particulars>()
  const numberById = new Map<string, number>()
  const numberByEventId = new Map<string, number>()
  const onAdded: ((record?: number) => void)[] = []
  const onMoved: ((record: number, before: number, after: number) => void)[] = []
  let columns = emptyColumns(1024)
  let size = 0

  const eventMicrosOf = (record: number): number => columns.event[record] ?? 0
  const statusOf = (record: number): number => columns.status[record] ?? 0
  const byEvent = createOrderedIndex(eventMicrosOf, statusOf)

  function append(record: NewRecord): number {
    if (size === columns.event.length) columns = grown(columns, size * 2)
    const at = size++
    columns.event[at] = record.eventLocalMicros
    columns.lastAttempt[at] = record.lastAttemptLocalMicros
    columns.status[at] = record.status
    columns.attempts[at] = record.attempts
    columns.subscription[at] = subscriptions.hold(record.subscriptionId)
    columns.eventType[at] = eventTypes.hold(record.eventType)
    columns.result[at] = results.hold(record.result)
    if (record.particulars !== undefined) remember(at, record.particulars)
    return at
  }

  function remember(at: number, particulars: Particulars): void {
    special.set(at, particulars)
    if (particulars.id !== undefined) numberById.set(particulars.id.toLowerCase(), at)
    if (particulars.eventId !== undefined) numberByEventId.set(particulars.eventId.toLowerCase(), at)
  }

  function computed(ids: Ids, id: string, own: 'id' | 'eventId'): number | undefined {
    const at = ids.find(id)
    if (at === undefined || at >= size || special.get(at)?.[own] !== undefined) return undefined
    return ids.of(at) === id ? at : undefined
  }

  function setStatus(record: number, status: number): void {
    const before = statusOf(record)
    if (before === status) return
    columns.status[record] = status
    for (const listener of onMoved) listener(record, before, status)
  }

  onMoved.push((record, before, after) => {
    byEvent.moved(record, before, after)
  })

  return {
    get size() {
      return size
    },
    byEvent,
    webhookIds,
    addMany(count, make) {
      const first = size
      if (first + count > columns.event.length) columns = grown(columns, first + count)
      for (let position = 0; position < count; position++) append(make(position))
      byEvent.rebuild(mergedNumbers(byEvent, first, size))
      for (const listener of onAdded) listener()
      return first
    },
    add(record) {
      const at = append(record)
      byEvent.insert(at)
      for (const listener of onAdded) listener(at)
      return at
    },
    find: (id) => numberById.get(id.toLowerCase()) ?? computed(webhookIds, id.toLowerCase(), 'id'),
    findEvent: (id) => numberByEventId.get(id.toLowerCase()) ?? computed(eventIds, id.toLowerCase(), 'eventId'),
    idOf: (record) => special.get(record)?.id ?? webhookIds.of(record),
    eventIdOf: (record) => special.get(record)?.eventId ?? eventIds.of(record),
    statusOf,
    eventMicrosOf,
    attemptsOf: (record) => columns.attempts[record] ?? 0,
    lastAttemptMicrosOf: (record) => columns.lastAttempt[record] ?? NaN,
    subscriptionOf: (record) => subscriptions.at(columns.subscription[record] ?? 0),
    eventTypeOf: (record) => eventTypes.at(columns.eventType[record] ?? 0),
    resultOf: (record) => results.at(columns.result[record] ?? 0),
    particularsOf: (record) => special.get(record),
    setStatus,
    setAttempt(record, attempt) {
      if (attempt.lastAttemptLocalMicros !== undefined) columns.lastAttempt[record] = attempt.lastAttemptLocalMicros
      if (attempt.attempts !== undefined) columns.attempts[record] = attempt.attempts
      if (attempt.result !== undefined) replaceResult(columns.result, record, results, attempt.result)
      if (attempt.status !== undefined) setStatus(record, attempt.status)
    },
    acceptedOf: (record) => columns.accepted[record] ?? 0,
    noteAccepted(record) {
      columns.accepted[record] = Math.min(65_535, (columns.accepted[record] ?? 0) + 1)
    },
    onAdded: (listener) => void onAdded.push(listener),
    onMoved: (listener) => void onMoved.push(listener),
  }
}

/** The code of a status; of one that nobody specified, `otherStatus`. */
export function statusCodeOf(status: string): number {
  const code = webhookStatuses.indexOf(status as WebhookStatus)
  return code === -1 ? otherStatus : code
}

function replaceResult(
  column: Uint32Array,
  record: number,
  results: Interned<AttemptResult>,
  next: AttemptResult,
): void {
  const before = column[record] ?? 0
  column[record] = results.hold(next)
  results.release(before)
}

/** The records in order so far, then the new ones: nearly sorted, so sorting them is quick. */
function mergedNumbers(index: OrderedIndex, first: number, size: number): Uint32Array {
  const numbers = new Uint32Array(size)
  let at = 0
  for (const record of index.walk()) numbers[at++] = record
  for (let record = first; record < size; record++) numbers[at++] = record
  return numbers
}
