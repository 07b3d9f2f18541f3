// The ops server: metrics for Prometheus, probes for the orchestrator, the state for people. Plain HTTP, read-only, nothing personal on it.
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../clock.ts'
import { json, listen, plainText, type Answer, type Listener } from './listen.ts'
import { pageHeaders, renderPage } from './page.ts'
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
  /** Whether the status page is at `/`. */
  statusPage: boolean
  /** Told of what keeps an answer from being made: a bug. The asker gets 500. */
  onError: (error: unknown) => void
  clock: Clock
}

export type OpsServer = Listener

const pageType = 'text/html; charset=utf-8'

function probe(problems: readonly string[]): Answer {
  if (problems.length === 0) return { status: 200, contentType: plainText, body: 'ok\n' }
  return { status: 503, contentType: plainText, body: `${problems.join('\n')}\n` }
}

/** `?refresh=off` is for who reads on: a page that comes anew takes the place where one was from a screen reader. */
function page(query: string, options: OpsServerOptions): Answer {
  const refreshes = new URLSearchParams(query).get('refresh') !== 'off'
  const body = renderPage(options.status(), { refreshes })
  return { status: 200, contentType: pageType, body, headers: { ...pageHeaders } }
}

function nothingHere({ statusPage }: OpsServerOptions): Answer {
  const body = `There is nothing here. Try ${statusPage ? '/, ' : ''}/metrics, /livez, /readyz or /status.\n`
  return { status: 404, contentType: plainText, body }
}

async function route({ path, query }: { path: string; query: string }, options: OpsServerOptions): Promise<Answer> {
  switch (path) {
    case '/':
      return options.statusPage ? page(query, options) : nothingHere(options)
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
    default:
      return nothingHere(options)
  }
}

async function answerTo(request: IncomingMessage, options: OpsServerOptions): Promise<Answer> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    const headers = { allow: 'GET, HEAD', connection: 'close' }
    return { status: 405, contentType: plainText, body: 'Only GET and HEAD are answered here.\n', headers }
  }
  const url = request.url ?? '/'
  const path = url.split('?', 1)[0] ?? '/'
  return route({ path, query: url.slice(path.length + 1) }, options)
}

/** Starts the server. @throws ConfigurationError when the port can't be had. */
export function startOpsServer(options: OpsServerOptions): Promise<OpsServer> {
  return listen({ ...options, section: 'server', answer: (request) => answerTo(request, options) })
}
