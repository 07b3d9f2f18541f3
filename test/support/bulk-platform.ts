// A million failed records that cost nothing until they are listed: for counting list calls.
import type { ListPage, ListQuery } from '../../src/platform/operations.ts'
import type { PlatformClient } from '../../src/platform/client.ts'
import { firstFrom } from './event-order.ts'
import { idOf } from './fake-platform.ts'

export interface BulkPlatform extends PlatformClient {
  calls(): number
  /** Highest page number that was asked for. */
  deepestPage(): number
}

/** A platform of failed records at these event seconds: oldest first, both bounds inclusive, true totals, pages of 100. */
export function createBulkPlatform(eventSeconds: Iterable<number>): BulkPlatform {
  const seconds = Float64Array.from(eventSeconds).sort()
  const indexOf = (second: number): number => firstFrom(second, seconds.length, (at) => seconds[at] ?? Infinity)
  let calls = 0
  let deepest = 0

  function page(query: ListQuery): ListPage {
    const [start, end] = [indexOf(query.from ?? -Infinity), indexOf((query.to ?? Infinity) + 1)]
    const first = Math.min(end, start + query.page * query.size)
    const last = Math.min(end, first + query.size)
    const records = Array.from({ length: last - first }, (_, offset) => ({
      id: idOf(first + offset),
      eventId: '',
      subscriptionId: '',
      status: 'failed' as const,
      attempts: 1,
      eventLocal: (seconds[first + offset] ?? 0) * 1000,
      lastAttemptLocal: null,
      eventType: '',
      module: '',
      responseStatusCode: null,
    }))
    return { records, unreadable: [], rows: records.length, size: query.size, total: end - start }
  }

  return {
    list(query) {
      calls += 1
      deepest = Math.max(deepest, query.page)
      return Promise.resolve(page(query))
    },
    retry: () => Promise.reject(new Error('nothing is retried here')),
    now: () => 0,
    knowsTime: () => true,
    calls: () => calls,
    deepestPage: () => deepest,
  }
}
