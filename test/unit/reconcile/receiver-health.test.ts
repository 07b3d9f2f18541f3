// The receiver's health address: polled every interval; retries are blocked unless it answered 2xx lately.
import { expect, test } from 'vitest'
import { TransportError, type HttpRequest } from '../../../src/platform/http/http.ts'
import { createReceiverHealth, type ReceiverEvent } from '../../../src/reconcile/retry/receiver-health.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const [intervalMs, timeoutMs] = [5000, 2000]

/** A status, why there is none, or how long it takes to answer 200. */
type Health = number | Error | { afterMs: number }

const address = 'http://receiver.example/healthz?deep'

function startScene(first: Health = 200, changes: { healthUrl?: undefined } = {}) {
  const clock = createVirtualClock()
  const start = clock.monotonic()
  const told: ReceiverEvent[] = []
  const requests: HttpRequest[] = []
  const polledAt: number[] = []
  let health = first
  const receiver = createReceiverHealth({
    ...{ healthUrl: address, intervalMs, timeoutMs, clock, wake: () => undefined, ...changes },
    async transport(request) {
      requests.push(request)
      polledAt.push(clock.monotonic() - start)
      if (health instanceof Error) throw health
      if (typeof health === 'object') await clock.sleep(health.afterMs, request.signal)
      const status = typeof health === 'number' ? health : 200
      return { status, headers: {}, body: '', sentAt: 0, receivedAt: 0 }
    },
    emit: (event) => told.push(event),
  })
  const stop = new AbortController()
  const running = receiver.run(stop.signal)
  running.catch(() => undefined)
  return {
    ...{ clock, receiver, requests, polledAt, told },
    answers(next: Health) {
      health = next
    },
    /** It is stopped: what its loop ends with. */
    ends(): Promise<unknown> {
      stop.abort('stopped')
      return running.catch((error: unknown) => error)
    },
  }
}

test('without a health address nothing is polled, nothing is blocked, nothing is known', async () => {
  const { ends, receiver, requests } = startScene(200, { healthUrl: undefined })
  expect(await ends()).toBeUndefined()
  expect([receiver.isDown(), receiver.last()?.up, requests]).toEqual([false, undefined, []])
})

test('a poll goes to the address as it is, with nothing of ours or of the platform on it', async () => {
  const { clock, requests } = startScene()
  await clock.advance(0)
  const headers = { accept: '*/*', connection: 'close' }
  const url = new URL(address)
  expect(requests).toEqual([
    { method: 'GET', url, headers, timeoutMs, maxBytes: 65_536, direct: true, signal: expect.anything() as unknown },
  ])
})

test.each<[string, Health, number]>([
  ['answers', 200, intervalMs],
  ['fails at once', new TransportError('connection', 'CODE'), intervalMs],
  ['takes two intervals', { afterMs: 2 * intervalMs }, 2 * intervalMs],
])('a poll comes at once, then every interval, but never two at once: the receiver %s', async (_, health, gapMs) => {
  const { clock, polledAt } = startScene(health)
  await clock.advance(3 * gapMs)
  expect(polledAt).toEqual([0, gapMs, 2 * gapMs, 3 * gapMs])
})

test.each<[Health, boolean, string]>([
  [199, false, 'HTTP 199'],
  [200, true, 'HTTP 200'],
  [299, true, 'HTTP 299'],
  [300, false, 'HTTP 300'],
  [new TransportError('too-large', 'CODE'), false, 'too-large (CODE)'],
  [new TransportError('tls', 'CERT_HAS_EXPIRED'), false, 'tls (CERT_HAS_EXPIRED)'],
])('retries are blocked unless it answers 2xx: %s is up: %s', async (health, up, detail) => {
  const { clock, receiver, told } = startScene(health)
  await clock.advance(10 * intervalMs)
  expect([receiver.isDown(), receiver.last()?.up, receiver.last()?.detail]).toEqual([!up, up, detail])
  const advice = detail.startsWith('tls') ? /^its certificate has expired/ : undefined
  expect(told).toEqual([{ type: 'receiver', up, detail, advice: advice && (expect.stringMatching(advice) as string) }])
})

test('retries are blocked before the first answer, as soon as it is down, and when the last answer is too old', async () => {
  const { answers, clock, receiver, told } = startScene({ afterMs: 100 })
  await clock.advance(99)
  expect([receiver.isDown(), receiver.last()?.up, receiver.since()]).toEqual([true, undefined, undefined])
  await clock.advance(1)
  expect([receiver.isDown(), receiver.last()?.up]).toEqual([false, true])
  const upSince = receiver.since() ?? 0
  answers(503)
  await clock.advance(intervalMs)
  expect([receiver.isDown(), receiver.since()]).toEqual([true, upSince - 100 + intervalMs])
  answers(200)
  await clock.advance(intervalMs)
  expect(receiver.isDown()).toBe(false)
  expect(told.map(({ up }) => up)).toEqual([true, false, true])
  // As after a sleep of this process.
  answers({ afterMs: 60_000 })
  await clock.advance(2 * intervalMs + timeoutMs - 100)
  expect(receiver.isDown()).toBe(false)
  await clock.advance(1)
  expect(receiver.isDown()).toBe(true)
})

test('neither the end during a poll nor a bug of ours is an answer of the receiver', async () => {
  const { clock, ends, told } = startScene({ afterMs: 60_000 })
  await clock.advance(1000)
  expect(await ends()).toBe('stopped')
  expect([clock.sleepers(), told]).toEqual([0, []])
  const bug = new TypeError('bug')
  const failing = startScene(bug)
  await failing.clock.advance(0)
  expect(await failing.ends()).toBe(bug)
  expect(failing.told).toEqual([])
})
