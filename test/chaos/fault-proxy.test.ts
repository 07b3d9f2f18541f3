// The faults of the proxy, each alone against a server that counts what reaches it: a round proves nothing if they do no harm.
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { expect, test } from 'vitest'
import { closeServer, listen } from '../../sandbox/api/http.ts'
import { startFaultProxy, type FaultProxy, type NetworkFault } from './fault-proxy.ts'

const body = JSON.stringify({ text: 'x'.repeat(100) })

interface Scene extends AsyncDisposable {
  proxy: FaultProxy
  /** Requests that reached the server. */
  arrived: () => number
  /** Waits that the proxy asked for, in milliseconds. */
  slept: number[]
  /** For each request that went on, whether its client had gone. */
  forwarded: boolean[]
  /** Resolves once this many requests went on. */
  forwards(count: number): Promise<void>
}

/** `wait`: what the proxy's waits take. */
async function startScene(wait = Promise.resolve()): Promise<Scene> {
  const slept: number[] = []
  const forwarded: boolean[] = []
  const changes = new EventTarget()
  let arrived = 0
  const server = createServer((incoming, response) => {
    arrived += 1
    incoming.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
    })
  })
  const origin = await listen(server, '127.0.0.1', 0)
  const proxy = await startFaultProxy({
    clock: {
      async sleep(ms) {
        slept.push(ms)
        await wait
      },
    },
    onForward(_, isLate) {
      forwarded.push(isLate)
      changes.dispatchEvent(new Event('change'))
    },
  })
  proxy.forwardTo(origin)
  return {
    proxy,
    arrived: () => arrived,
    slept,
    forwarded,
    async forwards(count) {
      while (forwarded.length < count) await once(changes, 'change')
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

async function send(proxy: FaultProxy, signal?: AbortSignal): Promise<Met> {
  const outgoing = request(`${proxy.origin}/webhooks/1`, { method: 'PATCH', agent: false, ...(signal && { signal }) })
  outgoing.end('asked')
  const met: Met = { text: '' }
  try {
    const [response] = (await once(outgoing, 'response')) as [AsyncIterable<Buffer> & { statusCode: number }]
    met.status = response.statusCode
    for await (const chunk of response) met.text += chunk.toString()
  } catch (error) {
    met.broken = (error as NodeJS.ErrnoException).code
  }
  return met
}

const whole = { status: 200, text: body }
const reset = { text: '', broken: 'ECONNRESET' }
const half = { status: 200, text: body.slice(0, body.length / 2), broken: 'ECONNRESET' }

test.each<{ fault: NetworkFault; met: Met; arrives: number; name: string; slept?: number[] }>([
  { fault: { kind: 'latency', ms: 700 }, met: whole, arrives: 1, name: 'latency', slept: [700] },
  { fault: { kind: 'reset', when: 'before' }, met: reset, arrives: 0, name: 'reset-before' },
  { fault: { kind: 'reset', when: 'after' }, met: reset, arrives: 1, name: 'reset-after' },
  { fault: { kind: 'drip', bytes: 50, everyMs: 3 }, met: whole, arrives: 1, name: 'drip', slept: [3, 3, 3] },
  { fault: { kind: 'cut' }, met: half, arrives: 1, name: 'cut' },
])('$name', async ({ fault, met, arrives, name, slept = [] }) => {
  await using scene = await startScene()
  scene.proxy.harm(() => fault)
  expect(await send(scene.proxy)).toEqual(met)
  expect(scene.arrived()).toBe(arrives)
  expect(scene.slept).toEqual(slept)
  expect([...scene.proxy.tally]).toEqual([[name, 1]])
  // Only what is asked for is harmed.
  scene.proxy.harm(() => undefined)
  expect(await send(scene.proxy)).toEqual(whole)
})

test.each<{ fault: NetworkFault; name: string; forwarded: boolean[] }>([
  { fault: { kind: 'black-hole', when: 'before' }, name: 'a black hole before it goes on', forwarded: [false] },
  { fault: { kind: 'black-hole', when: 'after' }, name: 'a black hole after it went on', forwarded: [false, false] },
  { fault: { kind: 'latency', ms: 10 }, name: 'a delay: it goes on late', forwarded: [false, true] },
])('a client that gives up meets $name', async ({ fault, forwarded }) => {
  const held = Promise.withResolvers<undefined>()
  await using scene = await startScene(held.promise)
  const giveUp = new AbortController()
  const drawn = Promise.withResolvers<undefined>()
  scene.proxy.harm(() => {
    drawn.resolve(undefined)
    return fault
  })
  const met = send(scene.proxy, giveUp.signal)
  await drawn.promise
  if (fault.kind === 'black-hole' && fault.when === 'after') await scene.forwards(1)
  giveUp.abort()
  expect(await met).toEqual({ text: '', broken: 'ABORT_ERR' })
  // The proxy sees the end of a connection before it accepts the next one; its answer shows that there was time to answer.
  scene.proxy.harm(() => undefined)
  expect(await send(scene.proxy)).toEqual(whole)
  held.resolve(undefined)
  await scene.forwards(forwarded.length)
  expect(scene.forwarded).toEqual(forwarded)
})
