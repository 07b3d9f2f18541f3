// The faults of the proxy, each alone against a server that counts what reaches it.
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { expect, test } from 'vitest'
import { closeServer, listen } from '../../sandbox/api/http.ts'
import { startFaultProxy, type FaultProxy, type NetworkFault } from './fault-proxy.ts'

const body = JSON.stringify({ text: 'x'.repeat(100) })

interface Scene extends AsyncDisposable {
  proxy: FaultProxy
  /** Bodies that reached the server. */
  arrived: string[]
  /** Waits that the proxy asked for, in milliseconds. */
  slept: number[]
  forwarded: { path: string; isLate: boolean }[]
  /** Resolves once this many requests went on. */
  forwards(count: number): Promise<void>
  /** Lets the proxy's waits end. */
  wake(): void
}

async function startScene({ waits = false } = {}): Promise<Scene> {
  const arrived: string[] = []
  const slept: number[] = []
  const forwarded: Scene['forwarded'] = []
  const changes = new EventTarget()
  const held = Promise.withResolvers<undefined>()
  if (!waits) held.resolve(undefined)
  const server = createServer((incoming, response) => {
    void incoming.toArray().then((chunks: Buffer[]) => {
      arrived.push(Buffer.concat(chunks).toString())
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
    })
  })
  const origin = await listen(server, '127.0.0.1', 0)
  const proxy = await startFaultProxy({
    clock: {
      async sleep(ms) {
        slept.push(ms)
        changes.dispatchEvent(new Event('change'))
        await held.promise
      },
    },
    onForward({ path }, isLate) {
      forwarded.push({ path, isLate })
      changes.dispatchEvent(new Event('change'))
    },
  })
  proxy.forwardTo(origin)
  return {
    proxy,
    arrived,
    slept,
    forwarded,
    async forwards(count) {
      while (forwarded.length < count) await once(changes, 'change')
    },
    wake() {
      held.resolve(undefined)
    },
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]()
      await closeServer(server)
    },
  }
}

interface Met {
  status?: number
  text: string
  /** Code of the error that ended it. */
  broken?: string | undefined
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

async function send(proxy: FaultProxy, signal?: AbortSignal): Promise<Met> {
  const outgoing = request(`${proxy.origin}/webhooks/1`, { method: 'PATCH', agent: false, ...(signal && { signal }) })
  outgoing.end('asked')
  let text = ''
  try {
    const [response] = (await once(outgoing, 'response')) as [AsyncIterable<Buffer> & { statusCode: number }]
    try {
      for await (const chunk of response) text += chunk.toString()
      return { status: response.statusCode, text }
    } catch (error) {
      return { status: response.statusCode, text, broken: codeOf(error) }
    }
  } catch (error) {
    return { text, broken: codeOf(error) }
  }
}

test('passes requests and answers on, unharmed', async () => {
  await using scene = await startScene()
  expect(await send(scene.proxy)).toEqual({ status: 200, text: body })
  expect(scene.arrived).toEqual(['asked'])
  expect([...scene.proxy.tally]).toEqual([['none', 1]])
})

const whole = { status: 200, text: body }
const reset = { text: '', broken: 'ECONNRESET' }

test.each<{ fault: NetworkFault; met: Met; arrives: number; name: string; slept?: number[] }>([
  { fault: { kind: 'latency', ms: 700 }, met: whole, arrives: 1, name: 'latency', slept: [700] },
  { fault: { kind: 'reset', when: 'before' }, met: reset, arrives: 0, name: 'reset-before' },
  { fault: { kind: 'reset', when: 'after' }, met: reset, arrives: 1, name: 'reset-after' },
  {
    fault: { kind: 'drip', bytes: 50, everyMs: 3 },
    met: whole,
    arrives: 1,
    name: 'drip',
    slept: [3, 3, 3],
  },
  {
    fault: { kind: 'cut' },
    met: { status: 200, text: body.slice(0, body.length / 2), broken: 'ECONNRESET' },
    arrives: 1,
    name: 'cut',
  },
])('$name', async ({ fault, met, arrives, name, slept = [] }) => {
  await using scene = await startScene()
  scene.proxy.harm(() => fault)
  expect(await send(scene.proxy)).toEqual(met)
  expect(scene.arrived).toHaveLength(arrives)
  expect(scene.slept).toEqual(slept)
  expect([...scene.proxy.tally]).toEqual([[name, 1]])
  // Only what is asked for is harmed.
  scene.proxy.harm(() => undefined)
  expect(await send(scene.proxy)).toEqual(whole)
})

test.each(['before', 'after'] as const)('a black hole %s the request went out', async (when) => {
  await using scene = await startScene()
  const giveUp = new AbortController()
  const drawn = Promise.withResolvers<undefined>()
  scene.proxy.harm(() => {
    drawn.resolve(undefined)
    return { kind: 'black-hole', when }
  })
  const met = send(scene.proxy, giveUp.signal)
  await drawn.promise
  if (when === 'after') await scene.forwards(1)
  // A request that is answered afterwards shows that the server has had time to answer.
  scene.proxy.harm(() => undefined)
  expect(await send(scene.proxy)).toEqual(whole)
  giveUp.abort()
  expect(await met).toEqual({ text: '', broken: 'ABORT_ERR' })
  expect(scene.forwarded).toHaveLength(when === 'after' ? 2 : 1)
})

test('a delayed request arrives after its client has gone, and counts as late', async () => {
  await using scene = await startScene({ waits: true })
  const giveUp = new AbortController()
  const drawn = Promise.withResolvers<undefined>()
  scene.proxy.harm(() => {
    drawn.resolve(undefined)
    return { kind: 'latency', ms: 10 }
  })
  const met = send(scene.proxy, giveUp.signal)
  await drawn.promise
  giveUp.abort()
  expect(await met).toEqual({ text: '', broken: 'ABORT_ERR' })
  // The proxy sees the end of a connection before it accepts the next one.
  scene.proxy.harm(() => undefined)
  expect(await send(scene.proxy)).toEqual(whole)
  scene.wake()
  await scene.forwards(2)
  expect(scene.forwarded).toEqual([
    { path: '/webhooks/1', isLate: false },
    { path: '/webhooks/1', isLate: true },
  ])
})

test('without a target it answers 502', async () => {
  await using proxy = await startFaultProxy({ clock: { sleep: () => Promise.resolve() } })
  expect(await send(proxy)).toMatchObject({ status: 502 })
})
