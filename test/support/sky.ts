// A platform that delivers after it has answered, as a PlatformClient: what confirming has to cope with, and a count of its calls.
import type { Clock } from '../../src/runtime/clock.ts'
import type { ListPage, ListQuery, RetryAnswer } from '../../src/platform/operations.ts'
import type { ListPurpose, PlatformClient } from '../../src/platform/client.ts'
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
  deliver: (record: WebhookRecord, now: number) => Delivery
  /** Runs when a call has arrived: may throw what the call rejects with. */
  before?: (call: SkyCall) => void
}

interface Row {
  record: WebhookRecord
  /** What it becomes, and when (monotonic and wall-clock ms). */
  ends?: { at: number; wall: number; status: Delivery['status'] }
}

interface Sky extends PlatformClient {
  calls: SkyCall[]
  /** The record as the platform shows it now. */
  shown(id: string): WebhookRecord
  counts(): Record<SkyCall['kind'], number>
}

const pageSize = 100

/** A row of another's, delivered long ago. */
function deliveredRow(position: number, eventLocal: number): WebhookRecord {
  const id = idOf(0xd00000000000 + position)
  const known = { subscriptionId: '', eventType: '', module: '', responseStatusCode: 200, lastAttemptLocal: eventLocal }
  return { ...known, id, eventId: id, status: 'successful', attempts: 1, eventLocal }
}

function createSky(options: SkyOptions, { clock, rate }: { clock: Clock; rate: RateLimiter }): Sky {
  const { latencyMs = 20 } = options
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

  /** The record as it is now. */
  function refresh(row: Row): WebhookRecord {
    const { ends, record } = row
    if (ends === undefined || ends.at > clock.monotonic()) return record
    const responseStatusCode = ends.status === 'successful' ? 200 : 503
    const attempt = { attempts: record.attempts + 1, lastAttemptLocal: ends.wall }
    row.record = { ...record, ...attempt, status: ends.status, responseStatusCode }
    delete row.ends
    return row.record
  }

  function retried(id: string): RetryAnswer {
    const row = byId.get(id)
    if (row === undefined) return { result: 'gone', reason: 'not-found', sent: true }
    const record = refresh(row)
    const { status } = record
    if (status !== 'failed') return { result: 'already-resolved', reason: 'conflict', sent: true, found: status }
    const { afterMs, status: becomes } = options.deliver(record, clock.now())
    row.record = { ...record, status: 'processing' }
    row.ends = { at: clock.monotonic() + afterMs, wall: clock.now() + afterMs, status: becomes }
    return accepted(refresh(row))
  }

  function rowAt(position: number): WebhookRecord {
    const found = all[position]
    return found?.row === undefined ? deliveredRow(position, found?.at ?? 0) : { ...refresh(found.row) }
  }

  /** Those of one event, or of one status, are few: they are found one by one; of others only what was failed once. */
  function picked({ eventId, status }: ListQuery, [first, end]: readonly [number, number]): WebhookRecord[] {
    if (eventId !== undefined) return (byEvent.get(eventId) ?? []).map((row) => ({ ...refresh(row) }))
    const from = firstFrom(first, ours.length, (index) => ours[index] ?? Infinity)
    const records: WebhookRecord[] = []
    for (let index = from; index < ours.length && (ours[index] ?? end) < end; index += 1) {
      const record = rowAt(ours[index] ?? end)
      if (record.status === status) records.push(record)
    }
    return records
  }

  function page(query: ListQuery): ListPage {
    const size = Math.min(query.size, pageSize)
    const range = [indexOf(query.from ?? -Infinity), indexOf((query.to ?? Infinity) + 1)] as const
    const isPicked = query.status !== undefined || query.eventId !== undefined
    const found = isPicked ? picked(query, range) : undefined
    const total = found?.length ?? range[1] - range[0]
    const [from, to] = [query.page * size, Math.min(total, (query.page + 1) * size)]
    const records =
      found?.slice(from, to) ??
      Array.from({ length: Math.max(0, to - from) }, (_, index) => rowAt(range[0] + from + index))
    return { records, unreadable: [], rows: records.length, size, total }
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
    counts() {
      const counts = { retry: 0, list: 0, confirm: 0 }
      for (const { kind } of calls) counts[kind] += 1
      return counts
    },
  }
}

/** Every delivery succeeds after so long. */
export function after(afterMs: number): () => Delivery {
  return () => ({ afterMs, status: 'successful' })
}

export type World = Reconcile & { sky: Sky }

/** The reconcile parts under such a sky; circuits are on. The backlog is empty. */
export function under(options: SkyOptions, more: ReconcileOptions = {}): World {
  const made: { sky?: Sky } = {}
  const world = reconcile({
    circuit: { enabled: true },
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
