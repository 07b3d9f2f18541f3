// The HTTP listener: bounded time and memory, an orderly shutdown, and errors that name the configuration key to change.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../runtime/clock.ts'
import { CommandFailure, ConfigurationError, exitCode } from '../runtime/errors.ts'
import { redactedJson } from '../runtime/redact.ts'
import { textUpTo } from '../runtime/text-up-to.ts'

export interface OpsResponse {
  status: number
  contentType: string
  /** A buffer may be shared by several responses. Pieces are created under backpressure. */
  body: string | Uint8Array | AsyncIterable<string>
  headers?: Readonly<Record<string, string>>
}

export interface ListenOptions {
  host: string
  /** 0: any free port. */
  port: number
  /** Called for each request. A rejection is a bug: `onError` gets it, and the client gets 500. */
  respond: (request: IncomingMessage) => Promise<OpsResponse>
  onError: (error: unknown) => void
  clock: Clock
}

export interface Listener {
  /** The actual port. */
  port: number
  /** Stops accepting, waits up to a second for pending responses, and closes. */
  close(): Promise<void>
}

export const plainText = 'text/plain; charset=utf-8'
export const json = 'application/json; charset=utf-8'

/** JSON, on one line unless `indent` is given. */
export function jsonResponse(body: object, status = 200, indent?: number): OpsResponse {
  return { status, contentType: json, body: `${redactedJson(body, indent)}\n` }
}

/** Maximum lifetime of a connection. A command may wait 20 s for the Kubernetes API. */
const maxLifeMs = 30_000
/** Open connections; one more evicts the oldest. */
const maxConnections = 256
/** Listen backlog, as far as the system allows; other clients connect on a retry, after 1 s or 3 s. */
const backlog = 4096
/** Size of a piece: limits the pipelined requests that the parser sees at once. */
const pieceBytes = 1024
/** A slow scrape must not delay the shutdown. */
const maxLastResponseMs = 1000

export const bugResponse: OpsResponse = {
  status: 500,
  contentType: plainText,
  body: 'The state could not be read; see the log.\n',
}

/** The key to fix, and how. @see https://nodejs.org/api/errors.html#common-system-errors */
const listenProblems: Readonly<Record<string, readonly [key: 'host' | 'port', message: string]>> = {
  EADDRINUSE: ['port', 'the port is taken by another process; choose another one, or end that process'],
  EACCES: ['port', 'this user may not listen on that port; choose one above 1023'],
  EADDRNOTAVAIL: ['host', 'this host has no such address; choose one of its own, or 0.0.0.0'],
  EAFNOSUPPORT: ['host', 'this host has no addresses of that family; choose 0.0.0.0 or ::'],
  ENOTFOUND: ['host', 'no host of that name is known; choose an address of this host, or 0.0.0.0'],
  EAI_AGAIN: ['host', 'the host name cannot be looked up now; choose an address of this host, or 0.0.0.0'],
}

/** An earlier process may still be ending, and interfaces and names may come up later: a new start may succeed. */
const passing: ReadonlySet<string> = new Set(['EADDRINUSE', 'EADDRNOTAVAIL', 'EAI_AGAIN'])

function listenError({ code, name }: NodeJS.ErrnoException, options: ListenOptions): Error {
  const general = ['port', `listening there fails with ${code ?? name}`] as const
  const [key, message] = listenProblems[code ?? ''] ?? general
  const origin = `${options.host}:${options.port}`
  const problem = new ConfigurationError([{ key: `server.${key}`, origin, message }])
  return passing.has(code ?? '') ? new CommandFailure(exitCode.platformUnreachable, problem.message) : problem
}

function open(server: Server, options: ListenOptions): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    // Stays registered: a later accept error must not end the daemon.
    server.on('error', (error: NodeJS.ErrnoException) => {
      if (server.listening) options.onError(error)
      else reject(listenError(error, options))
    })
    server.listen({ port: options.port, host: options.host, backlog }, resolve)
  })
}

