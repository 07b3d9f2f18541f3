// GET /records: the records that match a query, as one JSON document or as lines, streamed as fast as they are read. @see docs/status.md "Records"
import { readCursor, writeCursor } from '../records/cursor.ts'
import { BadRequest, onlyThese, readFilter, textOf, uuidOf, type Fields } from '../records/filter.ts'
import type { RecordsReader, RecordsPage } from '../records/records.ts'
import type { ExplainedRecord } from '../records/shown-record.ts'
import { escapeInvisible, redactedJson } from '../runtime/redact.ts'
import type { Access } from './access.ts'
import { json, jsonResponse, type OpsResponse } from './listen.ts'
import { standbyText, type SubscriptionNames } from './words.ts'

export interface RecordsEndpointOptions {
  records: RecordsReader
  /** Querying the platform requires the same access as a command. */
  access: Access
  instance: string
  subscriptions: SubscriptionNames
  /** The platform's time, epoch ms. */
  now: () => number
  /** Undefined if this instance leads; otherwise the known leader. */
  standsBy: () => { leader: string | undefined } | undefined
}

const filters = ['event', 'webhook', 'since', 'until', 'type', 'subscription', 'response', 'decision', 'group'] as const
const parameters = [...filters, 'limit', 'cursor', 'format', 'source'] as const
const formats = ['json', 'ndjson'] as const
const sources = ['auto', 'memory', 'platform'] as const
const maxPage = 10_000
const defaultPage = 100
/** Maximum length of a receiver's shown response. */
const maxWords = 500

/** A response with the reason why nothing was done. */
export function refuse(status: number, error: string, more: object = {}): OpsResponse {
  return jsonResponse({ error, ...more }, status)
}

export function refuseAccess({ error, status }: { status: 401 | 403; error: string }): OpsResponse {
  return { ...refuse(status, error), ...(status === 401 && { headers: { 'www-authenticate': 'Bearer' } }) }
}

/** A standby holds no records and retries none. */
export function standbyResponse({ leader }: { leader: string | undefined }): OpsResponse {
  return refuse(409, standbyText(leader), { leader: leader ?? null })
}

/** A daemon that stops sends no retry or probe, and forgets a pause. */
export function stoppingResponse(): OpsResponse {
  return refuse(503, 'The daemon stops: send the request again once one runs.')
}

/** @throws BadRequest for a field that is not among these */
export function fieldsOf(query: string, allowed: readonly string[]): Fields {
  const fields: Record<string, string[]> = {}
  const params = new URLSearchParams(query)
  onlyThese(Object.fromEntries(params), allowed)
  for (const [name, value] of params) (fields[name] ??= []).push(value)
  return fields
}

/** @throws BadRequest */
export function limitOf(fields: Fields, max: number): number {
  const text = textOf(fields, 'limit') ?? String(defaultPage)
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= max) return limit
  throw new BadRequest(`limit: a number from 1 to ${max}.`)
}

/** Turns a BadRequest into a 400. */
export function refusing<A extends unknown[]>(
  respond: (...asked: A) => Promise<OpsResponse>,
): (...asked: A) => Promise<OpsResponse> {
  return async (...asked) => {
    try {
      return await respond(...asked)
    } catch (error) {
      if (error instanceof BadRequest) return refuse(400, error.message)
      throw error
    }
  }
}

function oneOf<T extends string>(fields: Fields, name: string, allowed: readonly [T, ...T[]]): T {
  const text = textOf(fields, name) ?? allowed[0]
  const found = allowed.find((one) => one === text)
  if (found !== undefined) return found
  throw new BadRequest(`${name}: one of ${allowed.join(', ')}.`)
}

/** The part of a request that identifies the caller. */
export type Asker = Parameters<Access>[0]

/** The texts are redacted already: redacting half a million rows twice is slow. */
const ofBatch = (batch: readonly ExplainedRecord[]): string[] =>
  batch.map((record) => escapeInvisible(JSON.stringify(record)))

/**
 * One object; or lines: a head, the records, and a last line with the result, without which the list was truncated. `next`: the
 * cursor of the next page.
 */
