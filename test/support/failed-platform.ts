// A platform of very many failed records, each of a subscription whose receiver is up or dead: cheap enough for an hour of retries.
import type { PlatformClient } from '../../src/platform/client.ts'
import type { ListPage, ListQuery } from '../../src/platform/operations.ts'
import type { RateLimiter } from '../../src/platform/rate-limiter.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { subscription } from './dispatching.ts'
import { idOf } from './fake-platform.ts'

/** So many records of one subscription, spread evenly over a span of event time in epoch ms. */
export interface Population {
  subscription: number
  records: number
  from: number
  to: number
  isDead: boolean
}

export interface FailedPlatform extends PlatformClient {
  /** Records that were delivered, and calls by kind. */
  delivered(): number
  calls: { list: number; confirm: number; retry: number }
}

interface Row {
  record: WebhookRecord
  isDead: boolean
}

const latencyMs = 50

/** A PATCH delivers before it answers. */
export function createFailedPlatform(
  populations: readonly Population[],
  { clock, rate }: { clock: Clock; rate: RateLimiter },
): FailedPlatform {
  const rows = new Map<string, Row>()
  const byEvent = new Map<string, Row>()
  for (const { from, isDead, records, subscription: number, to } of populations) {
    for (let index = 0; index < records; index += 1) {
      const id = idOf(rows.size + 1)
      const eventLocal = Math.floor(from + ((to - from) * index) / records)
      const row: Row = {
        isDead,
        record: {
          id,
          eventId: id.replace(/^0/, 'e'),
          subscriptionId: subscription(number),
          status: 'failed',
          attempts: 1,
          eventLocal,
          lastAttemptLocal: eventLocal + 1000,
          eventType: 'account-activated',
          module: 'accounts',
          responseStatusCode: 503,
        },
      }
      rows.set(id, row)
      byEvent.set(row.record.eventId, row)
    }
  }
  const calls = { list: 0, confirm: 0, retry: 0 }
  let failed = [...rows.values()].sort((a, b) => a.record.eventLocal - b.record.eventLocal)
  let stale = 0
  let delivered = 0

  /** The first failed row at or after a second. */
  function indexOf(second: number): number {
    let [low, high] = [0, failed.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (Math.floor((failed[middle]?.record.eventLocal ?? Infinity) / 1000) < second) low = middle + 1
      else high = middle
    }
    return low
  }

  function found(query: ListQuery): WebhookRecord[] {
    if (query.eventId !== undefined) {
      const row = byEvent.get(query.eventId)
      return row === undefined ? [] : [row.record]
    }
    if (stale > 0) failed = failed.filter(({ record }) => record.status === 'failed')
    stale = 0
    if (query.status !== undefined && query.status !== 'failed') return []
    const [first, end] = [indexOf(query.from ?? -Infinity), indexOf((query.to ?? Infinity) + 1)]
    const size = query.page * query.size
    return failed
      .slice(first, end)
      .map(({ record }) => record)
      .slice(size)
  }

  function page(query: ListQuery): ListPage {
    if (query.status === undefined && query.eventId === undefined) {
      const all = [...rows.values()].map(({ record }) => record)
      const inside = all.filter(({ eventLocal }) => {
        const second = Math.floor(eventLocal / 1000)
        return second >= (query.from ?? -Infinity) && second <= (query.to ?? Infinity)
      })
      const records = inside.slice(query.page * query.size, (query.page + 1) * query.size)
      return {
        records: records.map((record) => ({ ...record })),
        unreadable: [],
        rows: records.length,
        size: query.size,
        total: inside.length,
      }
    }
    const rest = found(query)
    const records = rest.slice(0, query.size).map((record) => ({ ...record }))
    const total = query.page * query.size + rest.length
    return { records, unreadable: [], rows: records.length, size: query.size, total }
  }

  return {
    calls,
    delivered: () => delivered,
    now: () => clock.now(),
    knowsTime: () => true,
    async list(query, signal, purpose = 'list') {
      await rate.acquire(purpose, signal)
      calls[purpose] += 1
      await clock.sleep(latencyMs, signal)
      return page(query)
    },
    async retry(id, signal) {
      calls.retry += 1
      await clock.sleep(latencyMs, signal)
      const row = rows.get(id)
      if (row?.record.status !== 'failed')
        return { result: 'already-resolved', reason: 'conflict', sent: true, found: 'successful' }
      const status = row.isDead ? 'failed' : 'successful'
      Object.assign(row.record, { status, attempts: row.record.attempts + 1, lastAttemptLocal: clock.now() })
      if (status === 'successful') {
        stale += 1
        delivered += 1
      }
      return { result: 'accepted', reason: 'ok', sent: true, record: { ...row.record } }
    },
  }
}
