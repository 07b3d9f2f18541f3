// The receiver's health: asked only while there is work, held unless it answers 2xx, released at once when it does.
import { describe, expect, test } from 'vitest'
import { createHttpTransport, TransportError, type HttpRequest, type HttpResponse } from '../../src/platform/http.ts'
import {
  createReceiverHealth,
  type ReceiverHealth,
  type ReceiverFact,
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
  facts: ReceiverFact[]
  requests: HttpRequest[]
  /** When each was asked, ms since the start. */
  askedAt: number[]
  answers(health: Health): void
  /** How often whoever waits was woken, and found retries allowed. */
  woken(): number
  /** Wants a retry every so often (default: every second), as a dispatcher does that has some. */
  work(ms: number, everyMs?: number): Promise<void>
  end(): Promise<void>
}

function response(status: number): HttpResponse {
  return { status, headers: {}, body: '', sentAt: 0, receivedAt: 0 }
}

function createScene(changes: Partial<ReceiverHealthOptions> = {}): Scene {
  const clock = createVirtualClock()
  const start = clock.monotonic()
  const facts: ReceiverFact[] = []
  const requests: HttpRequest[] = []
  const askedAt: number[] = []
  let health: Health = 200
  let woken = 0
  const receiver = createReceiverHealth({
    healthUrl: 'http://receiver.example/healthz?deep',
    intervalMs,
    timeoutMs,
    transport: async (request) => {
      requests.push(request)
      askedAt.push(clock.monotonic() - start)
      await Promise.resolve()
      if (typeof health === 'function') return health(request)
      if (typeof health === 'string') throw new TransportError(health, 'CODE')
      return response(health)
    },
    clock,
    wake: () => {
      if (receiver.allows()) woken += 1
    },
    report: (fact) => facts.push(fact),
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
    askedAt,
    answers(next) {
      health = next
    },
    woken: () => woken,
    async work(ms, everyMs = 1000) {
      for (let left = ms; left > 0; left -= everyMs) {
        receiver.want()
        await clock.advance(Math.min(everyMs, left))
      }
    },
    async end() {
      const reason = new Error('stop')
      stop.abort(reason)
      await expect(running).rejects.toBe(reason)
      expect(clock.sleepers()).toBe(0)
    },
  }
}

describe('without a health address', () => {
  test('nothing is asked, nothing is held, nothing is known', async () => {
    const scene = createScene({ healthUrl: undefined })
    expect(scene.receiver.allows()).toBe(true)
    await scene.work(60_000)
    expect(scene.receiver.allows()).toBe(true)
    expect(scene.receiver.up()).toBeUndefined()
    expect([scene.requests, scene.facts]).toEqual([[], []])
    await scene.end()
  })
})

describe('a question', () => {
  test('goes to the address as it is, with nothing of ours or of the platform on it', async () => {
    const scene = createScene()
    await scene.work(1)
    const [request] = scene.requests
    expect(request).toMatchObject({ method: 'GET', timeoutMs, maxBytes: 65_536 })
    expect(request?.url.href).toBe('http://receiver.example/healthz?deep')
    expect(request?.body).toBeUndefined()
    expect(Object.keys(request?.headers ?? {}).sort()).toEqual(['accept', 'connection', 'user-agent'])
    await scene.end()
  })

  test('is asked as soon as there is work, and then every interval', async () => {
    const scene = createScene()
    await scene.clock.advance(3000)
    expect(scene.askedAt).toEqual([])
    await scene.work(21_000)
    expect(scene.askedAt).toEqual([3000, 8000, 13_000, 18_000, 23_000])
    await scene.end()
  })

  test('is not asked any more two intervals after the last work, and then asked first when there is some again', async () => {
    const scene = createScene()
    await scene.work(1000)
    await scene.clock.advance(600_000)
    expect(scene.askedAt).toEqual([0, 5000, 10_000])
    // What it said then does not count.
    expect(scene.receiver.allows()).toBe(false)
    expect(scene.receiver.up()).toBe(true)
    scene.receiver.want()
    expect(scene.receiver.allows()).toBe(false)
    await scene.clock.settle()
    expect(scene.askedAt).toEqual([0, 5000, 10_000, 601_000])
    expect(scene.receiver.allows()).toBe(true)
    expect(scene.woken()).toBe(2)
    await scene.end()
  })

  test('is asked at once when work comes again, not when the next would have been due', async () => {
    const scene = createScene({ intervalMs: 60_000 })
    await scene.work(1000)
    await scene.clock.advance(150_000)
    scene.answers(503)
    await scene.work(1)
    expect(scene.askedAt).toEqual([0, 60_000, 120_000, 151_000])
    expect([scene.receiver.allows(), scene.receiver.up()]).toEqual([false, false])
    await scene.end()
  })

  test('is never asked twice at once, and not more often than it answers', async () => {
    const scene = createScene({ intervalMs: 100 })
    let [open, most] = [0, 0]
    scene.answers(async ({ signal }) => {
      open += 1
      most = Math.max(most, open)
      await scene.clock.sleep(1900, signal)
      open -= 1
      return response(200)
    })
    await scene.work(19_500, 100)
    expect([most, scene.requests.length]).toEqual([1, 11])
    await scene.end()
  })

  test('is not asked in a hot loop when it fails at once', async () => {
    const scene = createScene({ intervalMs: 100 })
    scene.answers('connection')
    await scene.work(10_000)
    expect(scene.requests.length).toBeLessThanOrEqual(101)
    await scene.end()
  })
})

describe('held', () => {
  test('before the first answer', async () => {
    const scene = createScene()
    const answer = Promise.withResolvers<HttpResponse>()
    scene.answers(() => answer.promise)
    expect([scene.receiver.allows(), scene.receiver.holds()]).toEqual([false, true])
    await scene.work(30_000)
    expect([scene.receiver.allows(), scene.receiver.up(), scene.woken()]).toEqual([false, undefined, 0])
    expect(scene.receiver.holds()).toBe(true)
    answer.resolve(response(204))
    await scene.clock.settle()
    expect(scene.receiver.holds()).toBe(false)
    expect([scene.receiver.allows(), scene.receiver.up(), scene.woken()]).toEqual([true, true, 1])
    await scene.end()
  })

  test.each<[Health, string]>([
    [503, 'HTTP 503'],
    [500, 'HTTP 500'],
    [404, 'HTTP 404'],
    [401, 'HTTP 401'],
    [301, 'HTTP 301'],
    [304, 'HTTP 304'],
    [199, 'HTTP 199'],
    [300, 'HTTP 300'],
    ['connection', 'connection'],
    ['timeout', 'timeout'],
    ['tls', 'tls'],
    ['too-large', 'too-large'],
  ])('while it says %s', async (health, detail) => {
    const scene = createScene()
    scene.answers(health)
    await scene.work(20_000)
    expect([scene.receiver.allows(), scene.receiver.up(), scene.woken()]).toEqual([false, false, 0])
    expect(scene.facts).toEqual([{ type: 'receiver', up: false, detail }])
    await scene.end()
  })

  test.each([200, 204, 299])('not while it says %i', async (status) => {
    const scene = createScene()
    scene.answers(status)
    await scene.work(20_000)
    expect([scene.receiver.allows(), scene.receiver.up(), scene.woken()]).toEqual([true, true, 1])
    expect(scene.facts).toEqual([{ type: 'receiver', up: true, detail: `HTTP ${status}` }])
    await scene.end()
  })

  test('as soon as it is seen to be down, and released within an interval of its being up', async () => {
    const scene = createScene()
    await scene.work(6000)
    scene.answers(503)
    await scene.work(3999)
    expect(scene.receiver.allows()).toBe(true)
    await scene.work(1)
    expect(scene.receiver.allows()).toBe(false)
    scene.answers(200)
    await scene.work(4999)
    expect([scene.receiver.allows(), scene.woken()]).toEqual([false, 1])
    await scene.work(1)
    expect([scene.receiver.allows(), scene.woken()]).toEqual([true, 2])
    await scene.end()
  })

  test('one that answers slower than it is asked is released all the same, also when nobody asks meanwhile', async () => {
    const scene = createScene({ intervalMs: 100 })
    scene.answers(async ({ signal }) => {
      await scene.clock.sleep(1900, signal)
      return response(200)
    })
    scene.receiver.want()
    await scene.clock.advance(1900)
    expect([scene.receiver.allows(), scene.woken()]).toEqual([true, 1])
    await scene.end()
  })

  test('whoever is woken may go, although it had slept since long before', async () => {
    const scene = createScene()
    scene.answers(503)
    await scene.work(1000)
    await scene.clock.advance(30_000)
    scene.answers(200)
    await scene.clock.advance(5000)
    expect([scene.receiver.allows(), scene.woken()]).toEqual([true, 1])
    scene.receiver.want()
    expect(scene.receiver.allows()).toBe(true)
    await scene.end()
  })
})

describe('what is told', () => {
  test('is the first answer, and then only changes', async () => {
    const scene = createScene()
    for (const health of [200, 204, 503, 'connection', 'timeout', 200, 301] as const) {
      scene.answers(health)
      await scene.work(10_000)
    }
    expect(scene.facts.map(({ up, detail }) => `${up} ${detail}`)).toEqual([
      'true HTTP 200',
      'false HTTP 503',
      'true HTTP 200',
      'false HTTP 301',
    ])
    await scene.end()
  })

  test('does not stay untrue: one that is down is asked on without work, until it answers', async () => {
    const scene = createScene()
    scene.answers(503)
    await scene.work(1000)
    await scene.clock.advance(3_600_000)
    expect(scene.requests.length).toBe(721)
    scene.answers(200)
    await scene.clock.advance(5000)
    expect(scene.receiver.up()).toBe(true)
    // Who waited for it gets the time to come back; nobody does.
    const asked = scene.requests.length
    await scene.clock.advance(3_600_000)
    expect(scene.requests.length).toBe(asked + 2)
    expect(scene.facts.map(({ up }) => up)).toEqual([false, true])
    scene.answers(503)
    scene.receiver.want()
    expect(scene.receiver.allows()).toBe(false)
    await scene.clock.settle()
    expect(scene.receiver.allows()).toBe(false)
    await scene.end()
  })
})

describe('the end', () => {
  test('comes also while it is being asked, and is nobody’s failure', async () => {
    const scene = createScene()
    scene.answers(
      ({ signal }) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => {
            reject(new TransportError('connection', 'ABORTED'))
          })
        }),
    )
    await scene.work(1000)
    await scene.end()
    expect(scene.facts).toEqual([])
  })

  test('a bug of ours is no answer of the receiver', async () => {
    const clock = createVirtualClock()
    const bug = new TypeError('bug')
    const receiver = createReceiverHealth({
      healthUrl: 'http://receiver.example',
      intervalMs,
      timeoutMs,
      transport: () => Promise.reject(bug),
      clock,
      wake: () => undefined,
      report: () => undefined,
    })
    receiver.want()
    await expect(receiver.run(new AbortController().signal)).rejects.toBe(bug)
  })

  test('the host’s clock being set changes nothing', async () => {
    const scene = createScene()
    await scene.work(1000)
    scene.clock.jump(-86_400_000)
    await scene.work(9500)
    expect(scene.askedAt).toEqual([0, 5000, 10_000])
    expect(scene.receiver.allows()).toBe(true)
    await scene.end()
  })
})

describe('over real HTTP', () => {
  interface Asked {
    facts: ReceiverFact[]
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
    const facts: ReceiverFact[] = []
    const stop = new AbortController()
    const receiver = createReceiverHealth({
      healthUrl: server.url.href,
      intervalMs,
      timeoutMs,
      transport: http.transport,
      clock,
      wake: () => undefined,
      report: (fact) => {
        facts.push(fact)
        told.resolve(undefined)
      },
    })
    const running = receiver.run(stop.signal)
    running.catch(() => undefined)
    receiver.want()
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
    expect(facts).toEqual([{ type: 'receiver', up: false, detail: 'timeout' }])
  })

  test('an answer that does not fit is down, and is not read to its end', async () => {
    const { facts } = await ask('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n')
    expect(facts).toEqual([{ type: 'receiver', up: false, detail: 'too-large' }])
  })
})
