// Admission and backpressure: slow and idle clients cost bounded memory, and keep no other client out.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../runtime/clock.ts'

export interface ConnectionLimits {
  /** Connections that are kept open between requests: while more are open, every answer ends its connection. */
  maxKept: number
  /** Open connections. A further one takes the place of the longest idle one, else of the one whose answer has waited longest. */
  maxOpen: number
  /** The answer to the last request that may be made on a connection ends it. */
  maxRequests: number
  /** An answer on a connection of this age ends it, in ms. */
  maxAgeMs: number
  /** Requests that wait on one connection while another is answered (pipelining): one more ends the connection. */
  maxPipelined: number
  /** An answer that the client has not taken within this time ends its connection, in ms. */
  answerTimeoutMs: number
  /** Bytes of answers that wait to be written, over all connections; answers that share their bytes count once. */
  maxWaitingBytes: number
}

/**
 * Twice Node's listen backlog (511) may be open: a burst of scrapes that is accepted in one turn of the event loop
 * is read in the next one, before it has to make room for others.
 */
export const defaultLimits: ConnectionLimits = {
  maxKept: 256,
  maxOpen: 1024,
  maxRequests: 100,
  maxAgeMs: 60_000,
  maxPipelined: 16,
  answerTimeoutMs: 5_000,
  maxWaitingBytes: 16_777_216,
}

/** An answer that was handed to Node: the bytes of its body, and whether it ends the connection. */
export interface Written {
  body: Uint8Array
  isLast: boolean
}

/** Answers one request; never rejects. `mustEnd` is asked when the answer is known: whether it has to end the connection. */
export type Respond = (request: IncomingMessage, response: ServerResponse, mustEnd: () => boolean) => Promise<Written>

export interface ConnectionsOptions {
  limits: ConnectionLimits
  respond: Respond
  clock: Pick<Clock, 'monotonic' | 'sleep'>
}

interface PendingRequest {
  request: IncomingMessage
  response: ServerResponse
}

interface TrackedConnection {
  socket: Socket
  openedAt: number
  requests: number
  waiting: PendingRequest[]
  /** In which of the groups it stands; each is ordered by since when. */
  group: Set<TrackedConnection>
  /** Called when the client has taken the answer that it waits for, or is gone; undefined while there is none. */
  onDone: (() => void) | undefined
}

/** Bodies that wait to be written, by how many connections: one that many share is held in memory once. */
function createOutbox(): { add(body: Uint8Array): void; remove(body: Uint8Array): void; bytes(): number } {
  const holders = new Map<Uint8Array, number>()
  let bytes = 0
  return {
    add(body) {
      const count = holders.get(body) ?? 0
      if (count === 0) bytes += body.byteLength
      holders.set(body, count + 1)
    },
    remove(body) {
      const count = holders.get(body) ?? 0
      if (count > 1) holders.set(body, count - 1)
      else if (holders.delete(body)) bytes -= body.byteLength
    },
    bytes: () => bytes,
  }
}

/** Of a chunk with thousands of pipelined requests the parser is to see a few before the connection ends. */
const pieceBytes = 1024

/** Has the HTTP parser take what a client sends in pieces: it makes objects of all the requests that it is given at once. */
function parseInPieces(socket: Socket): void {
  const [parse] = socket.listeners('data')
  if (parse === undefined) throw new TypeError('the HTTP server does not listen to the data of its socket')
  socket.removeAllListeners('data')
  socket.on('data', (chunk: Buffer) => {
    for (let at = 0; at < chunk.length && !socket.destroyed; at += pieceBytes) {
      Reflect.apply(parse, socket, [chunk.subarray(at, at + pieceBytes)])
    }
  })
}

function firstOf<T>(group: ReadonlySet<T>): T | undefined {
  const [first] = group
  return first
}

