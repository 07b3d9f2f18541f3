// The list operation: reads its parameters under the reading that is played, and finds a page. @see docs/platform-api.md "List webhooks"
import { defaultPageSize, listParameter, maxPageSize, webhookStatuses, type WirePage } from '../src/platform/wire.ts'
import { hash, mix, unmix } from './hash.ts'
import { isUuid } from './ids.ts'
import type { Bounds, IgnoredParameter, ListOrder, Readings } from './options.ts'
import { createOrderedIndex, statusCodes, type KeyRange, type OrderedIndex, type StatusMask } from './ordered-index.ts'
import type { Store } from './store.ts'
import { parseLocalSeconds } from './zone.ts'

export interface ListQuery {
  number: number
  /** Rows of a full page. */
  size: number
  /** The size that was asked for. */
  askedSize: number
  mask: StatusMask
  eventId: string | undefined
  /** Local microseconds. */
  range: KeyRange
}

/** A parameter that can't be read. */
export interface BadParameter {
  parameter: string
  problem: string
}

export interface ListedPage {
  /** Record numbers. */
  records: number[]
  page: WirePage
}

const anyStatus: StatusMask = (1 << statusCodes) - 1
const always: KeyRange = { from: -Infinity, to: Infinity }
const second = 1_000_000

export function parseListQuery(parameters: URLSearchParams, readings: Readings): ListQuery | BadParameter {
  const read = (name: string, ignored: IgnoredParameter): string | null =>
    readings.ignores.includes(ignored) ? null : parameters.get(name)

  const number = readInteger(listParameter.pageNumber, read(listParameter.pageNumber, 'page.number') ?? '0', 0)
  if (typeof number !== 'number') return number
  const size = readInteger(
    listParameter.pageSize,
    read(listParameter.pageSize, 'page.size') ?? String(defaultPageSize),
    1,
  )
  if (typeof size !== 'number') return size
  if (size > maxPageSize && readings.oversizedPage === 'refuse') {
    return { parameter: listParameter.pageSize, problem: `must be at most ${maxPageSize}` }
  }
  const mask = readings.ignores.includes('status')
    ? anyStatus
    : readStatuses(parameters.getAll(listParameter.status), readings)
  if (typeof mask !== 'number') return mask
  const eventId = read(listParameter.eventId, 'eventId') ?? undefined
  if (eventId !== undefined && !isUuid(eventId)) return { parameter: listParameter.eventId, problem: 'must be a UUID' }
  const range = readRange(read(listParameter.from, 'from'), read(listParameter.to, 'to'), readings.bounds)
  if ('problem' in range) return range
  return { number, size: Math.min(size, maxPageSize, readings.maxPageSize), askedSize: size, mask, eventId, range }
}

function readInteger(parameter: string, text: string, least: number): number | BadParameter {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : NaN
  return value >= least ? value : { parameter, problem: `must be an integer from ${least} up` }
}

function readStatuses(values: readonly string[], { statusEncoding }: Readings): StatusMask | BadParameter {
  const parameter = listParameter.status
  if (values.length === 0) return anyStatus
  if (values.length > 1 && (statusEncoding === 'comma' || statusEncoding === 'single')) {
    return { parameter, problem: 'must be given once' }
  }
  const names =
    statusEncoding === 'both' || statusEncoding === 'comma' ? values.flatMap((value) => value.split(',')) : values
  let mask = 0
  for (const name of names) {
    const code = (webhookStatuses as readonly string[]).indexOf(name)
    if (code === -1) return { parameter, problem: `must be of ${webhookStatuses.join(', ')}` }
    mask |= 1 << code
  }
  return mask
}

