// Records that have been processing for too long: nobody is told of them, and no retry is possible. @see design section 8
import type { ListPage, PlatformClient } from '../../platform/client.ts'
import type { Zone } from '../../platform/local-time.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import { maxPageSize } from '../../platform/wire.ts'
import type { Backlog } from '../retry/backlog.ts'
import { createFailedRecord } from '../failed-record.ts'
import { asked, isForeign } from './list-slice.ts'
import { readOn } from './pages.ts'
import type { WindowPolicy } from '../policy.ts'
import { contains, isEmpty, slidingWindow, type Span } from '../window.ts'

export interface StuckOptions {
  client: Pick<PlatformClient, 'list' | 'now'>
  backlog: Pick<Backlog, 'get'>
  window: WindowPolicy
  zone: Zone
  /** How long a record may be processing. */
  stuckAfterMs: number
  /** Pages asked for at once. */
  concurrency: number
}

export interface Stuck {
  /** Lists what is processing, at most 100 pages of it. @throws PlatformFailure, TokenError, or the signal's reason. */
  look(signal: AbortSignal): Promise<void>
  /** Records of the window that are stuck, selected or not, as the last whole look saw them; 0 before. */
  records(): number
}

/** So many pages say enough, also where the platform lists what was not asked for. */
const maxPages = 100

export function createStuck(options: StuckOptions): Stuck {
  const { backlog, client, zone } = options
  let records = 0

  /** It is processing since the latest of its event, its last attempt, and our PATCH. */
  function isStuck(record: WebhookRecord, span: Span, now: number): boolean {
    if (!contains(span, Math.floor(record.eventLocal / 1000))) return false
    const { eventAt, lastAt } = createFailedRecord(record, { zone, now, askedAt: 0 })
    const triedAt = backlog.get(record.id)?.triedAt ?? -Infinity
    return now - Math.max(eventAt, lastAt, triedAt) > options.stuckAfterMs
  }

  return {
    async look(signal) {
      const now = client.now()
      // What has happened since then can't be stuck yet.
      const span = slidingWindow(now, { ...options.window, settleMs: options.stuckAfterMs }, zone)
      if (isEmpty(span)) return
      const processing = new Map<string, WebhookRecord>()

      function take(page: ListPage): boolean {
        const before = processing.size
        for (const record of page.records) {
          const isAsked = record.status === 'processing' && !isForeign(record, span)
          if (isAsked) processing.set(record.id.toLowerCase(), record)
        }
        return processing.size > before
      }

      const readPage = (page: number): Promise<ListPage> =>
        client.list({ status: 'processing', ...asked(span), page, size: maxPageSize }, signal)
      const isLast = (page: ListPage): boolean => page.rows < (page.size ?? 1)
      const first = await readPage(0)
      if (take(first) && !isLast(first)) {
        const promised = Math.floor((first.total ?? 0) / (first.size ?? maxPageSize))
        const { concurrency } = options
        await readOn({ readPage, take, isLast, promised, lastAllowed: maxPages - 1, concurrency })
      }
      records = [...processing.values()].filter((record) => isStuck(record, span, now)).length
    },
    records: () => records,
  }
}
