// Failed records beyond the window: counted by one call of size 1, and not believed where the answer shows that it means others.
import { describe, expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { countBeyond } from '../../../src/reconcile/sweep/other-counts.ts'
import { dayMs, hourMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/fake-platform.ts'
import { reconcile } from '../../support/reconcile.ts'

const start = testNow - 7 * dayMs

function failed(count: number, eventLocal: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) => failedRecord({ eventLocal: eventLocal + index * 1000, ...fields }))
}

const longAgo = failed(4, start - 2 * dayMs)
const inside = failed(5, testNow - dayMs)

describe('how many', () => {
  test.each([
    ['counted', {}, 4],
    ['not known without a total', { totals: 'none' }, 0],
    ['not believed when the row shows that the bound is ignored', { ignores: ['to'], order: 'event-desc' }, 0],
    ['not believed when there are rows but the total is none', { totals: 'zero' }, 0],
  ] as const)('%s', async (_, readings, count) => {
    await using world = reconcile({ ...readings, records: [...longAgo, ...inside] })
    await world.sweep()
    expect(world.sweeper.beyondWindow()).toBe(count)
  })

  test('not believed when there is a total but no row', async () => {
    await using world = reconcile({ records: inside, totals: 'all' })
    await world.sweep()
    expect(world.sweeper.beyondWindow()).toBe(0)
  })

  test('not believed when the row shows that the status is ignored', async () => {
    await using world = reconcile({ records: failed(9, start - hourMs, { status: 'successful' }), ignores: ['status'] })
    await world.sweep()
    expect(world.sweeper.beyondWindow()).toBe(0)
  })

  test.each([
    [1, 4, 4],
    [3, 2, undefined],
    [1, 0, undefined],
    [0, 0, 0],
  ])('%i rows of a total of %i: %s', async (rows, total, expected) => {
    const records = failed(Math.min(1, rows), start - hourMs)
    const client = { list: () => Promise.resolve({ records, unreadable: [], rows, size: 1, total }) }
    const window = { from: start / 1000, to: testNow / 1000 }
    expect(await countBeyond(client, window, new AbortController().signal)).toBe(expected)
  })
})

test('a full sweep asks once, for one row, also when nothing lies there; a platform that fails there is no failed sweep', async () => {
  let isDown = false
  await using world = reconcile({
    records: longAgo,
    onList: ({ from, to }) => {
      if (isDown && from === undefined && to !== undefined) throw new PlatformFailure('server-error', 500, 'list')
    },
  })
  await world.sweep()
  const asked = world.platform.lists.filter(({ from, to }) => from === undefined && to !== undefined)
  expect(asked).toMatchObject([{ status: 'failed', size: 1, to: start / 1000 - 1 }])
  isDown = true
  expect(await world.sweep()).toMatchObject({ result: 'complete' })
  expect(world.sweeper.beyondWindow()).toBe(4)
})
