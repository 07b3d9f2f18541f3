// A platform for a million failed records: no signatures checked, no faults, a few bytes a record. Forked; speaks over IPC.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock } from '../../src/runtime/clock.ts'
import {
  invalidStatusCode,
  listParameter,
  tokenPath,
  webhooksPath,
  type WireList,
  type WireWebhook,
} from '../../src/platform/wire.ts'
import { createFailedIndex } from './failed-index.ts'

export interface LightPlatformCounts {
  failed: number
  listCalls: number
  retryCalls: number
}

const [, , recordsText = '0', hoursText = '70'] = process.argv
const records = Number(recordsText)
const hour = 3_600_000
const subscriptions = 20
const end = systemClock.now() - hour
const begin = end - Number(hoursText) * hour
const stepMs = (end - begin) / records

const index = createFailedIndex(records)
const counts = { listCalls: 0, retryCalls: 0 }

const hex = (number: number, digits: number): string => number.toString(16).padStart(digits, '0')
const uuid = (kind: number, number: number): string => `${hex(kind, 8)}-0000-4000-8000-${hex(number, 12)}`
const numberOf = (id: string): number => Number.parseInt(id.slice(-12), 16)
const eventAt = (record: number): number => begin + record * stepMs
const local = (ms: number): string => new Date(ms).toISOString().slice(0, -1)

/** Retried records, and when; the others were tried once, a second after their event. */
const retriedAt = new Map<number, number>()

function row(record: number): WireWebhook {
  const isFailed = index.isFailed(record)
  return {
    id: uuid(1, record),
    eventId: uuid(2, record),
    subscriptionId: uuid(3, record % subscriptions),
    status: isFailed ? 'failed' : 'successful',
    numberOfAttempts: isFailed ? 1 : 2,
    requestPayload: {
      webhook: { type: 'outgoing-transfer-completed', module: 'payments' },
      data: { transfer: { id: uuid(4, record), amount: { value: '12.50', currency: 'EUR' }, status: 'completed' } },
    },
    eventDateTime: local(eventAt(record)),
    lastAttemptDateTime: local(retriedAt.get(record) ?? eventAt(record) + 1000),
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
  counts.listCalls += 1
  const size = Number(query.get(listParameter.pageSize) ?? 20)
  const number = Number(query.get(listParameter.pageNumber) ?? 0)
  const eventId = query.get(listParameter.eventId)
  const from = eventId === null ? firstFrom(query.get(listParameter.from), 0) : numberOf(eventId)
  const to = eventId === null ? firstFrom(query.get(listParameter.to), records, 1000) : from + 1
  const status = query.get(listParameter.status)
  const { found, total } = index.page({ from, to, status, offset: number * size, limit: size })
  return {
    workflow: {},
    data: { webhooks: found.map(row) },
    connect: {},
    metadata: { page: { size, number, totalElements: total, totalPages: Math.ceil(total / size) } },
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
  response.end(text)
}

function retry(id: string, response: ServerResponse): void {
  counts.retryCalls += 1
  const record = numberOf(id)
  if (!index.isFailed(record)) {
    const messageParameters = ['failed', 'successful']
    send(response, 409, { timestamp: '', code: invalidStatusCode, message: 'not failed', messageParameters })
    return
  }
  index.recover(record)
  retriedAt.set(record, systemClock.now())
  send(response, 200, { workflow: { code: 'retry' }, data: { webhook: row(record) }, connect: {}, metadata: {} })
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  request.resume()
  const url = new URL(request.url ?? '/', 'http://localhost')
  if (url.pathname.endsWith(tokenPath)) {
    send(response, 200, { access_token: 'token', token_type: 'Bearer', expires_in: 3600, scope: 'api' })
  } else if (url.pathname.endsWith(webhooksPath)) send(response, 200, list(url.searchParams))
  else retry(url.pathname.slice(-36), response)
}

const server = createServer({ keepAliveTimeout: 60_000 }, answer).listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
process.on('message', () => {
  process.send?.({ failed: index.failed(), ...counts } satisfies LightPlatformCounts)
})
process.on('disconnect', () => {
  process.exit()
})