async function* piecesOf(
  page: RecordsPage,
  fields: object,
  next: string | null,
  isLines: boolean,
): AsyncGenerator<string> {
  const [between, head] = [isLines ? '\n' : ',\n', redactedJson(fields)]
  yield isLines ? head : `${head.slice(0, -1)},"records":[`
  let count = 0
  for await (const batch of page.batches) {
    if (batch.length > 0) yield `${count > 0 ? between : '\n'}${ofBatch(batch).join(between)}`
    count += batch.length
  }
  const { error = null, incomplete = null, notFound } = page
  const end = redactedJson({ ...(isLines && { end: true }), count, notFound, incomplete, next, error })
  yield isLines ? `\n${end}\n` : `],${end.slice(1)}\n`
}

export function createRecordsEndpoint(
  options: RecordsEndpointOptions,
): (query: string, request: Asker) => Promise<OpsResponse> {
  const { access, instance, records, standsBy, subscriptions } = options

  /** Undefined if the caller may query the platform. */
  function refusalOf(request: Asker): OpsResponse | undefined {
    const admitted = access(request)
    if (!('error' in admitted)) return undefined
    const error = `This asks the platform. ${admitted.error} With source=memory it needs no token.`
    return refuseAccess({ ...admitted, error })
  }

  async function respond(query: string, request: Asker): Promise<OpsResponse> {
    const fields = fieldsOf(query, parameters)
    const [format, limit] = [oneOf(fields, 'format', formats), limitOf(fields, maxPage)]
    const source = oneOf(fields, 'source', sources)
    const meant = Object.fromEntries(Object.entries(fields).filter(([name]) => filters.includes(name as never)))
    const text = textOf(fields, 'cursor')
    const cursor = text === undefined ? undefined : readCursor(text, meant)
    const asOf = cursor?.asOf ?? Math.round(options.now())
    const filter = readFilter(meant, { now: asOf, subscriptions })
    const standby = standsBy()
    if (standby !== undefined) return standbyResponse(standby)
    const { eventId, from, webhookIds } = filter
    if (source === 'platform' && filter.group !== undefined) throw new BadRequest('source: group is in memory.')
    if (source === 'platform' && eventId === undefined && webhookIds === undefined && from === undefined)
      throw new BadRequest(
        'source: the platform is asked for an event, for webhooks, or since a time; give one of them.',
      )
    const asksPlatform = source === 'platform' || (source === 'auto' && records.needsPlatform(filter))
    const refused = asksPlatform ? refusalOf(request) : undefined
    if (refused !== undefined) return refused
    const wish = { filter, limit, after: cursor?.after }
    let page = await (asksPlatform ? records.fromPlatform(wish) : records.fromMemory(wish))
    const { error } = page
    if (error !== undefined && page.next === undefined) {
      // The records in memory are needed most while the platform cannot be asked.
      if (source === 'auto') page = await records.fromMemory(wish, error)
      if (source !== 'auto' || page.isEmpty) return refuse(503, error)
    }
    const head = { schemaVersion: 1, instance, now: new Date(options.now()), source: page.source }
    const next = page.next === undefined ? null : writeCursor(page.next, asOf, meant)
    const isLines = format === 'ndjson'
    const contentType = isLines ? 'application/x-ndjson; charset=utf-8' : json
    return { status: 200, contentType, body: piecesOf(page, head, next, isLines) }
  }

  return refusing(respond)
}

/**
 * GET /records/response: the receiver's responses to an event. They may be confidential, and require the same access as a
 * command.
 */
export function createResponseEndpoint({
  access,
  instance,
  records,
  standsBy,
}: RecordsEndpointOptions): (query: string, request: Asker) => Promise<OpsResponse> {
  return refusing(async (query, request) => {
    const admitted = access(request)
    if ('error' in admitted) return refuseAccess(admitted)
    const standby = standsBy()
    if (standby !== undefined) return standbyResponse(standby)
    const eventId = uuidOf(textOf(fieldsOf(query, ['event']), 'event') ?? '', 'event')
    const responses = await records.receiverResponses(eventId)
    if ('error' in responses) return refuse(503, responses.error)
    const shown = responses.map(({ id, error, body }) => ({
      webhookId: id,
      message: error,
      body: body?.slice(0, maxWords) ?? null,
    }))
    return jsonResponse({ schemaVersion: 1, instance, responses: shown })
  })
}
