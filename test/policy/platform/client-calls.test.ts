// What listing and retrying have in common: 401 and its replay, waits that can be given up, what is learned from answers.
import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import type { PlatformClient } from '../../../src/platform/client.ts'
import { createClientUnderTest, noToken, type ClientUnderTest, type Reply } from '../../support/platform-client.ts'
import { webhookId, wireInvalidStatus, wirePage, wireRetried, wireWebhook } from '../../support/webhooks.ts'

const refused: Reply = { status: 401, body: { error: 'invalid_token' } }
const live = new AbortController().signal

type Operation = 'list' | 'retry'
const operations: Operation[] = ['list', 'retry']

const calls: Record<Operation, (client: PlatformClient, signal: AbortSignal) => Promise<unknown>> = {
  list: (client, signal) => client.list({ status: 'failed', page: 0, size: 100 }, signal),
  retry: (client, signal) => client.retry(webhookId, signal),
}
const good: Record<Operation, Reply> = {
  list: { body: wirePage([wireWebhook()]) },
  retry: { body: wireRetried() },
}
const shown: Record<Operation, object> = { list: { rows: 1 }, retry: { result: 'accepted' } }

function call(under: ClientUnderTest, operation: Operation, signal = live): Promise<unknown> {
  return under.clock.run(calls[operation](under.client, signal))
}

function bearers(under: ClientUnderTest): (string | undefined)[] {
  return under.sent.map(({ headers }) => headers['authorization'])
}

describe.each(operations)('401 to a %s', (operation) => {
  test('voids the token that was used, and is replayed at once with a new one', async () => {
    await using under = createClientUnderTest()
    under.replies(refused, good[operation])
    expect(await call(under, operation)).toMatchObject(shown[operation])
    expect(under.tokens.voided).toEqual(['token-1'])
    expect(bearers(under)).toEqual(['Bearer token-1', 'Bearer token-2'])
    expect((under.sent[1]?.at ?? 0) - (under.sent[0]?.at ?? 0)).toBeLessThan(5)
    expect(under.facts.map(({ reason }) => reason)).toEqual(['unauthorized', 'ok'])
  })

  test.each([0, 5_000, 8_900])(
    'a token %i ms old is tried once more after a second, before it is doubted',
    async (age) => {
      await using under = createClientUnderTest()
      under.tokens.ageMs(age)
      under.replies(refused, good[operation])
      expect(await call(under, operation)).toMatchObject(shown[operation])
      expect(under.tokens.voided).toEqual([])
      expect(bearers(under)).toEqual(['Bearer token-1', 'Bearer token-1'])
      expect((under.sent[1]?.at ?? 0) - (under.sent[0]?.at ?? 0)).toBeGreaterThanOrEqual(1_000)
    },
  )

  test('after that second the token goes out that is valid then', async () => {
    await using under = createClientUnderTest()
    under.tokens.ageMs(9_500)
    under.replies(refused, good[operation])
    const waiting = calls[operation](under.client, live)
    await under.clock.settle()
    await under.clock.settle()
    under.tokens.replace()
    expect(await under.clock.run(waiting)).toMatchObject(shown[operation])
    expect(bearers(under)).toEqual(['Bearer token-1', 'Bearer token-2'])
  })

  test('a token of ten seconds is old', async () => {
    await using under = createClientUnderTest()
    under.tokens.ageMs(10_000)
    under.replies(refused, good[operation])
    await call(under, operation)
    expect(under.tokens.voided).toEqual(['token-1'])
  })

  test('says whether a call had succeeded with the token', async () => {
    await using under = createClientUnderTest()
    under.replies(refused, good[operation], refused, good[operation])
    await call(under, operation)
    await under.clock.advance(10_000)
    await call(under, operation)
    expect(under.tokens.voided).toEqual(['token-1', 'token-2'])
    expect(under.tokens.hadWorked).toEqual(['token-2'])
  })

  test('the known error under 401 is no question of the token', async () => {
    await using under = createClientUnderTest()
    under.replies({ status: 401, body: wireInvalidStatus() })
    await call(under, operation).catch(() => undefined)
    expect(under.sent).toHaveLength(1)
    expect(under.tokens.voided).toEqual([])
  })

  test('the replay takes its place in the rate, too', async () => {
    await using under = createClientUnderTest({ maxPerSecond: 1 })
    if (operation === 'retry') await under.rate.acquire('retry')
    under.replies(refused, good[operation])
    await call(under, operation)
    expect((under.sent[1]?.at ?? 0) - (under.sent[0]?.at ?? 0)).toBeGreaterThanOrEqual(990)
  })
})

describe('401 that lasts', () => {
  test.each([0, 3_600_000])('a PATCH with a token %i ms old is sent twice, never more', async (age) => {
    await using under = createClientUnderTest()
    under.tokens.ageMs(age)
    under.replies(refused, refused)
    expect(await call(under, 'retry')).toEqual({ result: 'unauthorized', reason: 'unauthorized', sent: true })
    // Each token that was found void is voided, once.
    expect(under.tokens.voided).toEqual(age === 0 ? ['token-1'] : ['token-1', 'token-2'])
  })

  test('a list is replayed once in all, for any number of tries', async () => {
    await using under = createClientUnderTest()
    under.always(refused)
    await expect(call(under, 'list')).rejects.toMatchObject({ reason: 'unauthorized', status: 401 })
    expect(under.sent.length).toBeLessThanOrEqual(4)
    expect(new Set(under.tokens.voided).size).toBe(under.tokens.voided.length)
  })

  test('of two hundred lists it is hardly more than two calls each', async () => {
    await using under = createClientUnderTest()
    under.always(refused)
    for (let i = 0; i < 200; i += 1) await call(under, 'list').catch(() => undefined)
    expect(under.sent.length).toBeLessThan(200 * 2 * 1.15)
  })
})