/** The half-open range of event times that these bounds mean. */
function readRange(fromText: string | null, toText: string | null, bounds: Bounds): KeyRange | BadParameter {
  const range = { ...always }
  const step = bounds.precision === 'second' ? second : 1
  if (fromText !== null) {
    const from = parseLocalSeconds(fromText)
    if (from === undefined) return badDateTime(listParameter.from)
    range.from = bounds.from === 'inclusive' ? from : from + step
  }
  if (toText !== null) {
    const to = parseLocalSeconds(toText)
    if (to === undefined) return badDateTime(listParameter.to)
    range.to = bounds.to === 'inclusive' ? to + step : to
  }
  return range
}

function badDateTime(parameter: string): BadParameter {
  return { parameter, problem: 'must be a date-time as YYYY-MM-DDThh:mm:ss' }
}

export interface Lister {
  page(query: ListQuery, order: ListOrder): ListedPage
}

type KeyedOrder = Extract<ListOrder, 'id' | 'shuffled'>

interface RangeIndex {
  range: KeyRange
  index: OrderedIndex
}

/** So many ranges are kept in an order other than that of time; a sweep reads few at once. */
const keptRanges = 8

export function createLister(store: Store, seed: number): Lister {
  const shuffleKey = hash(seed, 3)
  const keys: Record<KeyedOrder, { of: (record: number) => number; back: (key: number) => number }> = {
    id: { of: store.webhookIds.sortKey, back: store.webhookIds.fromSortKey },
    shuffled: { of: (record) => mix(record ^ shuffleKey), back: (key) => (unmix(key) ^ shuffleKey) >>> 0 },
  }
  // Least recently used first.
  const ranges = new Map<string, RangeIndex>()

  store.onAdded((record) => {
    if (record === undefined) ranges.clear()
    else for (const { index } of around(record)) index.insert(record)
  })
  store.onMoved((record, before, after) => {
    for (const { index } of around(record)) index.moved(record, before, after)
  })

  function around(record: number): RangeIndex[] {
    const time = store.eventMicrosOf(record)
    return [...ranges.values()].filter(({ range }) => time >= range.from && time < range.to)
  }

  /** The records of a time range in this order: sorted when first asked for (100 ms for a million), kept up from then on. */
  function indexOf(order: KeyedOrder, range: KeyRange): OrderedIndex {
    const name = `${order} ${range.from} ${range.to}`
    const entry = ranges.get(name) ?? { range, index: sorted(order, range) }
    ranges.delete(name)
    ranges.set(name, entry)
    const [oldest] = ranges.keys()
    if (ranges.size > keptRanges && oldest !== undefined) ranges.delete(oldest)
    return entry.index
  }

  function sorted(order: KeyedOrder, range: KeyRange): OrderedIndex {
    const { of, back } = keys[order]
    const records = store.byEvent.slice(anyStatus, range, { offset: 0, limit: store.size, descending: false })
    const index = createOrderedIndex(of, store.statusOf)
    index.rebuild(Uint32Array.from(records, of).sort().map(back))
    return index
  }

  return {
    page(query, order) {
      if (query.eventId !== undefined) return pageOfOne(store, query, query.eventId)
      const { mask, range, size } = query
      const part = { offset: query.number * size, limit: size, descending: order === 'event-desc' }
      const records =
        order === 'id' || order === 'shuffled'
          ? indexOf(order, range).slice(mask, always, part)
          : store.byEvent.slice(mask, range, part)
      return { records, page: pageOf(query, store.byEvent.count(mask, range)) }
    },
  }
}

function pageOfOne(store: Store, query: ListQuery, eventId: string): ListedPage {
  const record = store.findEvent(eventId)
  const time = record === undefined ? NaN : store.eventMicrosOf(record)
  const matches =
    record !== undefined &&
    time >= query.range.from &&
    time < query.range.to &&
    (query.mask & (1 << store.statusOf(record))) !== 0
  return {
    records: matches && query.number === 0 ? [record] : [],
    page: pageOf(query, matches ? 1 : 0),
  }
}

function pageOf({ size, number }: ListQuery, totalElements: number): WirePage {
  return { size, number, totalElements, totalPages: Math.ceil(totalElements / size) }
}
