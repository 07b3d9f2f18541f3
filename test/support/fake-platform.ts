// The platform in memory, as a PlatformClient: readings of what the specification leaves open, and any trouble a test wants. Bounds
// belong to what is asked for, to the second.
import type { Clock } from '../../src/runtime/clock.ts'
import type { ListPage, ListPurpose, ListQuery, RetryResponse } from '../../src/platform/operations.ts'
import type { PlatformClient } from '../../src/platform/client.ts'
import type { UnreadableRow, WebhookRecord } from '../../src/platform/record.ts'

/** How the platform reads what docs/platform-api.md "List webhooks" does not say. */
interface Readings {
  /** `unstable`: by event second, ties in another order on every page. Default `event-asc`. */
  order?: 'event-asc' | 'event-desc' | 'unstable'
  /** Parameters that a gateway drops. */
  ignores?: readonly ('status' | 'from' | 'to' | 'page')[]
  /** True for lists that show no rows: a filter hides all. */
  hides?: (query: ListQuery) => boolean
  /** Rows on a page at most, no matter what was asked. Default 100. */
  maxPageSize?: number
  /** The page size in the response: its own, an echo of the question, or none. Default `own`. */
  tellsSize?: 'own' | 'asked' | 'none'
  /** `all`: of all records, no matter what was asked. `huge`: a number that has nothing to do with them. Default `true`. */
  totals?: 'true' | 'none' | 'all' | 'zero' | 'double' | 'huge'
}

/** How a delivery ends: what the receiver answers, and how long after its PATCH. */
export interface Delivery {
  afterMs: number
  code: number
}

export interface FakePlatformOptions extends Readings {
  records?: readonly WebhookRecord[]
  /** For the platform's time, and how long calls take. Without it the time stands still and calls take none. */
  clock?: Clock
  latencyMs?: number
  /** True when a response has given the platform's time. Default yes. */
  knowsTime?: () => boolean
  /** Called when a list call has arrived, before it is answered: may change the records, or throw what the call rejects with. */
  onList?: (query: ListQuery, platform: FakePlatform) => void | Promise<void>
  /** Rows that can't be read, put at the end of every page of these numbers. */
  unreadable?: (query: ListQuery) => UnreadableRow[]
  /** What becomes of a PATCH of a failed record, which is processing until then; undefined: nothing. Default: delivered before the response. */
  deliver?: (record: WebhookRecord) => Delivery | undefined
  /** What the platform answers to a PATCH in the place of that; undefined for what it answers by itself. May throw. */
  onRetry?: (
    record: WebhookRecord | undefined,
    platform: FakePlatform,
    id: string,
  ) => RetryResponse | undefined | Promise<RetryResponse | undefined>
}

export interface FakePlatform extends PlatformClient {
  /** By id. `add` and `set` change them. */
  readonly records: ReadonlyMap<string, WebhookRecord>
  /** List calls in the order they came, and when (platform epoch ms). */
  readonly lists: (ListQuery & { at: number; purpose: ListPurpose })[]
  /** Ids of the PATCHes in the order they came, and when (platform epoch ms). */
  readonly retries: { id: string; at: number }[]
  add(...records: WebhookRecord[]): void
  set(id: string, fields: Partial<WebhookRecord>): void
  /** Ids of what is failed now. */
  failedIds(): string[]
}

export function accepted(record?: WebhookRecord): RetryResponse {
  return { result: 'accepted', reason: 'ok', sent: true, ...(record === undefined ? {} : { record: { ...record } }) }
}

const sorts: Record<NonNullable<Readings['order']>, (a: WebhookRecord, b: WebhookRecord) => number> = {
  'event-asc': (a, b) => a.eventLocal - b.eventLocal || (a.id < b.id ? -1 : 1),
  'event-desc': (a, b) => b.eventLocal - a.eventLocal || (a.id < b.id ? -1 : 1),
  unstable: (a, b) => Math.floor(a.eventLocal / 1000) - Math.floor(b.eventLocal / 1000),
}

