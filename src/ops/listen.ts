// The HTTP listener: answers in bounded time and memory, an orderly end, and errors that name the key of the configuration to change.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Clock } from '../runtime/clock.ts'
import { ConfigurationError } from '../runtime/errors.ts'
import { defaultLimits, manageConnections, type ConnectionLimits, type Written } from './connections.ts'

export interface Answer {
  status: number
  contentType: string
  /** Bytes that several answers share are held in memory once. */
  body: string | Uint8Array
  headers?: Record<string, string>
}

export interface ListenOptions {
  host: string
  /** 0 takes any free port. */
  port: number
  /** Limits of connections other than the default ones. */
  limits?: Partial<ConnectionLimits>
  /** Called for each request. An error is a bug: it goes to `onError`, and the client gets 500. */
  answer: (request: IncomingMessage) => Promise<Answer>
  onError: (error: unknown) => void
  clock: Clock
}

export interface Listener {
  /** The port that it really listens on. */
  port: number
  /** From now on every answer ends its connection (`Connection: close`). */
  drain(): void
  /** Takes no more requests, lets answers under way finish within a second, and ends. */
  close(): Promise<void>
}

export const plainText = 'text/plain; charset=utf-8'
export const json = 'application/json; charset=utf-8'

/** Clients that send half a request and stay are sent away. */
const requestTimeoutMs = 10_000
const requestCheckMs = 5_000
/** A scrape that is read slowly must not hold the end of the process up. */
const maxLastAnswerMs = 1000

export const bugAnswer: Answer = {
  status: 500,
  contentType: plainText,
  body: 'The state could not be read; see the log.\n',
}

/** @see RFC 9112 section 3.2 */
const noHostAnswer: Answer = {
  status: 400,
  contentType: plainText,
  body: 'Send a Host header: HTTP/1.1 asks for it.\n',
  headers: { connection: 'close' },
}

const noBytes = new Uint8Array(0)

interface SendOptions {
  withBody: boolean
  /** True ends the connection with this answer. */
  isLast: boolean
}

/** Which key is to be put right, and how. @see https://nodejs.org/api/errors.html#common-system-errors */
const listenProblems: Readonly<Record<string, readonly [key: 'host' | 'port', message: string]>> = {
  EADDRINUSE: ['port', 'the port is taken by another process; choose another one, or end that process'],
  EACCES: ['port', 'this user may not listen on that port; choose one above 1023'],
  EADDRNOTAVAIL: ['host', 'this host has no such address; choose one of its own, or 0.0.0.0'],
  EAFNOSUPPORT: ['host', 'this host has no addresses of that family; choose 0.0.0.0 or ::'],
  ENOTFOUND: ['host', 'no host of that name is known; choose an address of this host, or 0.0.0.0'],
  EAI_AGAIN: ['host', 'the host name can not be looked up now; choose an address of this host, or 0.0.0.0'],
}

function listenError({ code, name }: NodeJS.ErrnoException, options: ListenOptions): ConfigurationError {
  const general = ['port', `listening there fails with ${code ?? name}`] as const
  const [key, message] = listenProblems[code ?? ''] ?? general
  const origin = `${options.host}:${options.port}`
  return new ConfigurationError([{ key: `server.${key}`, origin, message }])
}

function open(server: Server, options: ListenOptions): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    // Stays: an error in taking a connection later on must not end the daemon.
    server.on('error', (error: NodeJS.ErrnoException) => {
      if (server.listening) options.onError(error)
      else reject(listenError(error, options))
    })
    server.listen(options.port, options.host, resolve)
  })
}

async function end(server: Server, clock: Clock): Promise<void> {
  const closed = Promise.withResolvers<undefined>()
  server.close(() => {
    closed.resolve(undefined)
  })
  server.closeIdleConnections()
  const done = new AbortController()
  const late = clock.sleep(maxLastAnswerMs, done.signal).then(
    () => {
      server.closeAllConnections()
    },
    () => undefined,
  )
  await closed.promise
  done.abort()
  await late
}

/** Starts listening. @throws ConfigurationError when the port can't be had. */
export async function listen(options: ListenOptions): Promise<Listener> {
  let draining = false

  function send(response: ServerResponse, answer: Answer, { withBody, isLast }: SendOptions): Written {
    const body = typeof answer.body === 'string' ? Buffer.from(answer.body) : answer.body
    const ends = isLast || draining || answer.headers?.['connection'] === 'close'
    response.writeHead(answer.status, {
      'content-type': answer.contentType,
      'content-length': body.byteLength,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...answer.headers,
      ...(ends ? { connection: 'close' } : {}),
    })
    if (withBody) response.end(body)
    else response.end()
    return { body: withBody ? body : noBytes, isLast: ends }
  }

  async function answerTo(request: IncomingMessage): Promise<Answer> {
    if (request.httpVersion === '1.1' && request.headers.host === undefined) return noHostAnswer
    try {
      return await options.answer(request)
    } catch (error) {
      options.onError(error)
      return bugAnswer
    }
  }

  const server = createServer({
    requestTimeout: requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: requestCheckMs,
    // Node would answer by itself, and keep such answers behind the one that waits.
    requireHostHeader: false,
  })
  manageConnections(server, {
    limits: { ...defaultLimits, ...options.limits },
    clock: options.clock,
    respond: async (request, response, mustEnd) => {
      const answer = await answerTo(request)
      return send(response, answer, { withBody: request.method !== 'HEAD', isLast: mustEnd() })
    },
  })
  await open(server, options)
  const address = server.address()

  return {
    port: typeof address === 'object' && address !== null ? address.port : options.port,
    drain() {
      draining = true
    },
    close() {
      draining = true
      return end(server, options.clock)
    },
  }
}
