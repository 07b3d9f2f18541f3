// The ops server: metrics for Prometheus, probes for the orchestrator. Plain HTTP, read-only, nothing personal on it.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Clock } from '../clock.ts'
import { ConfigurationError } from '../errors.ts'

export interface OpsServerOptions {
  host: string
  /** 0 takes any free port. */
  port: number
  /** Text exposition of all metrics, and its content type. */
  metrics: () => Promise<{ text: string; contentType: string }>
  /** What keeps the process from being alive, or from being ready; empty when nothing does. */
  live: () => readonly string[]
  ready: () => readonly string[]
  /** Told of what keeps an answer from being made: a bug. The asker gets 500. */
  onError: (error: unknown) => void
  clock: Clock
}

export interface OpsServer {
  /** The port that it really listens on. */
  port: number
  /** From now on every answer ends its connection (`Connection: close`). */
  drain(): void
  /** Takes no more requests, lets answers under way finish within a second, and ends. */
  close(): Promise<void>
}

interface Answer {
  status: number
  contentType: string
  body: string
  headers?: Record<string, string>
}

const text = 'text/plain; charset=utf-8'

/** Clients that send half a request and stay are sent away. */
const requestTimeoutMs = 10_000
const requestCheckMs = 5_000
const maxConnections = 256
/** A scrape that is read slowly must not hold the end of the process up. */
const longestLastAnswerMs = 1000

function probe(problems: readonly string[]): Answer {
  if (problems.length === 0) return { status: 200, contentType: text, body: 'ok\n' }
  return { status: 503, contentType: text, body: `${problems.join('\n')}\n` }
}

async function route(path: string, options: OpsServerOptions): Promise<Answer> {
  switch (path) {
    case '/metrics': {
      const { text: body, contentType } = await options.metrics()
      return { status: 200, contentType, body }
    }
    case '/livez':
      return probe(options.live())
    case '/readyz':
      return probe(options.ready())
    default:
      return { status: 404, contentType: text, body: 'There is nothing here. Try /metrics, /livez or /readyz.\n' }
  }
}

async function answerTo(request: IncomingMessage, options: OpsServerOptions): Promise<Answer> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    const headers = { allow: 'GET, HEAD', connection: 'close' }
    return { status: 405, contentType: text, body: 'Only GET and HEAD are answered here.\n', headers }
  }
  return route((request.url ?? '/').split('?')[0] ?? '/', options)
}

/** Which key is to be put right, and how. @see https://nodejs.org/api/errors.html#common-system-errors */
const listenProblems: Readonly<Record<string, readonly [key: string, message: string]>> = {
  EADDRINUSE: ['server.port', 'the port is taken by another process; choose another one, or end that process'],
  EACCES: ['server.port', 'this user may not listen on that port; choose one above 1023'],
  EADDRNOTAVAIL: ['server.host', 'this host has no such address; choose one of its own, or 0.0.0.0'],
  EAFNOSUPPORT: ['server.host', 'this host has no addresses of that family; choose 0.0.0.0 or ::'],
  ENOTFOUND: ['server.host', 'no host of that name is known; choose an address of this host, or 0.0.0.0'],
  EAI_AGAIN: ['server.host', 'the host name can not be looked up now; choose an address of this host, or 0.0.0.0'],
}

/** Starts the server. @throws ConfigurationError when the port can't be had. */
export async function startOpsServer(options: OpsServerOptions): Promise<OpsServer> {
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
      answerTo(request, options).then(
        (answer) => {
          send(response, answer, request.method !== 'HEAD')
        },
        (error: unknown) => {
          options.onError(error)
          send(response, { status: 500, contentType: text, body: 'The state could not be read; see the log.\n' }, true)
        },
      )
    },
  )
  server.maxConnections = maxConnections

  await new Promise<void>((resolve, reject) => {
    // Stays: an error in taking a connection later on must not end the daemon.
    server.on('error', (error: NodeJS.ErrnoException) => {
      if (server.listening) {
        options.onError(error)
        return
      }
      const general = ['server.port', `listening there fails with ${error.code ?? error.name}`] as const
      const [key, message] = listenProblems[error.code ?? ''] ?? general
      reject(new ConfigurationError([{ key, origin: `${options.host}:${options.port}`, message }]))
    })
    server.listen(options.port, options.host, resolve)
  })
  const address = server.address()

  return {
    port: typeof address === 'object' && address !== null ? address.port : options.port,
    drain() {
      draining = true
    },
    async close() {
      draining = true
      const closed = Promise.withResolvers<undefined>()
      server.close(() => {
        closed.resolve(undefined)
      })
      server.closeIdleConnections()
      const done = new AbortController()
      const late = options.clock.sleep(longestLastAnswerMs, done.signal).then(
        () => {
          server.closeAllConnections()
        },
        () => undefined,
      )
      await closed.promise
      done.abort()
      await late
    },
  }
}
