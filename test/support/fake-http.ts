// The platform in memory behind its HTTP: a transport that answers in the platform's JSON, and gives the platform's time.
import type { HttpRequest, HttpResponse, Transport } from '../../src/platform/http/http.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import { invalidStatusCode, listParameter, webhookStatuses, type WireWebhook } from '../../src/platform/wire.ts'
import type { FakePlatform } from './fake-platform.ts'

export interface FakeHttp {
  transport: Transport
  /** Requests that were answered, by operation. */
  calls: Record<'token' | 'list' | 'retry', number>
}

export interface FakeHttpOptions {
  platform: FakePlatform
  /** Monotonic clock of the host, ms. */
  monotonic: () => number
  /** The server's clock in epoch ms, for `Date`. */
  serverNow: () => number
  /** Another answer than the platform's, for what the test wants to go wrong. */
  instead?: (request: HttpRequest) => { status: number; body?: unknown } | undefined
}

function localText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 23)
}

function wireOf(record: WebhookRecord): WireWebhook {
  const { id, eventId, subscriptionId, attempts, eventType, module, responseStatusCode } = record
  return {
    id,
    eventId,
    subscriptionId,
    status: webhookStatuses.find((status) => status === record.status) ?? 'processing',
    numberOfAttempts: attempts,
    requestPayload: { webhook: { type: eventType, module } },
    eventDateTime: localText(record.eventLocal),
    lastAttemptDateTime: record.lastAttemptLocal === null ? null : localText(record.lastAttemptLocal),
    responseStatusCode,
    responsePayload: null,
    responseHeaders: null,
    lastAttemptErrorMessage: null,
  }
}

function secondOf(text: string | null): number | undefined {
  return text === null ? undefined : Date.parse(`${text}Z`) / 1000
}

export function createFakeHttp({ platform, monotonic, serverNow, instead }: FakeHttpOptions): FakeHttp {
  const calls = { token: 0, list: 0, retry: 0 }
  const { signal: never } = new AbortController()

  async function list(url: URL, signal: AbortSignal): Promise<unknown> {
    const asked = (name: keyof typeof listParameter): string | null => url.searchParams.get(listParameter[name])
    const [from, to] = [secondOf(asked('from')), secondOf(asked('to'))]
    const status = webhookStatuses.find((known) => known === asked('status'))
    const [page, size] = [Number(asked('pageNumber') ?? 0), Number(asked('pageSize') ?? 20)]
    const query = { page, size, ...(status && { status }), ...(from && { from }), ...(to && { to }) }
    const { records, total = 0 } = await platform.list(query, signal)
    const metadata = { page: { size, number: page, totalElements: total, totalPages: Math.ceil(total / size) } }
    return { workflow: {}, data: { webhooks: records.map(wireOf) }, connect: {}, metadata }
  }

  async function retry(url: URL, signal: AbortSignal): Promise<{ status: number; body: unknown }> {
    const answer = await platform.retry(url.pathname.split('/').at(-1) ?? '', signal)
    if (answer.result === 'accepted' && answer.record !== undefined) {
      const webhook = wireOf(answer.record)
      return { status: 200, body: { workflow: { code: 'retry' }, data: { webhook }, connect: {}, metadata: {} } }
    }
    if (answer.result !== 'already-resolved') return { status: 404, body: {} }
    return { status: 400, body: { code: invalidStatusCode, message: '', messageParameters: ['Failed', answer.found] } }
  }

  async function answer(request: HttpRequest): Promise<{ status: number; body?: unknown }> {
    const { method, url, signal = never } = request
    const operation = method === 'POST' ? 'token' : method === 'GET' ? 'list' : 'retry'
    calls[operation] += 1
    const other = instead?.(request)
    if (other !== undefined) return other
    if (operation === 'list') return { status: 200, body: await list(url, signal) }
    if (operation === 'retry') return retry(url, signal)
    const body = { access_token: `token-${calls.token}`, token_type: 'Bearer', expires_in: 3600, scope: 'api' }
    return { status: 200, body }
  }

  return {
    calls,
    async transport(request): Promise<HttpResponse> {
      const sentAt = monotonic()
      const { status, body } = await answer(request)
      const headers = { date: new Date(serverNow()).toUTCString(), 'content-type': 'application/json' }
      return { status, headers, body: JSON.stringify(body ?? {}), sentAt, receivedAt: monotonic() }
    },
  }
}