/** Puts every connection of the server under these limits, and answers its requests one at a time for each connection. */
export function manageConnections(server: Server, { limits, respond, clock }: ConnectionsOptions): void {
  const connections = new Map<Socket, TrackedConnection>()
  /** Answered before and idle now; not yet asked anything; being answered. Each has the longest so first. */
  const [kept, unheard, answering] = [
    new Set<TrackedConnection>(),
    new Set<TrackedConnection>(),
    new Set<TrackedConnection>(),
  ]
  const outbox = createOutbox()

  function move(connection: TrackedConnection, group: Set<TrackedConnection>): void {
    connection.group.delete(connection)
    connection.group = group
    group.add(connection)
  }

  function remove(connection: TrackedConnection): void {
    connections.delete(connection.socket)
    connection.group.delete(connection)
    connection.waiting.length = 0
    connection.onDone?.()
  }

  /** A reset frees at once what a client does not take; an idle one gets an orderly end, and all that was sent to it. */
  function end(connection: TrackedConnection): void {
    if (connection.group === answering) connection.socket.resetAndDestroy()
    else connection.socket.destroy()
    remove(connection)
  }

  function makeRoomFor(newest: TrackedConnection): void {
    while (connections.size > limits.maxOpen) {
      const idle = firstOf(kept) ?? firstOf(unheard)
      const victim = idle === undefined || idle === newest ? firstOf(answering) : idle
      if (victim === undefined) return
      end(victim)
    }
  }

  /** The one that has just begun to wait stays: even an answer above the limit is given when it is alone. */
  function boundWaitingBytes(newest: TrackedConnection): void {
    while (outbox.bytes() > limits.maxWaitingBytes) {
      const victim = firstOf(answering)
      if (victim === undefined || victim === newest) return
      end(victim)
    }
  }

  /** Resolves when the client has taken the answer, or its connection is gone. */
  async function untilTaken(connection: TrackedConnection, response: ServerResponse, body: Uint8Array): Promise<void> {
    if (response.closed || connection.socket.destroyed) return
    const taken = Promise.withResolvers<undefined>()
    const done = new AbortController()
    connection.onDone = () => {
      connection.onDone = undefined
      outbox.remove(body)
      done.abort()
      taken.resolve(undefined)
    }
    response.once('close', () => connection.onDone?.())
    outbox.add(body)
    boundWaitingBytes(connection)
    const late = clock.sleep(limits.answerTimeoutMs, done.signal).then(
      () => {
        end(connection)
      },
      () => undefined,
    )
    await taken.promise
    await late
  }

  function mustEnd({ openedAt, requests, waiting }: TrackedConnection): boolean {
    const isOld = clock.monotonic() - openedAt >= limits.maxAgeMs
    const isUsedUp = requests >= limits.maxRequests && waiting.length === 0
    return isOld || isUsedUp || connections.size > limits.maxKept
  }

  async function answerAll(connection: TrackedConnection, first: PendingRequest): Promise<void> {
    let next: PendingRequest | undefined = first
    while (next !== undefined && connections.has(connection.socket)) {
      move(connection, answering)
      const { request, response } = next
      const { body, isLast } = await respond(request, response, () => mustEnd(connection))
      await untilTaken(connection, response, body)
      if (isLast) return
      next = connection.waiting.shift()
    }
    if (connections.has(connection.socket)) move(connection, kept)
  }

  function hear(request: IncomingMessage, response: ServerResponse): void {
    const connection = connections.get(request.socket)
    if (connection === undefined || connection.requests >= limits.maxRequests) return
    connection.requests += 1
    if (connection.group !== answering) void answerAll(connection, { request, response })
    else if (connection.waiting.length < limits.maxPipelined) connection.waiting.push({ request, response })
    else end(connection)
  }

  server.on('connection', (socket: Socket) => {
    parseInPieces(socket)
    const openedAt = clock.monotonic()
    const connection: TrackedConnection = {
      socket,
      openedAt,
      requests: 0,
      waiting: [],
      group: unheard,
      onDone: undefined,
    }
    connections.set(socket, connection)
    unheard.add(connection)
    socket.once('close', () => {
      remove(connection)
    })
    makeRoomFor(connection)
  })
  server.on('request', hear)
  // Else Node answers by itself, and keeps such answers behind the one that waits.
  server.on('checkExpectation', hear)
}
