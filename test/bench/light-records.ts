// Up to a million failed records as a platform shows them: no signatures checked, no faults, a few bytes a record.
import {
  invalidStatusCode,
  listParameter,
  retryWorkflowCode,
  type WireError,
  type WireList,
  type WireRetryAnswer,
  type WireWebhook,
} from '../../src/platform/wire.ts'
import { createFailedIndex } from './failed-index.ts'

export interface LightRecords {
  list(query: URLSearchParams): WireList
  /** Delivers at once. The status and the body of the answer. */
  retry(id: string): { status: number; body: WireRetryAnswer | WireError }
  failed(): number
  /** Ids of those that are failed, in the order of their events. */
  failedIds(): string[]
}

export interface LightRecordsOptions {
  records: number
  subscriptions: number
  /** Event time of the first record, and the time by which all events lie before; epoch ms. */
  from: number
  to: number
  now: () => number
  /** Whether a delivery is taken now. Default: always. */
  isReceiverUp?: () => boolean
}

const hex = (number: number, digits: number): string => number.toString(16).padStart(digits, '0')
const uuid = (kind: number, number: number): string => `${hex(kind, 8)}-0000-4000-8000-${hex(number, 12)}`
const numberOf = (id: string): number => Number.parseInt(id.slice(-12), 16)
const local = (ms: number): string => new Date(ms).toISOString().slice(0, -1)

/** Spread evenly; each was tried once, a second after its event. */
export function createLightRecords(options: LightRecordsOptions): LightRecords {
  const { from: begin, isReceiverUp = () => true, now, records, subscriptions, to: end } = options
  const stepMs = (end - begin) / records
  const index = createFailedIndex(records)
  /** Retried records: how often, and when last. */
  const retries = new Map<number, { count: number; at: number }>()

  function row(record: number): WireWebhook {
    const isFailed = index.isFailed(record)
    const eventAt = begin + record * stepMs
    const { count, at } = retries.get(record) ?? { count: 0, at: eventAt + 1000 }
    return {
      id: uuid(1, record),
      eventId: uuid(2, record),
      subscriptionId: uuid(3, record % subscriptions),
      status: isFailed ? 'failed' : 'successful',
      numberOfAttempts: 1 + count,
      requestPayload: {
        webhook: { type: 'outgoing-transfer-completed', module: 'payments' },
        data: { transfer: { id: uuid(4, record), amount: { value: '12.50', currency: 'EUR' }, status: 'completed' } },
      },
      eventDateTime: local(eventAt),
      lastAttemptDateTime: local(at),
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

  return {
    list(query) {
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
    },
    retry(id) {
      const record = numberOf(id)
      if (!index.isFailed(record)) {
        const messageParameters = ['failed', 'successful']
        return {
          status: 409,
          body: { timestamp: '', code: invalidStatusCode, message: 'not failed', messageParameters },
        }
      }
      retries.set(record, { count: (retries.get(record)?.count ?? 0) + 1, at: now() })
      if (isReceiverUp()) index.recover(record)
      const data = { webhook: row(record) }
      return { status: 200, body: { workflow: { code: retryWorkflowCode }, data, connect: {}, metadata: {} } }
    },
    failed: () => index.failed(),
    failedIds: () => {
      const { found } = index.page({ from: 0, to: records, status: 'failed', offset: 0, limit: records })
      return found.map((record) => uuid(1, record))
    },
  }
}
