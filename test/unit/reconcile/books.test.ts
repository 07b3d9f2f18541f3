// The books as their hours change while one is being listed.
import { expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { ListQuery } from '../../../src/platform/operations.ts'
import { createBooks } from '../../../src/reconcile/books/books.ts'
import { compareRecords } from '../../../src/reconcile/books/compare-records.ts'
import { defaultPolicy } from '../../support/backlog.ts'
import { failedRecord } from '../../support/records.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const [minuteMs, hourMs] = [60_000, 3_600_000]

test.each(['while its hour is being listed', 'after its hour was listed'])(
  'a loss behind the 200 of a retry %s is named once it has settled',
  async (when) => {
    const clock = createVirtualClock(Date.UTC(2026, 0, 15, 12, 20))
    const hour = Date.UTC(2026, 0, 15, 11)
    const eventLocal = hour + 2 * minuteMs
    const processed = failedRecord({ eventLocal: hour, lastAttemptLocal: hour, status: 'successful' })
    let lost = failedRecord({ eventLocal, lastAttemptLocal: eventLocal })
    const stop = new AbortController()

    function recover(): void {
      lost = { ...lost, status: 'successful', lastAttemptLocal: clock.now() }
      books.recovered(eventLocal)
    }

    const client = {
      now: () => clock.now(),
      async list({ from = 0, to = 0 }: ListQuery, signal: AbortSignal) {
        const isOfHour = from * 1000 <= eventLocal && eventLocal < to * 1000
        const records = isOfHour ? [processed, lost] : []
        await clock.sleep(30_000, signal)
        if (isOfHour && lost.status === 'failed' && when.startsWith('while')) recover()
        return { records, unreadable: [], rows: records.length, size: 100, total: records.length }
      },
    }
    const books = createBooks({
      ledger: { url: 'http://ledger/', key: 'webhookId', settle: 5 * minuteMs, lookback: 2 * hourMs },
      client: client as never,
      isReady: () => true,
      policy: defaultPolicy,
      ...{ zone: createTimeZone('UTC'), clock, emit: () => undefined },
      transport: (({ onChunk }: { onChunk: (chunk: Buffer) => void }) => {
        onChunk(Buffer.from(`${JSON.stringify({ webhookId: processed.id })}\n`))
        return Promise.resolve({ status: 200, headers: {}, body: '', sentAt: 0, receivedAt: 0 })
      }) as never,
    })
    const running = books.run(stop.signal)
    running.catch(() => undefined)
    await clock.advance(2 * minuteMs)
    if (lost.status === 'failed') recover()
    await clock.advance(12 * minuteMs)
    expect(books.missed().map(({ id }) => id)).toEqual([lost.id])
    stop.abort()
    await expect(running).rejects.toThrow()
  },
)

test.each([
  ['00:30', 1],
  ['01:01:30', 0],
])(
  'during a long listing of 02:00 to 03:00, which daylight saving repeats, an event of %s UTC',
  async (time, count) => {
    const zone = createTimeZone('Europe/Berlin')
    const [from, now] = [Date.UTC(2026, 9, 25), Date.UTC(2026, 9, 25, 1, 1)]
    const record = failedRecord({ eventLocal: zone.toLocal(Date.parse(`2026-10-25T${time}Z`)), status: 'successful' })
    const page = { records: [record], unreadable: [], rows: 1, size: 100, total: 1 }
    const names: string[] = []
    const client = { list: () => Promise.resolve(page), now: () => now + minuteMs, ping: () => Promise.resolve() }
    const ledger = { has: () => false, note: () => false } as never
    const pace = { concurrency: 1, monotonic: () => 0, sliceRecords: 500 }
    function compared({ key }: { key: string }): void {
      names.push(key)
    }
    const how = { client, kind: 'webhookId', ledger, zone, now, compared, ...pace } as const
    await compareRecords({ from, until: from + hourMs }, how, new AbortController().signal)
    expect(names).toHaveLength(count)
  },
)
