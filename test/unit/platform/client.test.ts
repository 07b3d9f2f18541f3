// The calls of the client: what is sent, 401 and its replay, repeats, and waits that can be given up.
import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { learnTime, type PlatformClient } from '../../../src/platform/client.ts'
import { TransportError } from '../../../src/platform/http/http.ts'
import { createClientUnderTest, noToken, type ClientUnderTest } from '../../support/platform-client.ts'
import type { Reply } from '../../support/scripted-server.ts'
import { webhookId, wirePage, wireRetried, wireWebhook } from '../../support/webhooks.ts'

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

function call({ client, clock }: ClientUnderTest, operation: Operation, signal = live): Promise<unknown> {
  return clock.run(calls[operation](client, signal))
}

function bearers({ server }: ClientUnderTest): (string | undefined)[] {
  return server.sent.map(({ request }) => request.headers['authorization'])
}

/** Milliseconds between one request and the next. */
function gaps({ server }: ClientUnderTest): number[] {
  return server.sent.slice(1).map(({ at }, index) => at - (server.sent[index]?.at ?? 0))
}

describe('what is sent', () => {
  test.each([
    ['https://api.test/v1/instance///', 'https://api.test/v1/instance/webhooks'],
    ['https://api.test/a%2Fb/', 'https://api.test/a%2Fb/webhooks'],
  ])('below %s the operations are %s', async (baseUrl, webhooks) => {
    const under = createClientUnderTest({ baseUrl })
    under.server.replies(good.list, good.retry)
    await call(under, 'list')
    await call(under, 'retry')
    const [list, retry] = under.server.sent.map(({ request }) => request)
    expect(list?.url.href.split('?')[0]).toBe(webhooks)
    expect(retry).toMatchObject({
      method: 'PATCH',
      url: new URL(`${webhooks}/${webhookId}`),
      headers: { 'content-type': 'application/json', authorization: 'Bearer token-1' },
      body: '{"workflow":{"code":"retry"},"data":{},"connect":{},"metadata":{}}',
    })
  })

  test('a list: every parameter by its name, times to the second, the token in its header only', async () => {
    const under = createClientUnderTest()
    under.server.replies({ ...good.list, delayMs: 250 })
    const from = Date.UTC(2026, 0, 15, 11) / 1000
    const all = { status: 'processing', eventId: 'e-1', from, to: 0, page: 7, size: 100 } as const
    await under.clock.run(under.client.list(all, live))
    await under.clock.run(under.client.list({ page: 0, size: 1 }, live))
    const [first, second] = under.server.sent.map(({ request }) => request)
    expect(Object.fromEntries(first?.url.searchParams ?? [])).toEqual({
      'metadata.page.number': '7',
      'metadata.page.size': '100',
      'data.webhook.status': 'processing',
      'data.webhook.eventId': 'e-1',
      'data.webhook.eventDateTimeFrom': '2026-01-15T11:00:00',
      'data.webhook.eventDateTimeTo': '1970-01-01T00:00:00',
    })
    expect(second).toEqual({
      method: 'GET',
      url: new URL('https://api.test/v1/instance/webhooks?metadata.page.number=0&metadata.page.size=1'),
      headers: { accept: 'application/json', 'accept-encoding': 'identity', authorization: 'Bearer token-1' },
      timeoutMs: 10_000,
      maxBytes: 8_388_608,
      signal: live,
    })
    expect(under.events[0]).toEqual({ type: 'platform-request', operation: 'list', reason: 'ok', seconds: 0.25 })
  })

  test.each(['', '..', `${webhookId}/..`])('the id %j never goes into a path', async (id) => {
    const under = createClientUnderTest()
    await expect(under.client.retry(id, live)).rejects.toThrow('odd id')
    expect(under.server.sent).toEqual([])
  })
})

describe.each(operations)('401 to a %s', (operation) => {
  test('says whether a call had succeeded with the token', async () => {
    const under = createClientUnderTest()
    under.server.replies(refused, good[operation], refused, good[operation])
    await call(under, operation)
    await under.clock.advance(10_000)
    await call(under, operation)
    expect(under.tokens.voided).toEqual(['token-1', 'token-2'])
    expect(under.tokens.hadWorked).toEqual(['token-2'])
  })

  test('the replay takes its place in the rate', async () => {
    const under = createClientUnderTest({ maxPerSecond: 1 })
    if (operation === 'retry') await under.rate.acquire('retry')
    under.server.replies(refused, good[operation])
    await call(under, operation)
    expect(gaps(under)[0]).toBeGreaterThanOrEqual(990)
  })
})

