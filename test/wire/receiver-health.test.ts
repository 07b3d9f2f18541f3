// The receiver's health address: polled every interval; retries are blocked unless it answered 2xx lately.
import { describe, expect, test } from 'vitest'
import {
  createHttpTransport,
  TransportError,
  type HttpRequest,
  type HttpResponse,
} from '../../src/platform/http/http.ts'
import {
  createReceiverHealth,
  type ReceiverHealth,
  type ReceiverEvent,
  type ReceiverHealthOptions,
} from '../../src/reconcile/retry/receiver-health.ts'
import { startRawServer } from '../support/raw-server.ts'
import { createVirtualClock, type VirtualClock } from '../support/virtual-clock.ts'

const [intervalMs, timeoutMs] = [5000, 2000]

/** A status, why there is none, or what takes its time. */
type Health = number | TransportError['reason'] | ((request: HttpRequest) => Promise<HttpResponse>)

interface Scene {
  clock: VirtualClock
  receiver: ReceiverHealth
  facts: ReceiverEvent[]
  requests: HttpRequest[]
  /** When each poll was sent, ms since the start. */
  polledAt: number[]
  answers(health: Health): void
  end(): Promise<void>
}

function response(status: number): HttpResponse {
  return { status, headers: {}, body: '', sentAt: 0, receivedAt: 0 }
}

function createScene(first: Health = 200, changes: Partial<ReceiverHealthOptions> = {}): Scene {
  const clock = createVirtualClock()
  const start = clock.monotonic()
  const facts: ReceiverEvent[] = []
  const requests: HttpRequest[] = []
  const polledAt: number[] = []
  let health = first
  const receiver = createReceiverHealth({
    healthUrl: 'http://receiver.example/healthz?deep',
    intervalMs,
    timeoutMs,
    transport: async (request) => {
      requests.push(request)
      polledAt.push(clock.monotonic() - start)
      await Promise.resolve()
      if (typeof health === 'function') return health(request)
      if (typeof health === 'string') throw new TransportError(health, 'CODE')
      return response(health)
    },
    clock,
    wake: () => undefined,
    emit: (fact) => facts.push(fact),
    ...changes,
  })
  const stop = new AbortController()
  const running = receiver.run(stop.signal)
  running.catch(() => undefined)
  return {
    clock,
    receiver,
    facts,
    requests,
    polledAt,
    answers(next) {
      health = next
    },
    async end() {
      const reason = new Error('stop')
      stop.abort(reason)
      await expect(running).rejects.toBe(reason)
      expect(clock.sleepers()).toBe(0)
    },
  }
}

const slow =
  (ms: number, clock: () => VirtualClock): Health =>
  async ({ signal }) => {
    await clock().sleep(ms, signal)
    return response(200)
  }

test('without a health address nothing is polled, nothing is blocked, nothing is known', async () => {
  const scene = createScene(200, { healthUrl: undefined })
  await scene.clock.advance(60_000)
  expect([scene.receiver.isDown(), scene.receiver.up()]).toEqual([false, undefined])
  expect([scene.requests, scene.facts]).toEqual([[], []])
})

describe('a poll', () => {
  test('goes to the address as it is, with nothing of ours or of the platform on it', async () => {
    const scene = createScene()
    await scene.clock.advance(0)
    expect(scene.requests).toEqual([
      expect.objectContaining({
        method: 'GET',
        url: new URL('http://receiver.example/healthz?deep'),
        headers: { accept: '*/*', 'user-agent': 'webhook-reconciler', connection: 'close' },
        timeoutMs,
        direct: true,
      }),
    ])
    expect(scene.requests[0]).not.toHaveProperty('body')
    await scene.end()
  })

  test.each<[string, Health]>([
    ['answers', 200],
    ['fails at once', 'connection'],
  ])('comes at once, and then every interval, whether the receiver %s or not', async (_, health) => {
    const scene = createScene(health)
    await scene.clock.advance(3 * intervalMs)
    expect(scene.polledAt).toEqual([0, intervalMs, 2 * intervalMs, 3 * intervalMs])
    await scene.end()
  })

  test('never overlaps the one before', async () => {
    const scene: Scene = createScene(slow(2 * intervalMs, () => scene.clock))
    await scene.clock.advance(6 * intervalMs)
    expect(scene.polledAt).toEqual([0, 2 * intervalMs, 4 * intervalMs, 6 * intervalMs])
    await scene.end()
  })
})

