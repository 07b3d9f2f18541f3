// An HTTP proxy on loopback between two real processes that harms the requests it is asked to harm: the network of the chaos rounds.
import { once } from 'node:events'
import { Agent, createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Clock } from '../../src/runtime/clock.ts'
import { closeServer, listen, readBody, sendBody, type BodyWire } from '../../sandbox/api/http.ts'

/** Harm to one request. `before`: the request does not go on; `after`: it does, and its answer is lost. */
export type NetworkFault =
  /** The request goes on this much later, also when its client has gone meanwhile. */
  | { kind: 'latency'; ms: number }
  /** No answer, ever. */
  | { kind: 'black-hole'; when: 'before' | 'after' }
  /** The connection is reset. */
  | { kind: 'reset'; when: 'before' | 'after' }
  /** The body comes in pieces. */
  | { kind: 'drip'; bytes: number; everyMs: number }
  /** Content-Length promises all, half of the body comes, then the connection ends. */
  | { kind: 'cut' }

/** A whole request, before it goes on. */
export interface ProxiedRequest {
  method: string
  path: string
}

export interface FaultProxy extends AsyncDisposable {
  readonly origin: string
  /** Requests so far, by what was done to them (`latency`, `reset-before`, `none` and so on). */
  readonly tally: ReadonlyMap<string, number>
  /** Where requests go on to. Before the first call they are answered 502. */
  forwardTo(origin: string): void
  /** Draws the fault of each request from now on; undefined: it passes unharmed. */
  harm(draw: (request: ProxiedRequest) => NetworkFault | undefined): void
}

export interface FaultProxyOptions {
  clock: Pick<Clock, 'sleep'>
  /** Called for each request that goes on; `isLate` when its client has gone before. */
  onForward?: (request: ProxiedRequest, isLate: boolean) => void
}

interface Answer {
  status: number
  headers: string[]
  body: Buffer
}

export function nameOf(fault: NetworkFault | undefined): string {
  if (fault === undefined) return 'none'
  return 'when' in fault ? `${fault.kind}-${fault.when}` : fault.kind
}

/** The names of all faults. */
export const faultNames = [
  'latency',
  'black-hole-before',
  'black-hole-after',
  'reset-before',
  'reset-after',
  'drip',
  'cut',
]

/** Listens on any free port. Its end resets all connections and forgets what is delayed. */
export async function startFaultProxy({ clock, onForward }: FaultProxyOptions): Promise<FaultProxy> {
  const stop = new AbortController()
  const agent = new Agent({ keepAlive: true })
  const tally = new Map<string, number>()
  let target: string | undefined
  let draw: (request: ProxiedRequest) => NetworkFault | undefined = () => undefined

  async function forward(incoming: IncomingMessage, body: string, isLate: boolean): Promise<Answer> {
    const { headers, method = 'GET', url: path = '/' } = incoming
    if (target === undefined) return { status: 502, headers: [], body: Buffer.from('the proxy has no target') }
    onForward?.({ method, path }, isLate)
    const outgoing = request(target + path, { method, headers, agent, signal: stop.signal })
    // The end of the proxy breaks off exchanges whose answer has begun.
    outgoing.on('error', () => undefined)
    const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
    outgoing.end(body)
    const [response] = await answered
    const chunks = (await response.toArray()) as Buffer[]
    return { status: response.statusCode ?? 502, headers: response.rawHeaders, body: Buffer.concat(chunks) }
  }

  async function pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(incoming)
    const fault = draw({ method: incoming.method ?? 'GET', path: incoming.url ?? '/' })
    tally.set(nameOf(fault), (tally.get(nameOf(fault)) ?? 0) + 1)
    if (fault?.kind === 'latency') await clock.sleep(fault.ms, stop.signal)
    const when = fault !== undefined && 'when' in fault ? fault.when : undefined
    const answer = when === 'before' ? undefined : await forward(incoming, body, response.destroyed)
    if (fault?.kind === 'reset') incoming.socket.resetAndDestroy()
    if (answer === undefined || fault?.kind === 'reset' || fault?.kind === 'black-hole') return
    const wire: BodyWire = fault?.kind === 'cut' || fault?.kind === 'drip' ? fault : { kind: 'whole' }
    response.writeHead(answer.status, answer.headers)
    await sendBody(response, answer.body, wire, { clock, signal: stop.signal })
  }

  const server = createServer((incoming, response) => {
    // A client that goes, or a target that breaks off, ends the exchange as a network does.
    response.on('error', () => undefined)
    pass(incoming, response).catch(() => incoming.socket.destroy())
  })

  return {
    origin: await listen(server, '127.0.0.1', 0),
    tally,
    forwardTo(origin) {
      target = origin
    },
    harm(drawn) {
      draw = drawn
    },
    async [Symbol.asyncDispose]() {
      stop.abort()
      agent.destroy()
      await closeServer(server)
    },
  }
}