describe('401 that lasts', () => {
  test('a PATCH is sent twice, never more', async () => {
    const under = createClientUnderTest()
    under.server.replies(refused)
    expect(await call(under, 'retry')).toEqual({
      result: 'unauthorized',
      reason: 'unauthorized',
      status: 401,
    })
    expect(under.server.sent).toHaveLength(2)
    expect(under.tokens.voided).toEqual(['token-1', 'token-2'])
  })

  test('a list is replayed once in all its tries, and two hundred lists are hardly more than two calls each', async () => {
    const under = createClientUnderTest()
    under.server.replies(refused)
    await expect(call(under, 'list')).rejects.toMatchObject({ reason: 'unauthorized', status: 401 })
    expect(under.tokens.voided).toEqual(['token-1', 'token-2', 'token-3', 'token-4'])
    expect(under.server.sent).toHaveLength(4)
    for (let i = 1; i < 200; i += 1) await call(under, 'list').catch(() => undefined)
    expect(under.server.sent.length).toBeLessThan(200 * 2 * 1.15)
    expect(new Set(under.tokens.voided).size).toBe(under.tokens.voided.length)
  })
})

/** Responses to a void token that are no 401. */
const pages = {
  'a 403': { status: 403, body: { code: 'forbidden' } },
  'a redirect': { status: 302, headers: { location: 'https://login.example.test' } },
  'a login page': { status: 200, body: '<html>' },
  'a text': { status: 200, body: 'Log in.' },
  'a 440': { status: 440, body: '' },
  'a 511': { status: 511, body: '<html>' },
} as const

describe.each(Object.entries(pages))('%s', (_, page) => {
  test.each(operations)(
    'to a %s brings one fresh token where such calls have succeeded, and is then believed',
    async (operation) => {
      const under = createClientUnderTest()
      const tokens = (): string[] => bearers(under).map((bearer = '') => bearer.slice('Bearer token-'.length))
      const attempt = async (...replies: Parameters<typeof under.server.replies>): Promise<unknown> => {
        under.server.replies(...replies)
        return call(under, operation).catch((error: unknown) => error)
      }
      await attempt(page)
      const first = tokens().length
      expect(new Set(tokens())).toEqual(new Set(['1']))
      // The platform may have accepted a PATCH that was answered with a page.
      const replays = operation === 'retry' && page.status === 200 ? 0 : 1
      await attempt(good[operation])
      await attempt(page, good[operation])
      expect(tokens().slice(first)).toEqual(['1', '1', ...(replays === 1 ? ['2'] : [])])
      await attempt(good[operation])
      const healed = tokens().length
      await attempt(page, page, page, page)
      expect(new Set(tokens().slice(healed))).toEqual(new Set(['2']))
      await under.clock.advance(60_000)
      await attempt(good[operation])
      await attempt(page)
      expect(tokens().at(-1)).toBe(replays === 1 || operation === 'list' ? '3' : '2')
      expect(under.tokens.voided).toEqual([])
    },
  )
})

test.each([
  ['retry', ['1', '1']],
  ['list', ['1', '1', '2']],
] as const)('a 404 without an error body to a %s: a record may be gone, lists are not', async (operation, tokens) => {
  const under = createClientUnderTest()
  under.server.replies(good[operation], { status: 404, body: '' }, good[operation])
  await call(under, operation)
  await call(under, operation).catch(() => undefined)
  expect(bearers(under)).toEqual(tokens.map((token) => `Bearer token-${token}`))
})

test('a young token that has not worked rests where earlier ones have worked, and is doubted once it is known everywhere', async () => {
  const under = createClientUnderTest()
  const page = pages['a login page']
  under.server.replies(good.list, page, page, page, good.list)
  await call(under, 'list')
  under.tokens.replace()
  await expect(call(under, 'list')).rejects.toMatchObject({ reason: 'intercepted' })
  expect(under.tokens.voided).toEqual(['token-2'])
  await under.clock.advance(10_000)
  await call(under, 'list')
  expect(bearers(under).map((bearer) => bearer?.at(-1))).toEqual(['1', '2', '3', '3', '4'])
  expect(under.tokens.voided).toEqual(['token-2'])
  // Without another token the response is believed.
  under.server.replies(() => {
    under.tokens.error = noToken
    return pages['a login page']
  })
  await under.clock.advance(600_000)
  await expect(call(under, 'list')).rejects.toMatchObject({ reason: 'intercepted' })
})

