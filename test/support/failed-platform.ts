// A platform of very many failed records, each of a subscription whose receiver takes, refuses or fails them: cheap enough for an hour of retries.
import type { PlatformClient } from '../../src/platform/client.ts'
import type { ListPage, ListQuery } from '../../src/platform/operations.ts'
import type { RateLimiter } from '../../src/platform/rate-limiter.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { subscription } from './dispatching.ts'
import { firstFrom } from './event-order.ts'
import { idOf } from './fake-platform.ts'

/** So many records of one subscription, spread evenly over a span of event time in epoch ms. */
export interface Population {
  subscription: number
  records: number
  from: number
  to: number
  /** The receiver's answer to each delivery: a 5xx of a dead receiver, or a 4xx to a record that it refuses. */
  answer: 200 | 422 | 503
}

export interface FailedPlatform extends PlatformClient {
  /** Records that were delivered, and calls by kind. */
  delivered(): number
  calls: { list: number; confirm: number; retry: number }
}

interface Row {
  record: WebhookRecord
  answer: Population['answer']
}

const latencyMs = 50

/** A PATCH delivers before it answers. */
export function createFailedPlatform(
  populations: readonly Population[],
  { clock, rate }: { clock: Clock; rate: RateLimiter },
): FailedPlatform {
  const rows = new Map<string, Row>()
  const byEvent = new Map<string, Row>()
  for (const { answer, from, records, subscription: number, to } of populations) {
    for (let index = 0; index < records; index += 1) {
      const id = idOf(rows.size + 1)
      const eventLocal = Math.floor(from + ((to - from) * index) / records)
      const row: Row = {
        answer,
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
  const all = [...rows.values()].sort((a, b) => a.record.eventLocal - b.record.eventLocal)
  let failed = all
  let stale = 0
  let delivered = 0

  /** Rows among which a query looks, in the order of their events. */
  function rowsFor({ eventId, status }: ListQuery): readonly Row[] {
    if (eventId !== undefined) {
      const row = byEvent.get(eventId)
      return row === undefined ? [] : [row]
    }
    if (status === undefined) return all
    if (stale > 0) failed = failed.filter(({ record }) => record.status === 'failed')
    stale = 0
    return status === 'failed' ? failed : []
  }

  function page(query: ListQuery): ListPage {
    const sorted = rowsFor(query)
    const secondAt = (position: number): number => Math.floor((sorted[position]?.record.eventLocal ?? Infinity) / 1000)
    const indexOf = (second: number): number => firstFrom(second, sorted.length, secondAt)
    const [first, end] = [indexOf(query.from ?? -Infinity), indexOf((query.to ?? Infinity) + 1)]
    const start = Math.min(end, first + query.page * query.size)
    const records = sorted.slice(start, Math.min(end, start + query.size)).map(({ record }) => ({ ...record }))
    return { records, unreadable: [], rows: records.length, size: query.size, total: end - first }
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
      const status = row.answer === 200 ? 'successful' : 'failed'
      const attempts = row.record.attempts + 1
      Object.assign(row.record, { status, attempts, lastAttemptLocal: clock.now(), responseStatusCode: row.answer })
      if (status === 'successful') {
        stale += 1
        delivered += 1
      }
      return { result: 'accepted', reason: 'ok', sent: true, record: { ...row.record } }
    },
  }
}
