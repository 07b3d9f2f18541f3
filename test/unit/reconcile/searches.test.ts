// Searches for pending records: a span is cut before its pages lie deep, as deep pages are slow on any database.
import { expect, test } from 'vitest'
import type { ListPage } from '../../../src/platform/operations.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import { afterPage, planSearches, type Search } from '../../../src/reconcile/confirm/searches.ts'
import { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { hourMs, secondMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/records.ts'
import { uuid } from '../../support/incident.ts'

const zone = createTimeZone('UTC')

/** Records of events that are this far apart. */
function pending(count: number, apartMs: number): FailedRecord[] {
  return Array.from({ length: count }, (_, index) => {
    const row = { eventId: uuid(index), eventLocal: testNow - hourMs + index * apartMs }
    return new FailedRecord(failedRecord(row), { zone, now: testNow })
  })
}

/** A whole page that shows none of them, of so many rows in all. */
const barren = (total: number | undefined): ListPage => ({
  ...{ records: [failedRecord({ eventLocal: testNow })], unreadable: [] },
  ...{ rows: 100, size: 100, total },
})

function only(records: readonly FailedRecord[]): Search {
  const [search, ...others] = planSearches(records, 60)
  if (search === undefined || others.length > 0) throw new Error('one search was expected')
  return search
}

test('records share a span while each is at most the gap after the one before; one without an event has the pages of its second', () => {
  const near = pending(3, 60 * secondMs)
  expect(planSearches(near, 60).map(({ kind }) => kind)).toEqual(['span'])
  const withoutEvent = new FailedRecord(failedRecord({ eventId: '', eventLocal: testNow }), { zone, now: testNow })
  const search = only([withoutEvent])
  expect(search.kind).toBe('second')
  const page = barren(150)
  const [next] = afterPage(search, page, [withoutEvent])
  expect(next).toMatchObject({ kind: 'second', page: 1 })
  // A page that shows nothing new is the last one.
  expect(afterPage(next ?? search, page, [withoutEvent])).toEqual([])
})

test('a span of more than 50 pages is cut in two', () => {
  const records = pending(200, secondMs)
  const next = afterPage(only(records), barren(5100), records)
  expect(next.map(({ kind, page }) => [kind, page])).toEqual([
    ['span', 0],
    ['span', 0],
  ])
  const [first, second] = next.map(({ span }) => span)
  expect(first?.to).toBe(second?.from)
  expect(afterPage(only(records), barren(5000), records)).toMatchObject([{ kind: 'span', page: 1 }])
})

test('no page after the 50th of a span is read, also where there is no total', () => {
  const records = pending(200, secondMs)
  const search = { ...only(records), page: 49 }
  const next = afterPage(search, barren(undefined), records)
  expect(new Set(next.map(({ kind }) => kind))).toEqual(new Set(['event']))
  expect(next).toHaveLength(200)
})

test('a page that shows nothing new is the last of a span, also below the total', () => {
  const records = pending(200, secondMs)
  const page = barren(5000)
  const [next] = afterPage(only(records), page, records)
  expect(next?.page).toBe(1)
  expect(new Set(afterPage(next ?? only(records), page, records).map(({ kind }) => kind))).toEqual(new Set(['event']))
})

test('a single second cannot be cut: its pages are read on', () => {
  const records = pending(200, 0)
  const search = { ...only(records), page: 60 }
  expect(afterPage(search, barren(15_000), records)).toMatchObject([{ kind: 'span', page: 61 }])
})