async function end(server: Server, clock: Clock): Promise<void> {
  const closed = Promise.withResolvers<undefined>()
  server.close(() => {
    closed.resolve(undefined)
  })
  server.closeIdleConnections()
  const cancel = clock.timer(maxLastResponseMs, () => {
    server.closeAllConnections()
  })
  await closed.promise
  cancel()
}

/**
 * Feeds the HTTP parser in pieces until a client's second request: it creates objects for all requests in a chunk.
 */
function parseInPieces(socket: Socket, hasAskedTwice: (socket: Socket) => boolean): void {
  const [parse] = socket.listeners('data')
  if (parse === undefined) throw new TypeError('the HTTP server does not listen to the data of its socket')
  socket.removeAllListeners('data')
  socket.on('data', (chunk: Buffer) => {
    for (let at = 0; at < chunk.length && !socket.destroyed && !hasAskedTwice(socket); at += pieceBytes) {
      Reflect.apply(parse, socket, [chunk.subarray(at, at + pieceBytes)])
    }
  })
}

/**
 * One request per connection: no scraper, probe or browser needs more. Slow, idle or many clients then cost bounded memory and
 * cannot block others.
 */
function boundConnections(server: Server, { clock }: ListenOptions): void {
  /** Oldest first. */
  const open = new Set<Socket>()
  const askedTwice = new WeakSet<Socket>()
  server.maxRequestsPerSocket = 1
  server.on('dropRequest', (_request: IncomingMessage, socket: Socket) => {
    askedTwice.add(socket)
  })
  server.on('connection', (socket: Socket) => {
    parseInPieces(socket, (one) => askedTwice.has(one))
    const cancel = clock.timer(maxLifeMs, () => {
      socket.resetAndDestroy()
    })
    open.add(socket)
    socket.once('close', () => {
      cancel()
      open.delete(socket)
    })
    const [oldest] = open
    if (open.size > maxConnections) {
      open.delete(oldest ?? socket)
      oldest?.resetAndDestroy()
    }
  })
}

/** Creates each piece under backpressure; stops when the client disconnects. */
async function sendPieces(response: ServerResponse, pieces: AsyncIterable<string>): Promise<void> {
  const gone = new AbortController()
  response.once('close', () => {
    gone.abort()
  })
  for await (const piece of pieces) {
    if (response.destroyed) return
    if (!response.write(piece)) await once(response, 'drain', { signal: gone.signal }).catch(() => undefined)
  }
  response.end()
}

async function send(response: ServerResponse, content: OpsResponse, withBody: boolean): Promise<void> {
  const body = typeof content.body === 'string' ? Buffer.from(content.body) : content.body
  const isWhole = body instanceof Uint8Array
  response.writeHead(content.status, {
    'content-type': content.contentType,
    ...(isWhole && { 'content-length': body.byteLength }),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...content.headers,
    connection: 'close',
  })
  if (!withBody) response.end()
  else if (isWhole) response.end(body)
  else await sendPieces(response, body)
}

/** Undefined if the body is truncated or too large. */
export function bodyOf(request: IncomingMessage, maxBytes: number): Promise<string | undefined> {
  return textUpTo(maxBytes, request.iterator({ destroyOnReturn: false })).catch(() => undefined)
}

/** Starts listening. @throws ConfigurationError, or CommandFailure for a port or address that may become available */
export async function listen(options: ListenOptions): Promise<Listener> {
  async function respondTo(request: IncomingMessage): Promise<OpsResponse> {
    try {
      return await options.respond(request)
    } catch (error) {
      options.onError(error)
      return bugResponse
    }
  }

  const server = createServer((request, response) => {
    void respondTo(request)
      .then((content) => send(response, content, request.method !== 'HEAD'))
      .catch((error: unknown) => {
        // The head is sent already: only a broken connection shows the truncation.
        options.onError(error)
        response.destroy()
      })
  })
  boundConnections(server, options)
  await open(server, options)
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : options.port,
    close: () => end(server, options.clock),
  }
}
