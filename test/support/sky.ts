// A platform that delivers after it has answered, as a PlatformClient: what confirming has to cope with, and a count of its calls.
import type { Clock } from '../../src/runtime/clock.ts'
import type { ListPage, ListQuery, RetryAnswer } from '../../src/platform/operations.ts'
import type { ListPurpose, PlatformClient } from '../../src/platform/client.ts'
import { createTimeZone, type TimeZone } from '../../src/platform/time-zone.ts'
import type { RateLimiter } from '../../src/platform/rate-limiter.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import { learn, listingOf, testNow } from './backlog.ts'
import { firstFrom } from './event-order.ts'
import { accepted, idOf } from './fake-platform.ts'
import { reconcile, type Reconcile, type ReconcileOptions } from './reconcile.ts'

/** What becomes of a retry that was taken. */
export interface Delivery {
  /** From its taking to its end, in ms; 0 is before the answer. */
  afterMs: number
  status: 'successful' | 'failed'
  /** What the receiver answers; null when it does not. */
  code?: number | null
}

export interface SkyCall {
  kind: 'retry' | ListPurpose
  /** Of a list. */
  query?: ListQuery
  /** Of a retry. */
  id?: string
  /** Monotonic ms: when it was sent. */
  at: number
}

export interface SkyOptions {
  /** Records that are failed at the beginning. */
  records: readonly WebhookRecord[]
  /** Event times (local ms) of others, which were delivered long ago. */
  delivered?: readonly number[]
  /** Time of one call, there and back. Default 20. */
  latencyMs?: number
  /** Default: successful after two seconds. Undefined: its outcome never comes. */
  deliver?: (record: WebhookRecord, now: number) => Delivery | undefined
  /** What a record is shown as until its delivery has ended. Default `processing`. */
  meanwhile?: 'processing' | 'failed'
  /** When an attempt is counted: at its beginning, or (default) at its end. */
  counts?: 'start' | 'end'
  /** Rows on a page at most. Default 100. */
  maxPageSize?: number
  /** The page size in the answer: its own (default), an echo of the question, or none. */
  tellsSize?: 'own' | 'asked' | 'none'
  totals?: 'true' | 'none' | 'zero' | 'half' | 'double' | 'huge'
  /** Parameters that a gateway drops. */
  ignores?: readonly ('eventId' | 'from' | 'to')[]
  /** `unstable`: rows change places from call to call. Default: by event time. */
  order?: 'event' | 'unstable'
  zone?: string
  /** Runs when a call has arrived: may throw what the call rejects with. */
  before?: (call: SkyCall) => void
  /** Makes another answer of that to a retry that was taken. */
  answer?: (answer: RetryAnswer, record: WebhookRecord) => RetryAnswer
}

interface Row {
  record: WebhookRecord
  /** What it becomes, and when (monotonic ms). */
  ends?: { at: number; wall: number; delivery: Delivery }
}

interface Sky extends PlatformClient {
  calls: SkyCall[]
  /** Ids that no list shows, as if they were not there. */
  hidden: Set<string>
  /** The record as the platform shows it now. */
  shown(id: string): WebhookRecord
  change(id: string, fields: Partial<WebhookRecord>): void
  /** Records that are not successful yet. */
  unresolved(): string[]
  counts(): Record<SkyCall['kind'], number>
}

/** A row of another's, delivered long ago. */
function deliveredRow(position: number, eventLocal: number): WebhookRecord {
  const id = idOf(0xd00000000000 + position)
  const known = { subscriptionId: '', eventType: '', module: '', responseStatusCode: 200, lastAttemptLocal: eventLocal }
  return { ...known, id, eventId: id, status: 'successful', attempts: 1, eventLocal }
}

/** Every other row from behind, then the rest: another order on each call, and the same each time the test runs. */
function shifted<T>(items: readonly T[], by: number): T[] {
  const start = items.length === 0 ? 0 : (by * 37) % items.length
  return [...items.slice(start), ...items.slice(0, start)]
}

