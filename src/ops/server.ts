// The ops server: metrics for Prometheus, health for the orchestrator, the state for people, commands for the operator.
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../runtime/clock.ts'
import { redactedJson } from '../runtime/redact.ts'
import { createControl, type ControlOptions } from './control.ts'
import { bugAnswer, json, listen, plainText, type Answer, type Listener } from './listen.ts'
import { renderPage } from './page.ts'
import { pageHeaders } from './page-styles.ts'
import { createRecordsAnswer, createResponseAnswer, type RecordsAnswerOptions } from './records-answer.ts'
import { findForPage, readRecordsQuery } from './records-page.ts'
import type { StatusDocument } from './status-document.ts'

export interface OpsServerOptions {
  host: string
  /** 0 takes any free port. */
  port: number
  /** Text exposition of all metrics, and its content type. */
  metrics: () => Promise<{ text: string; contentType: string }>
  /** Reasons why the process is not alive, or not ready; empty when it is. */
  live: () => readonly string[]
  ready: () => readonly string[]
  status: () => StatusDocument
  records: RecordsAnswerOptions
  /** `server.commandPrefix`. */
  commandPrefix: string
  control: ControlOptions
  /** Gets an error that kept an answer from being made, which is a bug. The client gets 500. */
  onError: (error: unknown) => void
  clock: Clock
}

export type OpsServer = Listener

const pageType = 'text/html; charset=utf-8'

function health(problems: readonly string[]): Answer {
  if (problems.length === 0) return { status: 200, contentType: plainText, body: 'ok\n' }
  return { status: 503, contentType: plainText, body: `${problems.join('\n')}\n` }
}

/** Lifetime of a cached response, in ms. */
const sharedForMs = 1000

type Make = () => Answer | Promise<Answer>

interface Shared {
  of(make: Make): Promise<Answer>
  /** The next one is made anew: a command has changed the state. */
  forget(): void
}

/** Caches each response for a second: many clients cost one rendering, and one copy in memory. */
function createShared({ clock, onError }: OpsServerOptions): Shared {
  const last = new Map<Make, { at: number; isMade: boolean; answer: Promise<Answer> }>()

  async function render(make: Make): Promise<Answer> {
    try {
      const answer = await make()
      const { body } = answer
      return typeof body === 'string' ? { ...answer, body: Buffer.from(body) } : answer
    } catch (error) {
      // Reported once, not by each client.
      onError(error)
      return bugAnswer
    }
  }

  return {
    of(make) {
      const at = clock.monotonic()
      const known = last.get(make)
      if (known !== undefined && (!known.isMade || at - known.at < sharedForMs)) return known.answer
      const made = { at, isMade: false, answer: render(make) }
      last.set(make, made)
      void made.answer.then(() => {
        made.isMade = true
      })
      return made.answer
    },
    forget() {
      last.clear()
    },
  }
}

type Read = (query: string, request: IncomingMessage) => Answer | Promise<Answer>

/** The readable resources by path. */
function readsOf(
  { commandPrefix, live, metrics, ready, records, status }: OpsServerOptions,
  shared: Shared,
): Map<string, Read> {
  const page = (refreshes: boolean): Make => {
    const headers = { ...pageHeaders }
    return () => ({
      status: 200,
      contentType: pageType,
      body: renderPage(status(), { refreshes, commandPrefix }),
      headers,
    })
  }
  // A reload makes a screen reader lose its place.
  const [refreshing, still] = [page(true), page(false)]
  const asJson: Make = () => ({ status: 200, contentType: json, body: `${redactedJson(status(), 2)}\n` })
  const exposition: Make = async () => {
    const { text: body, contentType } = await metrics()
    return { status: 200, contentType, body }
  }
  async function foundPage(asked: URLSearchParams): Promise<Answer> {
    const found = await findForPage(asked, records)
    const body = renderPage(status(), { refreshes: false, commandPrefix, found })
    return { status: 200, contentType: pageType, body, headers: { ...pageHeaders } }
  }
  const readPage: Read = (query) => {
    const asked = readRecordsQuery(query)
    if (asked !== undefined) return foundPage(asked)
    return shared.of(new URLSearchParams(query).get('refresh') === 'off' ? still : refreshing)
  }
  return new Map<string, Read>([
    ['/', readPage],
    ['/metrics', () => shared.of(exposition)],
    ['/livez', () => health(live())],
    ['/readyz', () => health(ready())],
    ['/status', () => shared.of(asJson)],
    ['/records', createRecordsAnswer(records)],
    ['/records/response', createResponseAnswer(records)],
  ])
}

/** Starts the server. @throws ConfigurationError when the port can't be had. */
export function startOpsServer(options: OpsServerOptions): Promise<OpsServer> {
  const shared = createShared(options)
  const reads = readsOf(options, shared)
  const command = createControl(options.control)
  const nothing = `There is nothing here. Try ${[...reads.keys()].join(', ')}.\n`

  async function answerTo(request: IncomingMessage): Promise<Answer> {
    const url = request.url ?? '/'
    const path = url.split('?', 1)[0] ?? '/'
    const commanded = await command(path, request)
    if (commanded !== undefined) {
      if (commanded.status === 200) shared.forget()
      return commanded
    }
    const read = reads.get(path)
    if (read === undefined) return { status: 404, contentType: plainText, body: nothing }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      const headers = { allow: 'GET, HEAD' }
      return { status: 405, contentType: plainText, body: 'Only GET and HEAD are answered here.\n', headers }
    }
    return read(url.slice(path.length + 1), request)
  }

  return listen({ ...options, answer: answerTo })
}