test('such responses are doubted ever more rarely while they go on, and as at first after a while', async () => {
  const under = createClientUnderTest()
  const page = pages['a login page']
  under.server.replies(good.list)
  await call(under, 'list')
  async function blip(): Promise<number> {
    const before = new Set(bearers(under)).size
    under.server.replies(page, page)
    await expect(call(under, 'list')).rejects.toMatchObject({ reason: 'intercepted' })
    return new Set(bearers(under)).size - before
  }
  const doubts: number[] = []
  for (const seconds of [0, 59, 1, 119, 1, 239, 1, 3600, 55, 5]) {
    await under.clock.advance(seconds * 1000)
    doubts.push(await blip())
  }
  expect(doubts).toEqual([1, 0, 1, 0, 1, 0, 1, 1, 0, 1])
})

describe('without a token', () => {
  test('nothing is sent', async () => {
    const under = createClientUnderTest()
    under.tokens.error = noToken
    await expect(call(under, 'list')).rejects.toBe(noToken)
    // The dispatcher sends none without a token: it has expired in this moment.
    expect(await call(under, 'retry')).toEqual({ result: 'unreachable', reason: 'connection' })
    expect(under.server.sent).toEqual([])
    expect(under.events).toEqual([])
    expect(under.taken).toMatchObject({ list: 0 })
  })

  test.each<[Operation, object]>([
    ['list', noToken],
    ['retry', { result: 'unauthorized', reason: 'unauthorized', status: 401 }],
  ])('for the replay, what was said to a %s stands', async (operation, expected) => {
    const under = createClientUnderTest()
    under.server.replies(() => {
      under.tokens.error = noToken
      return refused
    })
    const outcome = await call(under, operation).catch((error: unknown) => error)
    expect(outcome).toEqual(expected)
    expect(under.server.sent).toHaveLength(1)
    expect(under.taken[operation]).toBe(operation === 'list' ? 1 : 0)
  })
})

describe('repeats of a list', () => {
  test('the waits between are of full jitter: up to half a second, up to one', async () => {
    const draws = [0.999, 0.999, 0, 0]
    const under = createClientUnderTest({ maxPerSecond: 100_000, random: () => draws.shift() ?? 0 })
    under.server.replies({ status: 500 })
    for (let i = 0; i < 2; i += 1) await expect(call(under, 'list')).rejects.toThrow('server-error')
    // The rate, which each failure cuts, adds two milliseconds.
    expect(gaps(under).map((ms) => 10 * Math.round(ms / 10))).toEqual([500, 1000, 0, 0, 0])
  })

  test('Retry-After holds for them, and the second one may succeed', async () => {
    const under = createClientUnderTest()
    under.server.replies({ status: 503, headers: { 'retry-after': '120' } }, good.list)
    expect(await call(under, 'list')).toMatchObject({ rows: 1 })
    expect(gaps(under)[0]).toBeGreaterThanOrEqual(120_000)
    expect(gaps(under)[0]).toBeLessThan(121_500)
  })

  test.each([{ 'retry-after': '60' }, undefined])('a 503 with %j soon after a success is a limit', async (headers) => {
    const under = createClientUnderTest({ maxPerSecond: 1 })
    const limited = { status: 503, ...(headers && { headers }) }
    under.server.replies(good.list, ...Array.from({ length: 4 }, () => limited), good.list)
    await call(under, 'list')
    expect(await call(under, 'list')).toMatchObject({ rows: 1 })
    // For minutes: then it is an outage.
    under.server.replies(limited)
    await expect(call(under, 'list')).rejects.toThrow('server-error')
  })

  test('so is that of a retry while lists alone are paused, and few calls show what is accepted', async () => {
    const under = createClientUnderTest({ maxPerSecond: 10 })
    const limited = { status: 503, headers: { 'retry-after': '60' } }
    under.server.replies(({ request: { method } }) => (method === 'PATCH' ? good.retry : limited))
    calls.list(under.client, live).catch(() => undefined)
    for (let i = 0; i < 3; i += 1) {
      await under.clock.advance(61_000)
      await call(under, 'retry')
    }
    under.server.replies(limited)
    await under.clock.advance(30_000)
    expect(await call(under, 'retry')).toMatchObject({ result: 'throttled' })
  })

  test('a page that alone meets 503 fails, while other calls succeed', async () => {
    const under = createClientUnderTest({ maxPerSecond: 10 })
    under.server.replies(({ request: { method } }) => (method === 'PATCH' ? good.retry : { status: 503 }))
    await call(under, 'retry')
    const listing = expect(calls.list(under.client, live)).rejects.toThrow('server-error')
    for (let i = 0; i < 60; i += 1) {
      await call(under, 'retry')
      await under.clock.advance(1000)
    }
    await listing
    expect(under.server.sent.filter(({ request }) => request.method === 'GET').length).toBeLessThan(35)
  })

  test('of a thousand failing calls, ten at once, they stay under 10 % of what is sent', async () => {
    const under = createClientUnderTest()
    under.server.replies({ status: 500 })
    for (let done = 0; done < 1_000; done += 10) {
      const batch = Array.from({ length: 10 }, () => calls.list(under.client, live))
      await under.clock.run(Promise.allSettled(batch))
    }
    const repeats = under.server.sent.length - 1_000
    expect(repeats).toBeGreaterThan(80)
    expect(repeats / under.server.sent.length).toBeLessThan(0.1)
  })

  test('no more than a handful is saved up in good times', async () => {
    const under = createClientUnderTest()
    under.server.replies(good.list)
    for (let i = 0; i < 300; i += 1) await call(under, 'list')
    under.server.replies({ status: 500 })
    for (let i = 0; i < 20; i += 1) await expect(call(under, 'list')).rejects.toThrow('server-error')
    expect(under.server.sent.length - 320).toBeLessThanOrEqual(7)
  })
})