function createSky(options: SkyOptions, { clock, rate }: { clock: Clock; rate: RateLimiter }): Sky {
  const { latencyMs = 20, maxPageSize = 100, meanwhile = 'processing', tellsSize = 'own', totals = 'true' } = options
  const zone: TimeZone = createTimeZone(options.zone ?? 'UTC')
  const ignores = new Set(options.ignores)
  const rows: Row[] = options.records.map((record) => ({ record: { ...record } }))
  const byId = new Map(rows.map((row) => [row.record.id, row]))
  const byEvent = Map.groupBy(rows, ({ record }) => record.eventId)
  const all = [
    ...rows.map((row) => ({ at: row.record.eventLocal, row })),
    ...(options.delivered ?? []).map((at) => ({ at, row: undefined })),
  ].sort((a, b) => a.at - b.at)
  const seconds = Float64Array.from(all, ({ at }) => Math.floor(at / 1000))
  const indexOf = (second: number): number => firstFrom(second, seconds.length, (at) => seconds[at] ?? Infinity)
  const ours = Int32Array.from(all.keys().filter((position) => all[position]?.row !== undefined))
  const calls: SkyCall[] = []
  const hidden = new Set<string>()

  /** The record as it is now. */
  function refresh(row: Row): WebhookRecord {
    const { ends } = row
    if (ends === undefined || ends.at > clock.monotonic()) return row.record
    const { code, status } = ends.delivery
    const isCounted = options.counts === 'start'
    row.record = {
      ...row.record,
      status,
      responseStatusCode: code === undefined ? (status === 'successful' ? 200 : 503) : code,
      ...(!isCounted && { attempts: row.record.attempts + 1, lastAttemptLocal: zone.toLocal(ends.wall) }),
    }
    delete row.ends
    return row.record
  }

  function begin(row: Row): void {
    const { record } = row
    const delivery = options.deliver === undefined ? after(2000)(record) : options.deliver(record, clock.now())
    const isCounted = options.counts === 'start'
    row.record = {
      ...record,
      status: meanwhile,
      ...(isCounted && { attempts: record.attempts + 1, lastAttemptLocal: zone.toLocal(clock.now()) }),
    }
    if (delivery === undefined) return
    row.ends = { at: clock.monotonic() + delivery.afterMs, wall: clock.now() + delivery.afterMs, delivery }
  }

  function retried(id: string): RetryAnswer {
    const row = byId.get(id)
    if (row === undefined) return { result: 'gone', reason: 'not-found', sent: true }
    const { status } = refresh(row)
    const isUnderWay = row.ends !== undefined
    if (status !== 'failed') return { result: 'already-resolved', reason: 'conflict', sent: true, found: status }
    if (isUnderWay) throw new Error(`${id} was retried while it is being delivered`)
    begin(row)
    const answer = accepted(refresh(row))
    return options.answer?.(answer, row.record) ?? answer
  }

  /** Positions of what was asked for. */
  function range(query: ListQuery): [first: number, end: number] {
    const from = query.from === undefined || ignores.has('from') ? -Infinity : query.from
    const to = query.to === undefined || ignores.has('to') ? Infinity : query.to
    return [indexOf(from), indexOf(to + 1)]
  }

  function rowAt(position: number): WebhookRecord {
    const found = all[position]
    return found?.row === undefined ? deliveredRow(position, found?.at ?? 0) : { ...refresh(found.row) }
  }

  /** Those of one event, or of one status, are few: they are found one by one; of others only what was failed once. */
  function picked(query: ListQuery): WebhookRecord[] {
    if (query.eventId !== undefined && !ignores.has('eventId')) {
      return (byEvent.get(query.eventId) ?? []).map((row) => ({ ...refresh(row) }))
    }
    const [first, end] = range(query)
    const records: WebhookRecord[] = []
    for (const position of ours) {
      if (position >= end) break
      const row = position < first ? undefined : all[position]?.row
      if (row === undefined) continue
      const record = refresh(row)
      if (record.status === query.status) records.push({ ...record })
    }
    return records
  }

  /** All that a query shows, on all its pages. */
  function whole(query: ListQuery, isPicked: boolean): WebhookRecord[] {
    const [first, end] = range(query)
    const found = isPicked ? picked(query) : Array.from({ length: end - first }, (_, index) => rowAt(first + index))
    const shown = found.filter(({ id }) => !hidden.has(id))
    return options.order === 'unstable' ? shifted(shown, calls.length) : shown
  }

  function told(found: number): number | undefined {
    const tells = { true: found, none: undefined, zero: 0, half: Math.floor(found / 2), double: found * 2, huge: 1e15 }
    return tells[totals]
  }

  function page(query: ListQuery): ListPage {
    const size = Math.min(query.size, maxPageSize)
    const isPicked = query.status !== undefined || (query.eventId !== undefined && !ignores.has('eventId'))
    const isWhole = isPicked || options.order === 'unstable' || hidden.size > 0
    const found = isWhole ? whole(query, isPicked) : undefined
    const [first, end] = range(query)
    const count = found?.length ?? end - first
    const [from, to] = [query.page * size, Math.min(count, (query.page + 1) * size)]
    const records =
      found?.slice(from, to) ??
      Array.from({ length: Math.max(0, to - from) }, (_, index) => rowAt(first + from + index))
    const sizes = { own: size, asked: query.size, none: undefined }
    return { records, unreadable: [], rows: records.length, size: sizes[tellsSize], total: told(count) }
  }

  async function travel<T>(call: SkyCall, signal: AbortSignal, work: () => T): Promise<T> {
    calls.push(call)
    await clock.sleep(latencyMs / 2, signal)
    signal.throwIfAborted()
    options.before?.(call)
    const answer = work()
    await clock.sleep(latencyMs / 2, signal)
    signal.throwIfAborted()
    return answer
  }

  return {
    calls,
    hidden,
    async list(query, signal, purpose = 'list') {
      await rate.acquire(purpose, signal)
      return travel({ kind: purpose, query: { ...query }, at: clock.monotonic() }, signal, () => page(query))
    },
    retry: (id, signal) => travel({ kind: 'retry', id, at: clock.monotonic() }, signal, () => retried(id)),
    now: () => clock.now(),
    knowsTime: () => true,
    shown(id) {
      const row = byId.get(id)
      if (row === undefined) throw new Error(`the sky has no record ${id}`)
      return refresh(row)
    },
    change(id, fields) {
      const row = byId.get(id)
      if (row === undefined) throw new Error(`the sky has no record ${id}`)
      row.record = { ...refresh(row), ...fields }
    },
    unresolved: () => rows.filter((row) => refresh(row).status !== 'successful').map(({ record }) => record.id),
    counts() {
      const counts = { retry: 0, list: 0, confirm: 0 }
      for (const { kind } of calls) counts[kind] += 1
      return counts
    },
  }
}