export function createFakePlatform(options: FakePlatformOptions = {}): FakePlatform {
  const { clock, order = 'event-asc', maxPageSize = 100 } = options
  const ignores = new Set(options.ignores)
  const records = new Map((options.records ?? []).map((record) => [record.id, { ...record }]))
  const lists: FakePlatform['lists'] = []
  const retries: { id: string; at: number }[] = []
  let sorted: WebhookRecord[] | undefined
  /** Rows by what was asked for, until a record changes. */
  const answers = new Map<string, WebhookRecord[]>()
  /** Positions in `sorted` by id. */
  let positions = new Map<string, number>()

  const now = (): number => clock?.now() ?? 0

  /** There, or back. */
  async function travel(signal: AbortSignal): Promise<void> {
    if (clock !== undefined && (options.latencyMs ?? 0) > 0) await clock.sleep((options.latencyMs ?? 0) / 2, signal)
    signal.throwIfAborted()
  }

  function isInside(record: WebhookRecord, query: ListQuery): boolean {
    const at = Math.floor(record.eventLocal / 1000)
    const { eventId, from, to } = query
    if (options.hides?.(query) === true) return false
    if (eventId !== undefined && record.eventId.toLowerCase() !== eventId.toLowerCase()) return false
    const afterFrom = from === undefined || ignores.has('from') || at >= from
    const beforeTo = to === undefined || ignores.has('to') || at <= to
    return (
      afterFrom && beforeTo && (query.status === undefined || ignores.has('status') || record.status === query.status)
    )
  }

  function inOrder(): WebhookRecord[] {
    if (order === 'unstable') {
      // Ties fall anew each time: reversed by id on every other call.
      const byId = [...records.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
      return (lists.length % 2 === 0 ? byId : byId.reverse()).sort(sorts.unstable)
    }
    if (sorted === undefined) {
      sorted = [...records.values()].sort(sorts[order])
      positions = new Map(sorted.map(({ id }, position) => [id, position]))
    }
    return sorted
  }

  /** Records that a query asks for, in order. */
  function found(query: ListQuery): WebhookRecord[] {
    const { eventId, from, status, to } = query
    const all = inOrder()
    const key = [from, to, status, eventId].join()
    const rows = answers.get(key) ?? all.filter((record) => isInside(record, query))
    if (order !== 'unstable') answers.set(key, rows)
    return rows
  }

  function total(found: number): number | undefined {
    const totals = { true: found, none: undefined, all: records.size, zero: 0, double: found * 2, huge: 1_000_000_000 }
    return totals[options.totals ?? 'true']
  }

  function page(query: ListQuery): ListPage {
    const all = found(query)
    const size = Math.min(query.size, maxPageSize)
    const first = ignores.has('page') ? 0 : query.page * size
    const rows = all.slice(first, first + size).map((record) => ({ ...record }))
    const unreadable = options.unreadable?.(query) ?? []
    const told = { own: size, asked: query.size, none: undefined }[options.tellsSize ?? 'own']
    return { records: rows, unreadable, rows: rows.length + unreadable.length, size: told, total: total(all.length) }
  }

  function end({ id, attempts }: WebhookRecord, responseStatusCode: number): void {
    const status = responseStatusCode < 300 ? 'successful' : 'failed'
    platform.set(id, { status, responseStatusCode, attempts: attempts + 1, lastAttemptLocal: now() })
  }

  /** Where the delivery takes no time, the response shows its end. */
  function deliver(record: WebhookRecord | undefined): RetryResponse {
    if (record === undefined) return { result: 'gone', reason: 'not-found', sent: true }
    if (record.status !== 'failed') {
      const found = record.status
      return { result: 'already-resolved', reason: 'conflict', sent: true, found }
    }
    const delivery = options.deliver === undefined ? { afterMs: 0, code: 200 } : options.deliver(record)
    if (delivery?.afterMs === 0) end(record, delivery.code)
    else platform.set(record.id, { status: 'processing' })
    if (delivery !== undefined && delivery.afterMs > 0) clock?.timer(delivery.afterMs, () => end(record, delivery.code))
    return accepted(records.get(record.id))
  }

  const platform: FakePlatform = {
    records,
    lists,
    retries,
    now,
    knowsTime: () => options.knowsTime?.() ?? true,
    async list(query, signal, purpose = 'list') {
      lists.push({ ...query, purpose, at: now() })
      await travel(signal)
      await options.onList?.(query, platform)
      const answer = page(query)
      await travel(signal)
      return answer
    },
    async ping(signal, purpose) {
      await platform.list({ status: 'failed', page: 0, size: 1 }, signal, purpose)
    },
    async retry(id, signal) {
      retries.push({ id, at: now() })
      await travel(signal)
      const record = records.get(id)
      const answer = (await options.onRetry?.(record, platform, id)) ?? deliver(records.get(id))
      await travel(signal)
      return answer
    },
    add(...more) {
      for (const record of more) records.set(record.id, { ...record })
      sorted = undefined
      answers.clear()
    },
    set(id, fields) {
      const record = records.get(id)
      if (record === undefined) throw new Error(`the fake platform has no record ${id}`)
      const changed = { ...record, ...fields }
      records.set(id, changed)
      answers.clear()
      const position = positions.get(id)
      // The order is by id and event alone: another status leaves it as it is.
      if (sorted === undefined || position === undefined || changed.eventLocal !== record.eventLocal) sorted = undefined
      else sorted[position] = changed
    },
    failedIds: () => [...records.values()].filter(({ status }) => status === 'failed').map(({ id }) => id),
  }
  return platform
}
