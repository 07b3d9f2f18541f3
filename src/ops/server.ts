// The ops server: metrics for Prometheus, probes for the orchestrator, the state for people. Plain HTTP, read-only, nothing personal on it.
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../clock.ts'
import { json, listen, plainText, type Answer, type Listener } from './listen.ts'
import type { StatusDocument } from './status.ts'

export interface OpsServerOptions {
  host: string
  /** 0 takes any free port. */
  port: number
  /** Text exposition of all metrics, and its content type. */
  metrics: () => Promise<{ text: string; contentType: string }>
  /** What keeps the process from being alive, or from being ready; empty when nothing does. */
  live: () => readonly string[]
  ready: () => readonly string[]
  status: () => StatusDocument
  /** Told of what keeps an answer from being made: a bug. The asker gets 500. */
  onError: (error: unknown) => void
  clock: Clock
}

export type OpsServer = Listener

function probe(problems: readonly string[]): Answer {
  if (problems.length === 0) return { status: 200, contentType: plainText, body: 'ok\n' }
  return { status: 503, contentType: plainText, body: `${problems.join('\n')}\n` }
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
    case '/status':
      return { status: 200, contentType: json, body: `${JSON.stringify(options.status(), null, 2)}\n` }
    default: {
      const body = 'There is nothing here. Try /metrics, /livez, /readyz or /status.\n'
      return { status: 404, contentType: plainText, body }
    }
  }
}

async function answerTo(request: IncomingMessage, options: OpsServerOptions): Promise<Answer> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    const headers = { allow: 'GET, HEAD', connection: 'close' }
    return { status: 405, contentType: plainText, body: 'Only GET and HEAD are answered here.\n', headers }
  }
  return route((request.url ?? '/').split('?')[0] ?? '/', options)
}

/** Starts the server. @throws ConfigurationError when the port can't be had. */
export function startOpsServer(options: OpsServerOptions): Promise<OpsServer> {
  return listen({ ...options, section: 'server', answer: (request) => answerTo(request, options) })
}
