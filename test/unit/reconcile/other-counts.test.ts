// Counts beside the window's failed records, from the page of one call: those beyond the window, and those that are processing for too long.
import { expect, test } from 'vitest'
import type { ListPage, ListQuery } from '../../../src/platform/operations.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { countOutside, countStuck, outsideOf } from '../../../src/reconcile/sweep/other-counts.ts'
import { dayMs, defaultPolicy, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/records.ts'

const zone = createTimeZone('UTC')
const { signal } = new AbortController()
const start = testNow - 7 * dayMs
const before = failedRecord({ eventLocal: start - dayMs })
const inside = failedRecord({ eventLocal: testNow - dayMs })

const hundred = Array.from({ length: 100 }, () => ({ ...before, id: crypto.randomUUID() }))

const pageOf = (records: WebhookRecord[], fields: Partial<ListPage> = {}): ListPage => ({
  ...{ records, unreadable: [], rows: records.length, size: 100, total: records.length },
  ...fields,
})

test.each<[string, (query: ListQuery) => ListPage, number | 'missed' | undefined, notBefore?: number]>([
  ['the rows of its only page, though the total may be of all records', () => pageOf([before], { total: 4000 }), 1],
  ['the total, where its page is full', () => pageOf(hundred, { total: 400 }), 400],
  ['none when the window begins before it', () => pageOf([before]), 0, testNow - hourMs],
  ['the rows of its pages, without a total', () => pageOf([before], { total: undefined }), 1],
  ['so, too, when there are rows but the total is none', () => pageOf([before], { total: 0 }), 1],
  ['nothing once no row is shown', () => pageOf([], { total: undefined }), 0],
  ['not believed when there is a total but no row', () => pageOf([], { total: 5 }), undefined],
  ['not believed when the row shows another status', () => pageOf([{ ...before, status: 'successful' }]), undefined],
  ['not believed when the row shows that the bound is ignored', () => pageOf([inside]), undefined],
  ['missed where a list of its own second lacks the row', ({ from }) => pageOf(from ? [] : [inside]), 'missed'],
])('records beyond the window are %s', async (_, list, count, notBefore) => {
  const { before: outside } = outsideOf(testNow, { ...defaultPolicy.window, notBefore }, zone)
  const client = { now: () => testNow, list: (query: ListQuery) => Promise.resolve(list(query)) }
  expect(await countOutside({ client, policy: defaultPolicy, zone }, outside, signal)).toBe(count)
})

const at = (eventLocal: number): Partial<WebhookRecord> => ({ eventLocal, lastAttemptLocal: eventLocal })

test.each<[string, Partial<WebhookRecord>, number, triedAgoMs?: number]>([
  ['its last attempt', { lastAttemptLocal: testNow - 15 * minuteMs - 1 }, 1],
  ['its last attempt, just not yet', { lastAttemptLocal: testNow - 15 * minuteMs }, 0],
  ['its event, when it has no attempt', { lastAttemptLocal: null }, 1],
  ['its event, when the attempt is shown to be in the future', { lastAttemptLocal: testNow + hourMs }, 1],
  ['an event long ago and an attempt just now', { eventLocal: testNow - 6 * dayMs, lastAttemptLocal: testNow }, 0],
  ['our own PATCH just now', {}, 0, 0],
  ['our own PATCH long ago', {}, 1, 16 * minuteMs],
  ['an event in the second before the window, which is asked for', at(start - 500), 0],
  ['an event in the first second of the window', at(start), 1],
  ['never, if it is excluded', { eventType: 'unwanted', lastAttemptLocal: null }, 0],
])('a record is stuck since %s', async (_, fields, count, triedAgoMs) => {
  const record = failedRecord({ eventLocal: testNow - hourMs, status: 'processing', ...fields })
  const select = { eventTypes: [inside.eventType], subscriptionIds: [] }
  const stuck = await countStuck(
    {
      client: { now: () => testNow, list: () => Promise.resolve(pageOf([record])) } as never,
      monotonic: () => 0,
      policy: { ...defaultPolicy, select },
      zone,
      triedAt: () => (triedAgoMs === undefined ? undefined : testNow - triedAgoMs),
    },
    signal,
  )
  expect(stuck).toBe(count)
})
