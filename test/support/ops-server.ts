// An ops server for a test, and clients of every kind for it.
import { once } from 'node:events'
import { request as send, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { expect } from 'vitest'
import type { AllProbes } from '../../src/reconcile/retry/subscriptions.ts'
import { createAccess, type AccessOptions } from '../../src/ops/access.ts'
import type { ControlOptions } from '../../src/ops/control.ts'
import { createPause, type Pause } from '../../src/reconcile/retry/operator-pause.ts'
import type { Listener, OpsResponse as ServerAnswer } from '../../src/ops/listen.ts'
import type { JobsEndpointOptions } from '../../src/ops/jobs-endpoint.ts'
import type { RecordsEndpointOptions } from '../../src/ops/records-endpoint.ts'
import type { RecordsPage } from '../../src/records/records.ts'
import type { ExplainedRecord } from '../../src/records/shown-record.ts'
import { startOpsServer, type OpsServerOptions } from '../../src/ops/server.ts'
import { toStatus } from '../../src/ops/status.ts'
import type { StatusDocument } from '../../src/ops/status-document.ts'
import type { Steps } from '../../src/runtime/steps.ts'
import { aStatusState } from './status.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

/** Records for the responses to requests: these batches, whatever is asked for. */
export function recordsOf(batches: () => AsyncIterable<ExplainedRecord[]>): RecordsEndpointOptions {
  const page: RecordsPage = {
    source: 'memory',
    isEmpty: false,
    batches: { [Symbol.asyncIterator]: () => batches()[Symbol.asyncIterator]() },
    ...{ next: undefined, notFound: [], incomplete: undefined, error: undefined },
  }
  return {
    access: () => ({ by: 'token' }),
    records: {
      fromMemory: () => Promise.resolve(page),
      fromPlatform: () => Promise.resolve(page),
      needsPlatform: () => false,
      receiverResponses: () => Promise.resolve([]),
    },
    instance: 'test',
    subscriptions: { 'aaaaaaaa-0000-4000-8000-000000000001': 'payments-eu' },
    now: () => Date.UTC(2026, 0, 15, 12),
    standsBy: () => undefined,
  }
}

async function* noBatches(): AsyncGenerator<ExplainedRecord[]> {
  // Nothing is missing.
}

/** A server that answers well, with a clock on which its end can be waited for. */
export interface Running extends Listener, AsyncDisposable {
  clock: VirtualClock
}

/** A status document that is made at once. */
export function* inOneStep(document: StatusDocument): Steps<StatusDocument> {
  yield* []
  return document
}

export function running(listener: Listener, clock: VirtualClock): Running {
  return {
    ...listener,
    clock,
    async [Symbol.asyncDispose]() {
      await clock.run(listener.close())
      // The sockets may close a moment after the listener.
      await expect.poll(() => clock.sleepers()).toBe(0)
    },
  }
}

export async function start(
  changes: Partial<OpsServerOptions> = {},
  clock: VirtualClock = createVirtualClock(),
): Promise<Running> {
  const listener = await startOpsServer({
    host: '127.0.0.1',
    port: 0,
    metrics: () => Promise.resolve('up 1 # ä\n'),
    live: () => [],
    ready: () => [],
    status: () => inOneStep(toStatus(aStatusState())),
    records: recordsOf(noBatches),
    commandPrefix: '',
    control: aControl(clock, { pause: createPause({ now: clock.now, wake: () => undefined, emit: () => undefined }) }),
    onError: (error) => {
      throw error as Error
    },
    clock,
    ...changes,
  })
  return running(listener, clock)
}

/** The text of a response that a server has not sent. */
export async function textOf({ body }: Pick<ServerAnswer, 'body'>): Promise<string> {
  if (typeof body === 'string' || body instanceof Uint8Array) return Buffer.from(body).toString()
  let text = ''
  for await (const piece of body) text += piece
  return text
}

export interface Answer {
  status: number | undefined
  headers: IncomingHttpHeaders
  body: string
}

export interface Ask {
  method?: string
  headers?: Readonly<Record<string, string>>
  body?: string
}

export async function ask(port: number, path: string, { body, ...how }: Ask = {}): Promise<Answer> {
  const request = send({ host: '127.0.0.1', port, path, agent: false, ...how })
  request.end(body)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk)
  return { status: response.statusCode, headers: response.headers, body: text }
}

/** A client's connection that sends given bytes. */
export function dial(port: number, bytes: string): Socket {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(bytes)
  return socket
}

/** Resolves when the server has ended it, in any way. */
export async function closed(socket: Socket): Promise<void> {
  socket.resume()
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve))
}

/** A server whose metrics come when the test lets them. */
export interface Slow extends Running {
  /** Resolves when a client has asked for them. */
  asked: Promise<undefined>
  answer(text: string): void
}

export async function startSlow(): Promise<Slow> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const asked = Promise.withResolvers<undefined>()
  const server = await start({
    metrics: () => {
      asked.resolve(undefined)
      return promise
    },
  })
  return { ...server, asked: asked.promise, answer: resolve }
}

export const token = 'CANARY-b7f1c2d3e4a5968778695a4b3c2d1e0f'

export const proof = 'CANARY-proof-of-the-private-key'
export const team = '7b41c9de-8a30-4f6b-b1c5-93e2d40f6a18'

/** The jobs of a server whose test starts none. */
const noJobs: JobsEndpointOptions = {
  ...recordsOf(noBatches),
  jobs: {
    start: () => undefined,
    get: () => undefined,
    retried: () => undefined,
    cancel: () => undefined,
    note: () => undefined,
    endAll: () => undefined,
    isStopping: () => false,
    run: () => new Promise(() => undefined),
  },
  retriesEnabled: true,
}

export function aControl(
  clock: VirtualClock,
  changes: Pick<ControlOptions, 'pause'> & Partial<ControlOptions> & Partial<AccessOptions>,
): ControlOptions {
  const { allowRemote = false, secrets = () => ({ token, proofs: [proof] }), ...others } = changes
  return {
    access: createAccess({ secrets, allowRemote, clock }),
    instance: 'payments',
    subscriptions: { [team]: 'payments-eu' },
    probe: () => ({ circuits: 0, underWay: 0, platform: false }),
    jobs: noJobs,
    now: clock.now,
    ...others,
  }
}

export interface RunningControl extends Running {
  pause: Pause
  /** How often the cooldowns were ended. */
  probes(): number
}

export async function startTestControl(changes: Partial<OpsServerOptions> = {}): Promise<RunningControl> {
  let probes = 0
  const clock = createVirtualClock()
  const pause = createPause({ now: clock.now, wake: () => undefined, emit: () => undefined })
  const probe = (): AllProbes => ({ circuits: (probes += 1), underWay: 0, platform: false })
  const server = await start({ control: aControl(clock, { pause, probe }), ...changes }, clock)
  return { ...server, clock, pause, probes: () => probes }
}

export interface Command extends Ask {
  /** Default: the right one. */
  authorization?: string | undefined
}

/** Gives one command, over a connection of its own. */
export function command(port: number, path: string, options: Command = {}): Promise<Answer> {
  const { headers, authorization = undefined, ...how } = { authorization: `Bearer ${token}`, ...options }
  const all = { ...headers, ...(authorization !== undefined && { authorization }) }
  return ask(port, path, { method: 'POST', ...how, headers: all })
}
