// The ops server: metrics for Prometheus, probes for the orchestrator. Plain HTTP, read-only, nothing personal on it.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
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
}

export interface OpsServer {
  /** The port that it really listens on. */
  port: number
  /** Answers what is under way, with `Connection: close`, and ends. */
  close(): Promise<void>
}

interface Answer {
  status: number
  contentType: string
  body: string
}

const text = 'text/plain; charset=utf-8'

/** Clients that send half a request and stay are sent away. */
const requestTimeoutMs = 10_000
const maxConnections = 256

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
    return { status: 405, contentType: text, body: 'Only GET and HEAD are answered here.\n' }
  }
  return route((request.url ?? '/').split('?')[0] ?? '/', options)
}

/** @see https://nodejs.org/api/errors.html#common-system-errors */
const listenProblems: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken by another process; choose another one, or end that process',
  EACCES: 'this user may not listen on that port; choose one above 1023',
  EADDRNOTAVAIL: 'this host has no such address; choose one of its own, or 0.0.0.0',
}

/** Starts the server. @throws ConfigurationError when the port can't be had. */
export async function startOpsServer(options: OpsServerOptions): Promise<OpsServer> {
  let closing = false

  function send(response: ServerResponse, answer: Answer, withBody: boolean): void {
    response.writeHead(answer.status, {
      'content-type': answer.contentType,
      'content-length': Buffer.byteLength(answer.body),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...(closing || answer.status === 405 ? { connection: 'close' } : {}),
    })
    response.end(withBody ? answer.body : undefined)
  }

  const server = createServer(
    { requestTimeout: requestTimeoutMs, headersTimeout: requestTimeoutMs },
    (request, response) => {
      answerTo(request, options).then(
        (answer) => {
          send(response, answer, request.method !== 'HEAD')
        },
        () => {
          send(response, { status: 500, contentType: text, body: 'The state could not be read; see the log.\n' }, true)
        },
      )
    },
  )
  server.maxConnections = maxConnections

  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const problem = listenProblems[error.code ?? '']
      const message = problem ?? `listening there fails with ${error.code ?? error.name}`
      const origin = `${options.host}:${options.port}`
      reject(new ConfigurationError([{ key: 'server.port', origin, message }]))
    })
    server.listen(options.port, options.host, resolve)
  })
  const address = server.address()

  return {
    port: typeof address === 'object' && address !== null ? address.port : options.port,
    close: () =>
      new Promise((resolve) => {
        closing = true
        server.close(() => {
          resolve()
        })
        server.closeIdleConnections()
        // What does not end by itself now, a scrape that is read slowly, must not hold the process up.
        server.closeAllConnections()
      }),
  }
}
