// A million records: pages stay right and quick while records leave the list.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { client, start, type Client } from '../sandbox/client.ts'

const count = 1_000_000
const to = Date.parse('2025-03-11T00:00:00Z')
const from = to - 7 * 86_400_000
/** A page of a million records costs at most so many times a page of a thousand, in the same run: the host's speed is no part of it. */
const maxRatio = 4

let sandbox: Sandbox
let platform: Client
let smallMs: number

beforeAll(async () => {
  sandbox = await start()
  sandbox.seed({ count, from, to, failed: 0.6, processing: 0.1, spread: 'even' })
  platform = await client(sandbox)
  await using small = await start()
  small.seed({ count: 1000, from, to, failed: 0.6, processing: 0.1, spread: 'even' })
  smallMs = await bestMs(failedOnly, await client(small))
})

afterAll(async () => {
  await sandbox.close()
})

const failedOnly = { 'metadata.page.size': '100', 'data.webhook.status': 'failed' }

/** Time of a page: the best of many tries, because other work on the machine is not what is measured. */
async function bestMs(query: Record<string, string>, of: Client): Promise<number> {
  let best = Infinity
  for (let attempt = 0; attempt < 30; attempt++) {
    const startedAt = systemClock.monotonic()
    await (await of.get(query)).text()
    best = Math.min(best, systemClock.monotonic() - startedAt)
  }
  return best
}

test.each([
  ['shallow', failedOnly],
  ['deep', { ...failedOnly, 'metadata.page.number': '5990' }],
  ['deep, all', { 'metadata.page.size': '100', 'metadata.page.number': '9990' }],
  [
    'narrow',
    {
      ...failedOnly,
      'data.webhook.eventDateTimeFrom': '2025-03-08T10:00:00',
      'data.webhook.eventDateTimeTo': '2025-03-08T10:59:59',
    },
  ],
  [
    'wide, deep',
    { ...failedOnly, 'data.webhook.eventDateTimeFrom': '2025-03-05T00:00:00', 'metadata.page.number': '4000' },
  ],
])('a page that is %s costs little more than one of a thousand records, in every order', async (_, query) => {
  for (const order of ['event-asc', 'event-desc', 'id', 'shuffled'] as const) {
    sandbox.read({ order })
    expect((await platform.list(query)).data.webhooks).toHaveLength(100)
    expect(await bestMs(query, platform)).toBeLessThan(maxRatio * smallMs)
  }
})

test('totals are exact, and follow each retry', async () => {
  sandbox.read({ order: 'event-asc' })
  const oneHour = {
    ...failedOnly,
    'data.webhook.eventDateTimeFrom': '2025-03-08T10:00:00',
    'data.webhook.eventDateTimeTo': '2025-03-08T10:59:59',
  }
  const total = async (): Promise<number> => (await platform.list(oneHour)).metadata.page.totalElements
  // 1,000,000 events in 168 hours, 60 % of them failed.
  const before = await total()
  expect(Math.abs(before - (count * 0.6) / 168)).toBeLessThan(2)
  const ids = await platform.ids(oneHour)
  await Promise.all(ids.slice(0, 50).map((id) => platform.retry(id)))
  expect(await total()).toBe(before - 50)
  expect(await platform.ids(oneHour)).toEqual(expect.arrayContaining(ids.slice(50)))
  expect(sandbox.counts()).toEqual({ processing: 100_000, successful: 300_050, failed: 599_950 })
})
