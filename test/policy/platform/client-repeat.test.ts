// Listing again: which failures are worth a second try, how many there are, how long they wait, and what share of the calls they are.
import { describe, expect, test } from 'vitest'
import type { ListQuery } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { createClientUnderTest, type ClientUnderTest, type Reply } from '../../support/platform-client.ts'
import { wirePage, wireWebhook } from '../../support/webhooks.ts'

const query: ListQuery = { status: 'failed', page: 0, size: 100 }
const { signal } = new AbortController()
const good: Reply = { body: wirePage([wireWebhook()]) }

function list(under: ClientUnderTest): Promise<unknown> {
  return under.clock.run(under.client.list(query, signal))
}

describe('asking again', () => {
  const passing: Reply[] = [
    { status: 500 },
    { status: 503 },
    { status: 429 },
    { status: 408 },
    { body: '{"data":' },
    { body: {} },
    { breaks: 'ECONNRESET' },
    { breaks: 'ETIMEDOUT' },
    { breaks: 'DEPTH_ZERO_SELF_SIGNED_CERT' },
  ]

  test.each(passing)('after %j a second try may succeed', async (reply) => {
    await using under = createClientUnderTest()
    under.replies(reply, good)
    expect(await list(under)).toMatchObject({ rows: 1 })
    expect(under.taken.list).toBe(2)
  })

  test.each(passing)('while it is %j there are three tries, not more', async (reply) => {
    await using under = createClientUnderTest()
    under.always(reply)
    await expect(list(under)).rejects.toThrow(PlatformFailure)
    expect(under.sent).toHaveLength(3)
    expect(under.taken.list).toBe(3)
  })

  test.each([
    { status: 302 },
    { status: 400 },
    { status: 403 },
    { status: 404 },
    { status: 409 },
    { status: 410 },
    { status: 418 },
    { status: 422 },
    { body: { code: 'svc.x' } },
  ])('%j will not get better: one try', async (reply) => {
    await using under = createClientUnderTest()
    under.replies(reply)
    await expect(list(under)).rejects.toThrow(PlatformFailure)
    expect(under.sent).toHaveLength(1)
  })

  test('the waits between are of full jitter: up to half a second, up to one', async () => {
    const draws = [0.999, 0.999, 0, 0]
    await using under = createClientUnderTest({ random: { next: () => draws.shift() ?? 0, uuid: () => '' } })
    under.always({ status: 500 })
    await expect(list(under)).rejects.toThrow('server-error')
    await expect(list(under)).rejects.toThrow('server-error')
    const [first = 0, second = 0, third = 0, ...others] = under.sent.map(({ at }) => at)
    expect(second - first).toBeCloseTo(499.5)
    expect(third - second).toBeCloseTo(999)
    expect(new Set(others).size).toBe(1)
  })

  test('Retry-After holds for the next try as well', async () => {
    await using under = createClientUnderTest()
    under.replies({ status: 503, headers: { 'retry-after': '120' } }, good)
    await list(under)
    const [first = 0, second = 0] = under.sent.map(({ at }) => at)
    expect(second - first).toBeGreaterThanOrEqual(120_000)
    expect(second - first).toBeLessThan(121_500)
  })

  test.each([
    ['one after the other', 1],
    ['ten at once', 10],
  ])('of a thousand failing calls, %s, repeats stay under 10 % of what is sent', async (_, atOnce) => {
    await using under = createClientUnderTest()
    under.always({ status: 500 })
    for (let calls = 0; calls < 1_000; calls += atOnce) {
      const batch = Array.from({ length: atOnce }, () => under.client.list(query, signal))
      await under.clock.run(Promise.allSettled(batch))
    }
    const repeats = under.sent.length - 1_000
    expect(repeats).toBeGreaterThan(80)
    expect(repeats / under.sent.length).toBeLessThan(0.1)
  })

  test('what is saved up in good times is a handful, too', async () => {
    await using under = createClientUnderTest()
    under.replies(...Array.from({ length: 300 }, () => good))
    for (let i = 0; i < 300; i += 1) await list(under)
    under.always({ status: 500 })
    for (let i = 0; i < 20; i += 1) await expect(list(under)).rejects.toThrow('server-error')
    expect(under.sent.length - 320).toBeLessThanOrEqual(7)
  })
})
