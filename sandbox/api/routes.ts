// The platform's operations: finds that of a request, and makes its response. @see docs/platform-api.md "List webhooks"
import { invalidStatusCode, listParameter, tokenPath, webhooksPath } from '../../src/platform/wire.ts'
import { retryWorkflowCode, type WireError, type WirePage, type WireRetryResponse } from './wire.ts'
import type { ReceiverLedger } from '../delivery/ledger.ts'
import type { DeliveryEngine } from '../delivery/delivery.ts'
import type { Faults } from './faults.ts'
import { jsonFields } from '../fields.ts'
import { jsonResponse, jsonTextResponse, textResponse, type SandboxResponse, type SandboxRequest } from './http.ts'
import { isUuid, pageOf, parseListQuery, type BadParameter, type ListRequest } from './list.ts'
import type { Readings } from '../options.ts'
import type { Sequence } from '../records/hash.ts'
import { renderRecord } from '../records/render.ts'
import type { RowTexts } from '../records/row-texts.ts'
import type { Stats } from './stats.ts'
import type { Store, StoredRecord } from '../records/store.ts'
import type { Past } from '../records/past.ts'
import type { TokenEndpoint } from './tokens.ts'
import { localText, type Zone } from '../records/zone.ts'

export interface Paths {
  /** Path of the issuer, such as `/auth/realms/demo`. */
  issuer: string
  /** Path before `/webhooks`. */
  prefix: string
}

