// The ops server: metrics for Prometheus, health for the orchestrator, status for people, commands for operators.
import type { IncomingMessage } from 'node:http'
import { expositionType } from '../observe/registry.ts'
import type { Clock } from '../runtime/clock.ts'
import { createControl, type ControlOptions } from './control.ts'
import { bugResponse, jsonResponse, listen, plainText, type OpsResponse, type Listener } from './listen.ts'
import { renderPage, type PageView } from './page.ts'
import { pageHeaders } from './page-styles.ts'
import { createRecordsEndpoint, createResponseEndpoint, type RecordsEndpointOptions } from './records-endpoint.ts'
import { findForPage, readRecordsQuery } from './records-page.ts'
import { createTurns, finishInTurns, type Steps } from '../runtime/steps.ts'
import type { StatusDocument } from './status-document.ts'

export interface OpsServerOptions {
  host: string
  /** 0: any free port. */
  port: number
  /** All metrics as text. */
  metrics: () => Promise<string>
  /** Reasons why the process is not alive, or not ready; empty if it is. */
  live: () => readonly string[]
  ready: () => readonly string[]
  status: () => Steps<StatusDocument>
  records: RecordsEndpointOptions
  commandPrefix: string
  control: ControlOptions
  /** Gets an error that prevented a response, which is a bug. The client gets 500. */
  onError: (error: unknown) => void
  clock: Clock
}

function health(problems: readonly string[]): OpsResponse {
  if (problems.length === 0) return { status: 200, contentType: plainText, body: 'ok\n' }
  return { status: 503, contentType: plainText, body: `${problems.join('\n')}\n` }
}

/** Lifetime of a cached response, in ms. */
const sharedForMs = 1000

type Make = () => OpsResponse | Promise<OpsResponse>

interface Shared {
  of(make: Make): Promise<OpsResponse>
  /** Drops the cached responses: a command has changed the state. */
  forget(): void
}

/** Caches each response for a second: many clients cost one rendering, and one copy in memory. */
function createShared({ clock, onError }: OpsServerOptions): Shared {
  const last = new Map<Make, { until: number; response: Promise<OpsResponse> }>()

  async function render(make: Make): Promise<OpsResponse> {
    try {
      const response = await make()
      const { body } = response
      return typeof body === 'string' ? { ...response, body: Buffer.from(body) } : response
    } catch (error) {
      // Reported once, not for each client.
      onError(error)
      return bugResponse
    }
  }

  return {
    of(make) {
      const at = clock.monotonic()
      const known = last.get(make)
      if (known !== undefined && at < known.until) return known.response
      // A rendering may take longer.
      const made = { until: Infinity, response: render(make) }
      last.set(make, made)
      void made.response.then(() => {
        made.until = at + sharedForMs
      })
      return made.response
    },
    forget() {
      last.clear()
    },
  }
}

type Read = (query: string, request: IncomingMessage) => OpsResponse | Promise<OpsResponse>

/** The readable resources by path. */
function readsOf(
  { clock, commandPrefix, live, metrics, ready, records, status }: OpsServerOptions,
  shared: Shared,
): Map<string, Read> {
  const turn = createTurns(clock)
  const statusNow = (): Promise<StatusDocument> => finishInTurns(status(), turn)
  const pageOf = async (view: Omit<PageView, 'commandPrefix'>): Promise<OpsResponse> => ({
    status: 200,
    contentType: 'text/html; charset=utf-8',
    body: renderPage(await statusNow(), { ...view, commandPrefix }),
    headers: pageHeaders,
  })
  // A reload makes a screen reader lose its place.
  const refreshing: Make = () => pageOf({ refreshes: true })
  const still: Make = () => pageOf({ refreshes: false })
  const asJson: Make = async () => jsonResponse(await statusNow(), 200, 2)
  const exposition: Make = async () => ({ status: 200, contentType: expositionType, body: await metrics() })
  const readPage: Read = async (query) => {
    const asked = readRecordsQuery(query)
    if (asked !== undefined) return pageOf({ refreshes: false, found: await findForPage(asked, records) })
    return shared.of(new URLSearchParams(query).get('refresh') === 'off' ? still : refreshing)
  }
  return new Map<string, Read>([
    ['/', readPage],
    ['/metrics', () => shared.of(exposition)],
    ['/livez', () => health(live())],
    ['/readyz', () => health(ready())],
    ['/status', () => shared.of(asJson)],
    ['/records', createRecordsEndpoint(records)],
    ['/records/response', createResponseEndpoint(records)],
  ])
}

/** Starts the server. @throws like `listen` */
export function startOpsServer(options: OpsServerOptions): Promise<Listener> {
  const shared = createShared(options)
  const reads = readsOf(options, shared)
  const command = createControl(options.control)
  const nothing = `There is nothing here. Try ${[...reads.keys()].join(', ')}.\n`

  async function respondTo(request: IncomingMessage): Promise<OpsResponse> {
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
      return { status: 405, contentType: plainText, body: 'Only GET and HEAD are supported here.\n', headers }
    }
    return read(url.slice(path.length + 1), request)
  }

  return listen({ ...options, respond: respondTo })
}