describe('retries are blocked', () => {
  test('before the first answer', async () => {
    const scene: Scene = createScene(slow(100, () => scene.clock))
    await scene.clock.advance(99)
    expect([scene.receiver.isDown(), scene.receiver.up()]).toEqual([true, undefined])
    await scene.clock.advance(1)
    expect([scene.receiver.isDown(), scene.receiver.up()]).toEqual([false, true])
    await scene.end()
  })

  test.each<[Health, string]>([
    [199, 'HTTP 199'],
    [300, 'HTTP 300'],
    [404, 'HTTP 404'],
    [503, 'HTTP 503'],
    ['timeout', 'timeout (CODE)'],
    ['connection', 'connection (CODE)'],
    ['tls', 'tls (CODE)'],
    ['too-large', 'too-large (CODE)'],
  ])('while it says %s', async (health, detail) => {
    const scene = createScene(health)
    await scene.clock.advance(10 * intervalMs)
    expect([scene.receiver.isDown(), scene.receiver.up()]).toEqual([true, false])
    const failure = typeof health === 'string' && { failure: { reason: health, code: 'CODE' } }
    expect(scene.facts).toEqual([{ type: 'receiver', up: false, detail, ...failure }])
    await scene.end()
  })

  test.each([200, 204, 299])('not while it says %i', async (status) => {
    const scene = createScene(status)
    await scene.clock.advance(10 * intervalMs)
    expect(scene.receiver.isDown()).toBe(false)
    await scene.end()
  })

  test('as soon as it is seen to be down, and released within an interval of its being up', async () => {
    const scene = createScene()
    await scene.clock.advance(1000)
    const upSince = scene.receiver.since()
    scene.answers(503)
    await scene.clock.advance(intervalMs)
    expect(scene.receiver.isDown()).toBe(true)
    expect(scene.receiver.since()).toBe((upSince ?? 0) + intervalMs)
    scene.answers(200)
    await scene.clock.advance(intervalMs)
    expect(scene.receiver.isDown()).toBe(false)
    expect(scene.facts.map(({ up }) => up)).toEqual([true, false, true])
    await scene.end()
  })

  test('after a sleep of this process, until the next answer: what it said before is too old', async () => {
    const scene: Scene = createScene(200)
    await scene.clock.advance(1000)
    scene.answers(slow(60_000, () => scene.clock))
    await scene.clock.advance(2 * intervalMs + timeoutMs)
    expect(scene.receiver.isDown()).toBe(true)
    await scene.end()
  })
})

test('the end comes also during a poll, and is no answer of the receiver', async () => {
  const scene = createScene(async ({ signal }) => {
    await new Promise((_, reject) => {
      signal?.addEventListener('abort', () => {
        reject(signal.reason as Error)
      })
    })
    return response(200)
  })
  await scene.clock.advance(1000)
  await scene.end()
  expect(scene.facts).toEqual([])
})

test('a bug of ours is no answer of the receiver', async () => {
  const bug = new TypeError('bug')
  const receiver = createReceiverHealth({
    healthUrl: 'http://receiver.example/',
    intervalMs,
    timeoutMs,
    transport: () => Promise.reject(bug),
    clock: createVirtualClock(),
    wake: () => undefined,
    emit: () => undefined,
  })
  await expect(receiver.run(new AbortController().signal)).rejects.toBe(bug)
})

describe('over real HTTP', () => {
  interface Asked {
    facts: ReceiverEvent[]
    requests: string[]
    /** Connections to where a redirect points. */
    others: number
  }

  async function ask(answer: string, toTheEnd = false): Promise<Asked> {
    await using other = await startRawServer((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'))
    await using server = await startRawServer((socket) => socket.write(answer.replace('OTHER', other.url.href)))
    const clock = createVirtualClock()
    const http = createHttpTransport({ clock, connections: 1 })
    const told = Promise.withResolvers<undefined>()
    const facts: ReceiverEvent[] = []
    const stop = new AbortController()
    const receiver = createReceiverHealth({
      healthUrl: server.url.href,
      intervalMs,
      timeoutMs,
      transport: http.transport,
      clock,
      wake: () => undefined,
      emit: (fact) => {
        facts.push(fact)
        told.resolve(undefined)
      },
    })
    const running = receiver.run(stop.signal)
    running.catch(() => undefined)
    await server.received(1)
    if (toTheEnd) await clock.advance(timeoutMs)
    await told.promise
    stop.abort(new Error('stop'))
    await expect(running).rejects.toThrow('stop')
    await http.close()
    await server.idle()
    expect(clock.sleepers()).toBe(0)
    return { facts, requests: server.requests, others: other.connections() }
  }

  test('one that is up was asked without anything that would be worth stealing', async () => {
    const { facts, requests } = await ask('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    expect(facts).toEqual([{ type: 'receiver', up: true, detail: 'HTTP 200' }])
    expect(requests.length).toBe(1)
    expect(requests[0]).toMatch(/^GET \/webhooks HTTP\/1\.1\r\n[^]*connection: close\r\n/i)
    expect(requests[0]).not.toMatch(/authorization|cookie|bearer/i)
  })

  test.each([301, 302, 307, 308])('a redirect (%i) is not followed, and is not up', async (status) => {
    const { facts, others } = await ask(`HTTP/1.1 ${status} Elsewhere\r\nLocation: OTHER\r\nContent-Length: 0\r\n\r\n`)
    expect(facts).toEqual([{ type: 'receiver', up: false, detail: `HTTP ${status}` }])
    expect(others).toBe(0)
  })

  test.each([
    ['never answers', ''],
    ['never ends its head', 'HTTP/1.1 200 OK\r\nX: '],
    ['never ends its body', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok'],
  ])('one that %s is down after the timeout, and not before', async (_, answer) => {
    const { facts } = await ask(answer, true)
    expect(facts).toMatchObject([{ type: 'receiver', up: false, detail: 'timeout (DEADLINE)' }])
  })

  test('an answer that does not fit is down, and is not read to its end', async () => {
    const { facts } = await ask('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n')
    expect(facts).toMatchObject([{ type: 'receiver', up: false, detail: 'too-large (TOO_LARGE)' }])
  })
})