/** Operation of a request; `webhookId` is that of a retry. */
export function route(paths: Paths, method: string, path: string): Pick<SandboxRequest, 'operation' | 'webhookId'> {
  const other = { operation: 'other', webhookId: undefined } as const
  if (path === `${paths.issuer}${tokenPath}`) return { operation: 'token', webhookId: undefined }
  const list = `${paths.prefix}${webhooksPath}`
  if (path === list && method === 'GET') return { operation: 'list', webhookId: undefined }
  if (method !== 'PATCH' || !path.startsWith(`${list}/`)) return other
  const segment = path.slice(list.length + 1)
  return segment.includes('/') ? other : { operation: 'retry', webhookId: decode(segment) }
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** The parts of the platform. */
export interface SandboxPlatform {
  /** Generates ids of records. */
  ids: Sequence
  faults: Faults
  zone: Zone
  store: Store
  ledger: ReceiverLedger
  rows: RowTexts
  past: Past
  stats: Stats
  tokens: TokenEndpoint
  engine: DeliveryEngine
  readings: () => Readings
  /** The API's time, epoch milliseconds. */
  now: () => number
  /** The identity host's time, epoch milliseconds. */
  identityNow: () => number
}

const loginPage = '<!DOCTYPE html><html><head><title>Log in</title></head><body><form></form></body></html>'

/** The sandbox's own error codes, for errors that the specification does not name. */
const errorCode = {
  unauthorized: 'sandbox.unauthorized',
  invalidRequest: 'sandbox.invalid_request',
  notFound: 'sandbox.webhook_not_found',
} as const

/** Responds to a request unless a fault did. */
export async function respond(platform: SandboxPlatform, request: SandboxRequest): Promise<SandboxResponse> {
  switch (request.operation) {
    case 'token':
      return platform.tokens.respond(request)
    case 'list':
      return gate(platform, request) ?? list(platform, request)
    case 'retry':
      return gate(platform, request) ?? retry(platform, request)
    case 'other':
      // As a gateway does: without a `code`.
      return jsonResponse(404, { message: 'no route matches' })
  }
}

/** @see docs/platform-api.md "Errors" */
export function errorResponse(
  platform: SandboxPlatform,
  status: number,
  error: Omit<WireError, 'timestamp'>,
): SandboxResponse {
  const timestamp = localText(platform.zone.local(platform.now()), platform.readings().fraction)
  const { code, message, messageParameters } = error
  const body: WireError = { timestamp, code, message, messageParameters }
  return jsonResponse(status, platform.readings().unknownFields ? { ...body, traceId: '0af7651916cd43dd' } : body)
}

function gate(platform: SandboxPlatform, request: SandboxRequest): SandboxResponse | undefined {
  const { authorization } = request.headers
  if (platform.tokens.accepts(typeof authorization === 'string' ? authorization : undefined)) return undefined
  const { unauthorizedStatus, voidToken } = platform.readings()
  if (voidToken === 'page') return textResponse(200, loginPage, { 'content-type': 'text/html' })
  if (voidToken === 'redirect') return textResponse(302, '', { location: '/login' })
  const error = { code: errorCode.unauthorized, message: 'The access token is not valid.', messageParameters: [] }
  const refusal = errorResponse(platform, unauthorizedStatus, error)
  return { ...refusal, headers: { ...refusal.headers, 'www-authenticate': 'Bearer error="invalid_token"' } }
}

const emptyData = { array: '{"webhooks":[]}', absent: '{}', null: '{"webhooks":null}', proto3: '{}', 'no-content': '' }

function list(platform: SandboxPlatform, request: SandboxRequest): SandboxResponse {
  const readings = platform.readings()
  const query = parseListQuery(request.query, readings)
  if ('problem' in query) return invalidParameter(platform, query)
  const beyond = limitOf(platform, query)
  if (beyond !== undefined) return invalidParameter(platform, beyond)
  const { order } = readings
  const seed = order === 'unstable' ? platform.ids.below(2 ** 32) : 0
  const { records, page } = pageOf(platform.store, query, { order, seed, shown: platform.past.view() })
  const webhooks = records.map((record) => platform.rows.text(record, readings)).join()
  // Without `page` this is no WireList, as the reading requires.
  const metadata = readings.totals === 'absent' ? {} : { page: told(page, records.length, query, readings) }
  if (records.length === 0 && readings.emptyList === 'no-content') return textResponse(204, '')
  const isEmpty = records.length === 0 && metadata.page?.totalElements === 0
  const data = isEmpty ? emptyData[readings.emptyList] : `{"webhooks":[${webhooks}]}`
  const links = readings.unknownFields ? ',"links":{"next":null}' : ''
  const written = (_: string, value: unknown): unknown =>
    value === 0 && readings.emptyList === 'proto3' ? undefined : value
  const rest = `"connect":{},"metadata":${JSON.stringify(metadata, written)}${links}`
  return jsonTextResponse(200, `{"workflow":{},"data":${data},${rest}}`)
}

/** The limit that a list exceeds. Lists without bounds have none. */
function limitOf(platform: SandboxPlatform, { range }: ListRequest): BadParameter | undefined {
  const { maxAge, maxSpan = Infinity } = platform.readings().listLimits
  if (range.from === -Infinity) return undefined
  if (maxAge !== undefined && range.from < platform.zone.local(platform.now() - maxAge * 1000)) {
    return { parameter: listParameter.from, problem: `must not be older than ${maxAge / 3600} hours` }
  }
  return range.to - range.from > (maxSpan + 4) * 1e6
    ? { parameter: listParameter.to, problem: `must be within ${maxSpan / 3600} hours of From` }
    : undefined
}

function told(page: WirePage, rows: number, { askedSize }: ListRequest, { totals, pageSizeTold }: Readings): WirePage {
  const claims: Record<Readings['totals'], number> = {
    exact: page.totalElements,
    absent: page.totalElements,
    low: Math.floor(page.totalElements / 2),
    high: page.totalElements * 2 + 1,
    zero: 0,
    page: rows,
  }
  const totalElements = claims[totals]
  const size = pageSizeTold === 'asked' ? askedSize : page.size
  return { ...page, size, totalElements, totalPages: Math.ceil(totalElements / size) }
}

async function retry(platform: SandboxPlatform, request: SandboxRequest): Promise<SandboxResponse> {
  const { store, stats, engine, readings } = platform
  const id = request.webhookId ?? ''
  const problem = retryProblem(request, id)
  if (problem !== undefined) return invalidParameter(platform, problem)
  const record = store.find(id)
  if (record === undefined) {
    const error = { code: errorCode.notFound, message: `Webhook ${id} was not found.`, messageParameters: [id] }
    return errorResponse(platform, readings().errorStatus ?? 404, error)
  }
  if (record.status !== 'failed') return notFailed(platform, record)
  record.acceptedRetries++
  stats.counts.retries.accepted++
  await engine.retry(record)
  const body: WireRetryResponse = {
    workflow: { code: retryWorkflowCode },
    data: { webhook: renderRecord(record, readings()) },
    connect: {},
    metadata: {},
  }
  return jsonResponse(readings().acceptedStatus, readings().unknownFields ? { ...body, links: {} } : body)
}

function notFailed(platform: SandboxPlatform, { status }: StoredRecord): SandboxResponse {
  platform.stats.counts.retries.invalidStatus++
  const found = status.charAt(0).toUpperCase() + status.slice(1)
  return errorResponse(platform, platform.readings().errorStatus ?? 400, {
    code: invalidStatusCode,
    message: `Webhook status must be Failed to retry, but it is ${found}.`,
    messageParameters: ['Failed', found],
  })
}

/** The request must be exactly as specified. @see docs/platform-api.md "Retry a webhook" */
function retryProblem({ headers, body }: SandboxRequest, id: string): BadParameter | undefined {
  if (!isUuid(id)) return { parameter: 'webhookId', problem: 'must be a UUID' }
  if (!/^application\/json\s*(;|$)/i.test([headers['content-type'] ?? ''].flat().join())) {
    return { parameter: 'Content-Type', problem: 'must be application/json' }
  }
  const envelope = jsonFields(body)
  if (envelope === undefined) return { parameter: 'body', problem: 'must be a JSON object' }
  for (const part of ['workflow', 'data', 'connect', 'metadata'] as const) {
    if (typeof envelope[part] !== 'object' || envelope[part] === null)
      return { parameter: part, problem: 'must be an object' }
  }
  const { code } = envelope['workflow'] as { code?: unknown }
  return code === retryWorkflowCode
    ? undefined
    : { parameter: 'workflow.code', problem: `must be ${retryWorkflowCode}` }
}

function invalidParameter(platform: SandboxPlatform, { parameter, problem }: BadParameter): SandboxResponse {
  return errorResponse(platform, platform.readings().errorStatus ?? 400, {
    code: errorCode.invalidRequest,
    message: `${parameter} ${problem}.`,
    messageParameters: [parameter, problem],
  })
}
