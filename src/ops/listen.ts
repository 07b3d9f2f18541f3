// An HTTP listener of our own: nobody can hold it up or wear it out, and a port that can't be had is told by the key to put right.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Clock } from '../clock.ts'
import { ConfigurationError } from '../errors.ts'

export interface Answer {
  status: number
  contentType: string
  body: string
  headers?: Record<string, string>
}

export interface ListenOptions {
  /** Section of the configuration whose `host` and `port` these are: a problem is told by their names. */
  section: 'server' | 'control'
  host: string
  /** 0 takes any free port. */
  port: number
  /** Further requests of a connection are not heard (503). Default: any number. */
  requestsPerConnection?: number
  /** Called for each request. What keeps it from giving an answer is a bug: the asker gets 500. */
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
const maxConnections = 256
/** A scrape that is read slowly must not hold the end of the process up. */
const longestLastAnswerMs = 1000

const bugAnswer: Answer = {
  status: 500,
  contentType: plainText,
  body: 'The state could not be read; see the log.\n',
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
  return new ConfigurationError([{ key: `${options.section}.${key}`, origin, message }])
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
  const late = clock.sleep(longestLastAnswerMs, done.signal).then(
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

  function send(response: ServerResponse, answer: Answer, withBody: boolean): void {
    response.writeHead(answer.status, {
      'content-type': answer.contentType,
      'content-length': Buffer.byteLength(answer.body),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...answer.headers,
      ...(draining ? { connection: 'close' } : {}),
    })
    response.end(withBody ? answer.body : undefined)
  }

  const server = createServer(
    {
      requestTimeout: requestTimeoutMs,
      headersTimeout: requestTimeoutMs,
      connectionsCheckingInterval: requestCheckMs,
    },
    (request, response) => {
      const withBody = request.method !== 'HEAD'
      options.answer(request).then(
        (answer) => {
          send(response, answer, withBody)
        },
        (error: unknown) => {
          options.onError(error)
          send(response, bugAnswer, withBody)
        },
      )
    },
  )
  server.maxConnections = maxConnections
  server.maxRequestsPerSocket = options.requestsPerConnection ?? 0
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
