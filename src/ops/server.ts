// The ops server: metrics for Prometheus, probes for the orchestrator, the state for people. Plain HTTP, read-only, nothing personal on it.
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../runtime/clock.ts'
import { bugAnswer, json, listen, plainText, type Answer, type Listener } from './listen.ts'
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

/** How long an answer is shared by all who ask, in ms. */
const sharedForMs = 1000

/** Answers whose making costs something. `?refresh=off` is for who reads on: a page that comes anew takes the place where one was from a screen reader. */
type Rendered = 'page' | 'page?refresh=off' | 'metrics' | 'status'

function pageAnswer(options: OpsServerOptions, refreshes: boolean): Answer {
  const body = renderPage(options.status(), { refreshes })
  return { status: 200, contentType: pageType, body, headers: { ...pageHeaders } }
}

async function metricsAnswer({ metrics }: OpsServerOptions): Promise<Answer> {
  const { text: body, contentType } = await metrics()
  return { status: 200, contentType, body }
}

function statusAnswer({ status }: OpsServerOptions): Answer {
  return { status: 200, contentType: json, body: `${JSON.stringify(status(), null, 2)}\n` }
}

/** Gives each answer to all who ask within a second of its making: many askers cost one rendering, and one copy in memory. */
function createShared(options: OpsServerOptions): (what: Rendered) => Promise<Answer> {
  const last = new Map<Rendered, { at: number; isMade: boolean; answer: Promise<Answer> }>()
  const make: Readonly<Record<Rendered, () => Answer | Promise<Answer>>> = {
    page: () => pageAnswer(options, true),
    'page?refresh=off': () => pageAnswer(options, false),
    metrics: () => metricsAnswer(options),
    status: () => statusAnswer(options),
  }

  async function render(what: Rendered): Promise<Answer> {
    try {
      const answer = await make[what]()
      return { ...answer, body: Buffer.from(answer.body) }
    } catch (error) {
      // Told once, not once by everybody who asks.
      options.onError(error)
      return bugAnswer
    }
  }

  return (what) => {
    const at = options.clock.monotonic()
    const known = last.get(what)
    if (known !== undefined && (!known.isMade || at - known.at < sharedForMs)) return known.answer
    const made = { at, isMade: false, answer: render(what) }
    last.set(what, made)
    void made.answer.then(() => {
      made.isMade = true
    })
    return made.answer
  }
}

/** What a request to the ops server is answered from. */
interface Source extends OpsServerOptions {
  shared: (what: Rendered) => Promise<Answer>
}

function nothingHere({ statusPage }: OpsServerOptions): Answer {
  const body = `There is nothing here. Try ${statusPage ? '/, ' : ''}/metrics, /livez, /readyz or /status.\n`
  return { status: 404, contentType: plainText, body }
}

function pageOf(query: string): Rendered {
  return new URLSearchParams(query).get('refresh') === 'off' ? 'page?refresh=off' : 'page'
}

async function route({ path, query }: { path: string; query: string }, source: Source): Promise<Answer> {
  switch (path) {
    case '/':
      return source.statusPage ? source.shared(pageOf(query)) : nothingHere(source)
    case '/metrics':
      return source.shared('metrics')
    case '/livez':
      return probe(source.live())
    case '/readyz':
      return probe(source.ready())
    case '/status':
      return source.shared('status')
    default:
      return nothingHere(source)
  }
}

async function answerTo(request: IncomingMessage, source: Source): Promise<Answer> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    const headers = { allow: 'GET, HEAD', connection: 'close' }
    return { status: 405, contentType: plainText, body: 'Only GET and HEAD are answered here.\n', headers }
  }
  const url = request.url ?? '/'
  const path = url.split('?', 1)[0] ?? '/'
  return route({ path, query: url.slice(path.length + 1) }, source)
}

/** Starts the server. @throws ConfigurationError when the port can't be had. */
export function startOpsServer(options: OpsServerOptions): Promise<OpsServer> {
  const source = { ...options, shared: createShared(options) }
  return listen({ ...options, section: 'server', answer: (request) => answerTo(request, source) })
}