describe('giving up', () => {
  const reason = new Error('enough')
  const pause = { status: 429, headers: { 'retry-after': '60' } }

  test.each<[string, Operation, (under: ClientUnderTest) => void]>([
    [
      'for the rate',
      'list',
      ({ rate }) => rate.reportResponse({ kind: 'throttled', of: 'list', retryAfterMs: 60_000, sentAt: 1e12 }),
    ],
    ['between two tries', 'list', ({ server }) => server.replies({ status: 500 })],
    ['for a pause that the platform asked for', 'list', ({ server }) => server.replies(pause)],
    ['for the answer', 'list', ({ server }) => server.replies({ delayMs: 5_000 })],
    ['for the answer', 'retry', ({ server }) => server.replies({ delayMs: 5_000 })],
  ])('while it waits %s: %s', async (_, operation, prepare) => {
    const under = createClientUnderTest()
    under.server.replies(refused)
    prepare(under)
    const cancel = new AbortController()
    const waiting = calls[operation](under.client, cancel.signal)
    waiting.catch(() => undefined)
    await under.clock.settle()
    const sent = under.server.sent.length
    cancel.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    expect(under.server.sent).toHaveLength(sent)
    expect(under.clock.sleepers()).toBe(0)
    expect(getEventListeners(cancel.signal, 'abort')).toEqual([])
  })

  test.each(operations)('before it began: %s', async (operation) => {
    const under = createClientUnderTest()
    await expect(call(under, operation, AbortSignal.abort(reason))).rejects.toBe(reason)
    expect(under.server.sent).toEqual([])
  })
})

test("the platform's time is learned from Date, not from a cache's", async () => {
  const { client, clock, server } = createClientUnderTest()
  const ahead = (ms: number): string => new Date(clock.now() + ms).toUTCString()
  server.replies(
    { ...good.retry, headers: { date: ahead(-3_600_000), age: '3600' } },
    { ...good.retry, headers: { date: ahead(300_000) } },
  )
  await clock.run(client.retry(webhookId, live))
  expect([client.now(), client.knowsTime()]).toEqual([clock.now(), false])
  await clock.run(client.retry(webhookId, live))
  expect(client.knowsTime()).toBe(true)
  expect(Math.abs(client.now() - clock.now() - 300_000)).toBeLessThan(2_000)
})

test.each<[string, Reply, isLearned: boolean]>([
  ['with a Date', { status: 500 }, true],
  ['without one', { error: new TransportError('connection', 'ECONNREFUSED') }, false],
])('a failure %s gives the time where there is one', async (_, reply, isLearned) => {
  const { client, clock, server } = createClientUnderTest()
  server.replies(reply)
  const learned = clock.run(learnTime(client, live))
  if (isLearned) expect(await learned).toBe(client.now())
  else await expect(learned).rejects.toThrow('ECONNREFUSED')
})
