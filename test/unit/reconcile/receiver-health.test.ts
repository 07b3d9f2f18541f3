// The receiver's health address: polled every interval; retries are blocked unless it answered 2xx lately.
import { describe, expect, test } from 'vitest'
import { TransportError, type HttpRequest, type HttpResponse } from '../../../src/platform/http/http.ts'
import {
  createReceiverHealth,
  type ReceiverEvent,
  type ReceiverHealth,
  type ReceiverHealthOptions,
} from '../../../src/reconcile/retry/receiver-health.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

const [intervalMs, timeoutMs] = [5000, 2000]

/** A status, why there is none, or how long it takes to answer 200. */
type Health = number | TransportError['reason'] | { afterMs: number }

interface Scene extends AsyncDisposable {
  clock: VirtualClock
  receiver: ReceiverHealth
  told: ReceiverEvent[]
  requests: HttpRequest[]
  /** When each poll was sent, ms since the start. */
  polledAt: number[]
  answers(health: Health): void
}

function startScene(first: Health = 200, changes: Partial<ReceiverHealthOptions> = {}): Scene {
  const clock = createVirtualClock()
  const start = clock.monotonic()
  const told: ReceiverEvent[] = []
  const requests: HttpRequest[] = []
  const polledAt: number[] = []
  let health = first
  const response = (status: number): HttpResponse => ({ status, headers: {}, body: '', sentAt: 0, receivedAt: 0 })
  const receiver = createReceiverHealth({
    healthUrl: 'http://receiver.example/healthz?deep',
    intervalMs,
    timeoutMs,
    async transport(request) {
      requests.push(request)
      polledAt.push(clock.monotonic() - start)
      if (typeof health === 'object') await clock.sleep(health.afterMs, request.signal)
      if (typeof health === 'string') throw new TransportError(health, 'CODE')
      return response(typeof health === 'number' ? health : 200)
    },
    clock,
    wake: () => undefined,
    emit: (event) => told.push(event),
    ...changes,
  })
  const stop = new AbortController()
  const running = receiver.run(stop.signal)
  running.catch(() => undefined)
  return {
    clock,
    receiver,
    told,
    requests,
    polledAt,
    answers(next) {
      health = next
    },
    async [Symbol.asyncDispose]() {
      const reason = new Error('stop')
      stop.abort(reason)
      await expect(running).rejects.toBe(reason)
      expect(clock.sleepers()).toBe(0)
    },
  }
}

test('without a health address nothing is polled, nothing is blocked, nothing is known', async () => {
  const clock = createVirtualClock()
  const requests: HttpRequest[] = []
  const transport = (request: HttpRequest): Promise<never> => {
    requests.push(request)
    return Promise.reject(new TypeError('it is not called'))
  }
  const receiver = createReceiverHealth({
    ...{ healthUrl: undefined, intervalMs, timeoutMs, transport, clock },
    ...{ wake: () => undefined, emit: () => undefined },
  })
  await receiver.run(new AbortController().signal)
  expect([receiver.isDown(), receiver.up(), requests]).toEqual([false, undefined, []])
})

test('a poll goes to the address as it is, with nothing of ours or of the platform on it', async () => {
  await using scene = startScene()
  await scene.clock.advance(0)
  const headers = { accept: '*/*', 'user-agent': 'webhook-reconciler', connection: 'close' }
  const url = new URL('http://receiver.example/healthz?deep')
  expect(scene.requests).toEqual([
    { method: 'GET', url, headers, timeoutMs, maxBytes: 65_536, direct: true, signal: expect.anything() as unknown },
  ])
})

test.each<[string, Health, number]>([
  ['answers', 200, intervalMs],
  ['fails at once', 'connection', intervalMs],
  ['takes two intervals', { afterMs: 2 * intervalMs }, 2 * intervalMs],
])('a poll comes at once, then every interval, but never two at once: the receiver %s', async (_, health, gapMs) => {
  await using scene = startScene(health)
  await scene.clock.advance(3 * gapMs)
  expect(scene.polledAt).toEqual([0, gapMs, 2 * gapMs, 3 * gapMs])
})

describe('retries are blocked', () => {
  test('before the first answer', async () => {
    await using scene = startScene({ afterMs: 100 })
    await scene.clock.advance(99)
    expect([scene.receiver.isDown(), scene.receiver.up()]).toEqual([true, undefined])
    await scene.clock.advance(1)
    expect([scene.receiver.isDown(), scene.receiver.up()]).toEqual([false, true])
  })

  test.each<[Health, boolean, string]>([
    [199, false, 'HTTP 199'],
    [200, true, 'HTTP 200'],
    [299, true, 'HTTP 299'],
    [300, false, 'HTTP 300'],
    [503, false, 'HTTP 503'],
    ['timeout', false, 'timeout (CODE)'],
    ['too-large', false, 'too-large (CODE)'],
  ])('unless it answers 2xx: %s is up: %s', async (health, up, detail) => {
    await using scene = startScene(health)
    await scene.clock.advance(10 * intervalMs)
    const { receiver } = scene
    expect([receiver.isDown(), receiver.up(), receiver.detail()]).toEqual([!up, up, detail])
    const failure = typeof health === 'string' && { failure: { reason: health, code: 'CODE' } }
    expect(scene.told).toEqual([{ type: 'receiver', up, detail, ...failure }])
  })

  test('as soon as it is seen to be down, and released within an interval of its being up', async () => {
    await using scene = startScene()
    await scene.clock.advance(1000)
    const upSince = scene.receiver.since()
    scene.answers(503)
    await scene.clock.advance(intervalMs)
    expect(scene.receiver.isDown()).toBe(true)
    expect(scene.receiver.since()).toBe((upSince ?? 0) + intervalMs)
    scene.answers(200)
    await scene.clock.advance(intervalMs)
    expect(scene.receiver.isDown()).toBe(false)
    expect(scene.told.map(({ up }) => up)).toEqual([true, false, true])
  })

  test('after a sleep of this process, until the next answer: the last answer is too old', async () => {
    await using scene = startScene(200)
    await scene.clock.advance(1000)
    scene.answers({ afterMs: 60_000 })
    await scene.clock.advance(2 * intervalMs + timeoutMs)
    expect(scene.receiver.isDown()).toBe(true)
  })
})

test('the end comes also during a poll, and is no answer of the receiver', async () => {
  const scene = startScene({ afterMs: 60_000 })
  await scene.clock.advance(1000)
  await scene[Symbol.asyncDispose]()
  expect(scene.told).toEqual([])
})

test('a bug of ours is no answer of the receiver', async () => {
  const bug = new TypeError('bug')
  const receiver = createReceiverHealth({
    ...{ healthUrl: 'http://receiver.example/', intervalMs, timeoutMs, clock: createVirtualClock() },
    ...{ transport: () => Promise.reject(bug), wake: () => undefined, emit: () => undefined },
  })
  await expect(receiver.run(new AbortController().signal)).rejects.toBe(bug)
})