/** Every delivery succeeds after so long. */
export function after(afterMs: number): (record: WebhookRecord) => Delivery {
  return () => ({ afterMs, status: 'successful' })
}

export type World = Reconcile & { sky: Sky }

/** The reconcile parts under such a sky; circuits are on. The backlog is empty. */
export function under(options: SkyOptions, more: ReconcileOptions = {}): World {
  const made: { sky?: Sky } = {}
  const world = reconcile({
    circuit: { enabled: true },
    ...(options.zone !== undefined && { zone: options.zone }),
    ...more,
    client(parts) {
      made.sky = createSky(options, parts)
      return made.sky
    },
  })
  if (made.sky === undefined) throw new Error('the parts were put together without their platform')
  return Object.assign(world, { sky: made.sky })
}

/** The same with the records in its backlog, as if a sweep had brought them. */
export function holdingUnder(options: SkyOptions, more: ReconcileOptions = {}): World {
  const world = under(options, more)
  const span = { from: 0, to: Number.MAX_SAFE_INTEGER }
  const listing = listingOf([...options.records], { askedAt: 0, span })
  learn(world.backlog, listing, more.startMs ?? testNow)
  world.planner.changed()
  return world
}

/** How many outcomes of each kind were reported. */
export function outcomesOf(world: World): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const fact of world.facts) {
    if (fact.type === 'outcome') counts[fact.outcome] = (counts[fact.outcome] ?? 0) + 1
  }
  return counts
}

/** Milliseconds from the first retry of a record to each later call that pass. */
export function since(world: World, id: string, passes: (call: SkyCall) => boolean): number[] {
  const sent = world.sky.calls.find((call) => call.id === id)?.at
  if (sent === undefined) throw new Error(`${id} was not retried`)
  return world.sky.calls.filter((call) => call.at > sent && passes(call)).map(({ at }) => at - sent)
}
