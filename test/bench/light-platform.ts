// A platform for a million failed records over HTTP: no signatures checked, no faults, a few bytes a record. Forked; speaks over IPC.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock } from '../../src/runtime/clock.ts'
import {
  invalidStatusCode,
  listParameter,
  retryWorkflowCode,
  tokenPath,
  webhooksPath,
  type WireError,
  type WireList,
  type WireRetryAnswer,
  type WireWebhook,
} from '../../src/platform/wire.ts'

export interface LightPlatformCounts {
  failed: number
  listCalls: number
  retryCalls: number
}

const records = Number(process.argv[2])
const hour = 3_600_000
const end = systemClock.now() - hour
/** Spread evenly over 70 hours; each was tried once, a second after its event. */
const begin = end - 70 * hour
const stepMs = (end - begin) / records
const failed = new Uint8Array(records).fill(1)
/** When those were retried that are failed no more. */
const retriedAt = new Map<number, number>()
const counts = { failed: records, listCalls: 0, retryCalls: 0 }

const hex = (number: number, digits: number): string => number.toString(16).padStart(digits, '0')
const uuid = (kind: number, number: number): string => `${hex(kind, 8)}-0000-4000-8000-${hex(number, 12)}`
const numberOf = (id: string): number => Number.parseInt(id.slice(-12), 16)
const local = (ms: number): string => new Date(ms).toISOString().slice(0, -1)

function row(record: number): WireWebhook {
  const eventAt = begin + record * stepMs
  const at = retriedAt.get(record)
  const isFailed = at === undefined
  return {
    id: uuid(1, record),
    eventId: uuid(2, record),
    subscriptionId: uuid(3, record % 20),
    status: isFailed ? 'failed' : 'successful',
    numberOfAttempts: isFailed ? 1 : 2,
    requestPayload: {
      webhook: { type: 'outgoing-transfer-completed', module: 'payments' },
      data: { transfer: { id: uuid(4, record), amount: { value: '12.50', currency: 'EUR' }, status: 'completed' } },
    },
    eventDateTime: local(eventAt),
    lastAttemptDateTime: local(at ?? eventAt + 1000),
    responseStatusCode: isFailed ? 503 : 200,
    responsePayload: isFailed ? 'Service Unavailable' : '',
    responseHeaders: { 'content-type': ['text/plain'] },
    lastAttemptErrorMessage: null,
  }
}

/** The first record whose event is not before a local second; `fallback` without one. */
function firstFrom(second: string | null, fallback: number, plusMs = 0): number {
  if (second === null) return fallback
  const at = Date.parse(`${second}Z`) + plusMs
  return Math.min(records, Math.max(0, Math.ceil((at - begin) / stepMs)))
}

function list(query: URLSearchParams): WireList {
  const size = Number(query.get(listParameter.pageSize) ?? 20)
  const number = Number(query.get(listParameter.pageNumber) ?? 0)
  const eventId = query.get(listParameter.eventId)
  const from = eventId === null ? firstFrom(query.get(listParameter.from), 0) : numberOf(eventId)
  const to = eventId === null ? firstFrom(query.get(listParameter.to), records, 1000) : from + 1
  const status = query.get(listParameter.status)
  const wanted = { failed: 1, successful: 0 }[status ?? '']
  const found: WireWebhook[] = []
  let total = 0
  for (let record = from; record < to; record += 1) {
    if (status !== null && failed[record] !== wanted) continue
    if (total >= number * size && found.length < size) found.push(row(record))
    total += 1
  }
  return {
    workflow: {},
    data: { webhooks: found },
    connect: {},
    metadata: { page: { size, number, totalElements: total, totalPages: Math.ceil(total / size) } },
  }
}

/** Delivers at once. */
function retry(id: string): { status: number; body: WireRetryAnswer | WireError } {
  const record = numberOf(id)
  if (failed[record] !== 1) {
    const messageParameters = ['failed', 'successful']
    return { status: 409, body: { timestamp: '', code: invalidStatusCode, message: 'not failed', messageParameters } }
  }
  failed[record] = 0
  retriedAt.set(record, systemClock.now())
  counts.failed -= 1
  const data = { webhook: row(record) }
  return { status: 200, body: { workflow: { code: retryWorkflowCode }, data, connect: {}, metadata: {} } }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
  response.end(text)
}

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  request.resume()
  const url = new URL(request.url ?? '/', 'http://localhost')
  if (url.pathname.endsWith(tokenPath)) {
    send(response, 200, { access_token: 'token', token_type: 'Bearer', expires_in: 3600, scope: 'api' })
  } else if (url.pathname.endsWith(webhooksPath)) {
    counts.listCalls += 1
    send(response, 200, list(url.searchParams))
  } else {
    counts.retryCalls += 1
    const { body, status } = retry(url.pathname.slice(-36))
    send(response, status, body)
  }
}).listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
process.on('message', () => {
  process.send?.(counts satisfies LightPlatformCounts)
})
process.on('disconnect', () => {
  process.exit()
})