describe('no token for the replay', () => {
  /** Answers 401; from then on there is no token. */
  function withoutSecondToken(under: ClientUnderTest): void {
    under.replies(refused)
    const { voided } = under.tokens
    voided.push = (...values: string[]): number => {
      under.tokens.error = noToken
      return Array.prototype.push.apply(voided, values)
    }
  }

  test('a list rejects with what the token endpoint said', async () => {
    await using under = createClientUnderTest()
    withoutSecondToken(under)
    await expect(call(under, 'list')).rejects.toBe(noToken)
    expect(under.taken.list).toBe(1)
  })

  test('a PATCH was sent and refused: that stands', async () => {
    await using under = createClientUnderTest()
    withoutSecondToken(under)
    expect(await call(under, 'retry')).toEqual({ result: 'unauthorized', reason: 'unauthorized', sent: true })
    expect(under.taken.retry).toBe(0)
  })
})

describe('giving up', () => {
  const reason = new Error('enough')

  /** Situations in which a call waits, and for what. */
  const waits: [string, Operation, (under: ClientUnderTest) => void][] = [
    [
      'for the rate',
      'list',
      (under) => under.rate.reportResponse({ kind: 'throttled', retryAfterMs: 60_000, sentAt: 1e12 }),
    ],
    ['between two tries', 'list', (under) => under.replies({ status: 500 })],
    [
      'for a pause that the platform asked for',
      'list',
      (under) => under.replies({ status: 429, headers: { 'retry-after': '60' } }),
    ],
    ['before the replay with a young token', 'list', (under) => (under.tokens.ageMs(0), under.replies(refused))],
    ['before the replay with a young token', 'retry', (under) => (under.tokens.ageMs(0), under.replies(refused))],
  ]

  test.each(waits)('while it waits %s: %s', async (_, operation, prepare) => {
    await using under = createClientUnderTest()
    prepare(under)
    const cancel = new AbortController()
    const waiting = calls[operation](under.client, cancel.signal)
    waiting.catch(() => undefined)
    await under.clock.settle()
    await under.clock.settle()
    const sent = under.sent.length
    cancel.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    expect(under.sent).toHaveLength(sent)
    expect(under.clock.sleepers()).toBe(0)
    expect(getEventListeners(cancel.signal, 'abort')).toEqual([])
  })

  test.each(operations)('before it began: %s', async (operation) => {
    await using under = createClientUnderTest()
    await expect(call(under, operation, AbortSignal.abort(reason))).rejects.toBe(reason)
    expect(under.sent).toEqual([])
  })

  test.each(operations)('a thousand calls leave no listener on the signal: %s', async (operation) => {
    await using under = createClientUnderTest()
    under.always(good[operation])
    const { signal } = new AbortController()
    for (let i = 0; i < 1_000; i += 1) await call(under, operation, signal)
    expect(getEventListeners(signal, 'abort')).toEqual([])
    expect(under.clock.sleepers()).toBe(0)
  })
})

describe('what is learned from answers', () => {
  test.each<[string, Reply, object]>([
    ['200', good.retry, { kind: 'ok', retryAfterMs: undefined }],
    [
      '200 with Retry-After',
      { ...good.retry, headers: { 'retry-after': '60' } },
      { kind: 'ok', retryAfterMs: undefined },
    ],
    ['404', { status: 404 }, { kind: 'ok', retryAfterMs: undefined }],
    ['429', { status: 429 }, { kind: 'throttled', retryAfterMs: undefined }],
    ['429 with seconds', { status: 429, headers: { 'retry-after': '7' } }, { kind: 'throttled', retryAfterMs: 7_000 }],
    [
      '429 with garbage',
      { status: 429, headers: { 'retry-after': '-7' } },
      { kind: 'throttled', retryAfterMs: undefined },
    ],
    [
      '429 with a year',
      { status: 429, headers: { 'retry-after': '31536000' } },
      { kind: 'throttled', retryAfterMs: 300_000 },
    ],
    [
      '503 with a date',
      {
        status: 503,
        headers: { 'retry-after': 'Thu, 15 Jan 2026 12:00:10 GMT', date: 'Thu, 15 Jan 2026 12:00:00 GMT' },
      },
      { kind: 'overloaded', retryAfterMs: 10_000 },
    ],
    ['500', { status: 500 }, { kind: 'ok', retryAfterMs: undefined }],
    ['the known error under 503', { status: 503, body: wireInvalidStatus() }, { kind: 'ok', retryAfterMs: undefined }],
  ])('%s goes to the rate', async (_, reply, feedback) => {
    await using under = createClientUnderTest()
    under.replies(reply)
    await call(under, 'retry')
    expect(under.feedback).toMatchObject([feedback])
  })

  test('no answer says nothing to the rate', async () => {
    await using under = createClientUnderTest()
    under.replies({ breaks: 'ECONNRESET' })
    await call(under, 'retry')
    expect(under.feedback).toEqual([])
  })

  test("the platform's time is learned from Date, not from a cache's", async () => {
    await using under = createClientUnderTest()
    const ahead = (ms: number): string => new Date(under.clock.now() + ms).toUTCString()
    under.replies(
      { ...good.retry, headers: { date: ahead(-3_600_000), age: '3600' } },
      { ...good.retry, headers: { date: ahead(300_000) } },
    )
    await call(under, 'retry')
    expect(under.client.now()).toBe(under.clock.now())
    await call(under, 'retry')
    expect(under.client.now() - under.clock.now()).toBeGreaterThan(298_000)
    expect(under.client.now() - under.clock.now()).toBeLessThan(302_000)
  })
})
