// The list operation: parses its parameters by the current readings, and finds a page. @see docs/platform-api.md "List webhooks"
import { listParameter, maxPageSize, webhookStatuses } from '../../src/platform/wire.ts'
import { defaultPageSize, type WirePage } from './wire.ts'
import type { Readings } from '../options.ts'
import { hash } from '../records/hash.ts'
import type { Store, StoredRecord } from '../records/store.ts'
import { parseLocalSeconds } from '../records/zone.ts'

/** Event times in local microseconds. */
interface TimeRange {
  /** Inclusive. */
  from: number
  /** Exclusive. */
  to: number
}

export interface ListRequest {
  number: number
  /** Rows of a full page. */
  size: number
  /** The requested size. */
  askedSize: number
  /** Undefined: any. */
  statuses: readonly string[] | undefined
  eventId: string | undefined
  range: TimeRange
}

/** An invalid parameter. */
export interface BadParameter {
  parameter: string
  problem: string
}

export interface ListedPage {
  records: readonly StoredRecord[]
  page: WirePage
}

const second = 1_000_000
const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export function isUuid(text: string): boolean {
  return uuidPattern.test(text)
}

export function parseListQuery(parameters: URLSearchParams, readings: Readings): ListRequest | BadParameter {
  const read = (name: string, ignored: Readings['ignores'][number]): string | null =>
    readings.ignores.includes(ignored) ? null : parameters.get(name)

  const number = readInteger(listParameter.pageNumber, read(listParameter.pageNumber, 'page.number') ?? '0', 0)
  if (typeof number !== 'number') return number
  const size = readInteger(
    listParameter.pageSize,
    read(listParameter.pageSize, 'page.size') ?? String(defaultPageSize),
    1,
  )
  if (typeof size !== 'number') return size
  const given = readings.ignores.includes('status') ? [] : parameters.getAll(listParameter.status)
  const statuses = given.length === 0 ? undefined : readStatuses(given, readings)
  if (statuses !== undefined && 'problem' in statuses) return statuses
  const eventId = read(listParameter.eventId, 'eventId') ?? undefined
  if (eventId !== undefined && !isUuid(eventId)) return { parameter: listParameter.eventId, problem: 'must be a UUID' }
  const range = readRange(read(listParameter.from, 'from'), read(listParameter.to, 'to'), readings)
  if ('problem' in range) return range
  return { number, size: Math.min(size, maxPageSize, readings.maxPageSize), askedSize: size, statuses, eventId, range }
}

function readInteger(parameter: string, text: string, least: number): number | BadParameter {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : NaN
  return value >= least ? value : { parameter, problem: `must be an integer from ${least} up` }
}

function readStatuses(
  values: readonly string[],
  { statusEncoding, statusHides }: Readings,
): readonly string[] | BadParameter {
  const parameter = listParameter.status
  if (values.length > 1 && (statusEncoding === 'comma' || statusEncoding === 'single')) {
    return { parameter, problem: 'must be given once' }
  }
  const names =
    statusEncoding === 'both' || statusEncoding === 'comma' ? values.flatMap((value) => value.split(',')) : values
  const known: readonly string[] = webhookStatuses
  return names.every((name) => known.includes(name))
    ? names.filter(() => !statusHides)
    : { parameter, problem: `must be of ${webhookStatuses.join(', ')}` }
}

/** The half-open range of event times between these bounds. */
function readRange(
  fromText: string | null,
  toText: string | null,
  { bounds, boundsLaterSeconds }: Readings,
): TimeRange | BadParameter {
  const range = { from: -Infinity, to: Infinity }
  const later = boundsLaterSeconds * second
  const step = bounds.precision === 'second' ? second : 1
  if (fromText !== null) {
    const from = parseLocalSeconds(fromText)
    if (from === undefined) return badDateTime(listParameter.from)
    range.from = later + (bounds.from === 'inclusive' ? from : from + step)
  }
  if (toText !== null) {
    const to = parseLocalSeconds(toText)
    if (to === undefined) return badDateTime(listParameter.to)
    range.to = later + (bounds.to === 'inclusive' ? to + step : to)
  }
  return range
}

function badDateTime(parameter: string): BadParameter {
  return { parameter, problem: 'must be a date-time as YYYY-MM-DDThh:mm:ss' }
}

/** The orders other than by event time. `seed` is that of the request. */
const compares: Readonly<
  Partial<Record<Readings['order'], (seed: number) => (a: StoredRecord, b: StoredRecord) => number>>
> = {
  id: () => (a, b) => (a.id < b.id ? -1 : 1),
  shuffled: () => (a, b) => a.random - b.random,
  unstable: (seed) => {
    const second = ({ eventMicros }: StoredRecord): number => Math.floor(eventMicros / 1e6)
    return (a, b) => second(a) - second(b) || hash(a.random, seed) - hash(b.random, seed)
  },
}

interface PageOptions extends Pick<Readings, 'order'> {
  /** Of this request, for the order `unstable`. */
  seed: number
  shown?: (record: StoredRecord) => StoredRecord
}

/** The page, and the number of matching records, in one pass. */
export function pageOf(store: Store, query: ListRequest, options: PageOptions): ListedPage {
  const { order, shown = (record) => record } = options
  const { number, size, statuses } = query
  const { all, end, first } = candidates(store, query, options)
  const isDescending = order === 'event-desc'
  const records: StoredRecord[] = []
  let totalElements = 0
  for (let at = first; at < end; at++) {
    const stored = all[isDescending ? first + end - 1 - at : at]
    const record = stored && shown(stored)
    if (record === undefined || statuses?.includes(record.status) === false) continue
    if (totalElements >= number * size && records.length < size) records.push(record)
    totalElements++
  }
  return { records, page: { size, number, totalElements, totalPages: Math.ceil(totalElements / size) } }
}

interface Candidates {
  all: readonly StoredRecord[]
  /** Positions in `all`: the first, and the one after the last. */
  first: number
  end: number
}

/** The records of any status that match, in the order of the list; of `event-desc` the other way round. */
function candidates(store: Store, { eventId, range }: ListRequest, { order, seed }: PageOptions): Candidates {
  if (eventId !== undefined) {
    const isInside = ({ eventMicros }: StoredRecord): boolean => eventMicros >= range.from && eventMicros < range.to
    const all = store.ofEvent(eventId).filter(isInside)
    return { all, first: 0, end: all.length }
  }
  const [first, end] = store.positions(range.from, range.to)
  const compare = compares[order]?.(seed)
  if (compare === undefined) return { all: store.all, first, end }
  return { all: store.all.slice(first, end).sort(compare), first: 0, end: end - first }
}
