// The record filter of a request: parses and checks its fields, and matches records. Pure functions.
import { parseDuration } from '../config/duration.ts'
import { isUuid } from '../runtime/uuid.ts'
import { decisions } from '../reconcile/decide.ts'
import type { FailedRecord } from '../reconcile/failed-record.ts'
import { parseInstant } from '../runtime/instant.ts'

/** An invalid request: the message names the field and the allowed values. Nothing was done. */
export class BadRequest extends Error {}

/** The values of each field; a single value is a list of one. */
export type Fields = Readonly<Record<string, readonly string[]>>

/** Configured names by subscription id. */
type Names = Readonly<Record<string, string>>

/** Each given part narrows; within a part any value matches. Times in epoch ms. */
export interface RecordFilter {
  eventId?: string
  /** Lower case. */
  webhookIds?: readonly string[]
  /** Events from `from` until before `until`. */
  from?: number
  until?: number
  type?: readonly string[]
  subscription?: readonly string[]
  /** `503`, `4xx`, `none`. */
  response?: readonly string[]
  decision?: readonly string[]
  /** Deliveries with 2xx that the ledger lacks; default: failed records. */
  group?: 'unprocessed'
}

export interface ReadContext {
  /** Reference of durations, epoch ms. */
  now: number
  subscriptions: Names
}

/** Maximum number of values of a list in a request. */
const maxValues = 1000

/** @throws BadRequest */
export function textOf(fields: Fields, name: string): string | undefined {
  const [value, ...others] = fields[name] ?? []
  if (others.length > 0) throw new BadRequest(`${name}: one value, not ${others.length + 1}.`)
  return value
}

/** @throws BadRequest for a field that is not allowed */
export function onlyThese(fields: object, allowed: readonly string[]): void {
  const other = Object.keys(fields).find((name) => !allowed.includes(name))
  if (other === undefined) return
  const known = allowed.join(', ') || 'none'
  throw new BadRequest(`There is no field ${JSON.stringify(other.slice(0, 40))}: known are ${known}.`)
}

/** @throws BadRequest for any other value, and for a field that is not allowed */
export function objectOf(value: unknown, name: string, allowed: readonly string[]): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new BadRequest(`${name}: a JSON object.`)
  onlyThese(value, allowed)
  return { ...value }
}

/** The fields of a JSON body. @throws BadRequest */
export function bodyFields(body: string, allowed: readonly string[]): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    throw new BadRequest('Invalid JSON body: send an object.')
  }
  return objectOf(value, 'The body', allowed)
}

/** @throws BadRequest */
export function uuidOf(text: string, name: string): string {
  if (isUuid(text)) return text.toLowerCase()
  throw new BadRequest(`${name}: a UUID such as 123e4567-e89b-12d3-a456-426614174000.`)
}

/** The id of a subscription, given by id or name. @throws BadRequest */
export function subscriptionIdOf(text: string, names: Names): string {
  const [named] = Object.entries(names).find(([, name]) => name === text) ?? []
  if (named !== undefined) return named
  if (isUuid(text)) return text.toLowerCase()
  const known = Object.values(names).slice(0, 20).join(', ')
  const which = `an id (a whole UUID, as explain shows it), or a name of subscriptions in the configuration${known && `: ${known}`}`
  throw new BadRequest(`subscription: ${which}.`)
}

/** @throws BadRequest */
function momentOf(text: string, name: string, now: number): number {
  const ago = parseDuration(text)
  const at = ago === undefined ? parseInstant(text) : now - ago
  if (at !== undefined && Number.isFinite(new Date(at).getTime())) return at
  throw new BadRequest(`${name}: a moment with its zone such as 2026-01-15T12:00:00Z, or how long ago, such as 6h.`)
}

/** @throws BadRequest */
function responseOf(text: string): string {
  if (/^(?:none|[1-9](?:xx|\d\d))$/.test(text)) return text
  throw new BadRequest('response: a status code such as 503, a class such as 4xx, or none.')
}

/** @throws BadRequest */
function decisionOf(text: string): string {
  if ((decisions as readonly string[]).includes(text)) return text
  throw new BadRequest(`decision: one of ${decisions.join(', ')}.`)
}

/** @throws BadRequest */
function typeOf(text: string): string {
  if (text !== '' && text.length <= 200) return text
  throw new BadRequest('type: an event type of 1 to 200 characters.')
}

function countProblem(name: string, count: number): string {
  const problem = `${name}: 1 to ${maxValues} ${name === 'webhook' ? 'ids' : 'values'}, not ${count}.`
  return name === 'webhook' && count > 0 ? `${problem} To select more, give a time: since, or --since TIME.` : problem
}

/** The filter of these fields; ignores others. @throws BadRequest */
export function readFilter(fields: Fields, { now, subscriptions }: ReadContext): RecordFilter {
  const filter: RecordFilter = {}
  function list(name: string, read: (text: string) => string): string[] | undefined {
    const texts = fields[name]
    if (texts === undefined) return undefined
    if (texts.length === 0 || texts.length > maxValues) throw new BadRequest(countProblem(name, texts.length))
    return [...new Set(texts.map(read))]
  }
  const [event, since, until] = [textOf(fields, 'event'), textOf(fields, 'since'), textOf(fields, 'until')]
  const group = textOf(fields, 'group')
  if (group !== undefined && group !== 'unprocessed') throw new BadRequest('group: unprocessed, or nothing.')
  if (group !== undefined && fields['decision'] !== undefined) throw new BadRequest('decision: not with group.')
  if (group !== undefined) filter.group = group
  if (event !== undefined) filter.eventId = uuidOf(event, 'event')
  if (since !== undefined) filter.from = momentOf(since, 'since', now)
  if (until !== undefined) filter.until = momentOf(until, 'until', now)
  if ((filter.from ?? -Infinity) >= (filter.until ?? Infinity)) throw new BadRequest('since: a moment before until.')
  const lists = {
    webhookIds: list('webhook', (text) => uuidOf(text, 'webhook')),
    type: list('type', typeOf),
    subscription: list('subscription', (text) => subscriptionIdOf(text, subscriptions)),
    response: list('response', responseOf),
    decision: list('decision', decisionOf),
  }
  return { ...filter, ...Object.fromEntries(Object.entries(lists).filter(([, values]) => values !== undefined)) }
}

export type Filtered = Pick<
  FailedRecord,
  'id' | 'eventId' | 'subscriptionId' | 'eventType' | 'responseStatusCode' | 'eventAt'
>

/** True for a matching record, apart from its decision. Ids come last, because unpacking them costs most. */
export function matcherOf({
  eventId,
  from = -Infinity,
  response,
  subscription,
  type,
  until = Infinity,
  webhookIds,
}: RecordFilter): (record: Filtered) => boolean {
  const has = (wanted: readonly string[] | undefined, value: string): boolean => wanted?.includes(value) ?? true
  const ids = webhookIds && new Set(webhookIds)
  const responded = (code: number | null): boolean =>
    response === undefined ||
    (code === null
      ? response.includes('none')
      : response.includes(String(code)) || response.includes(`${Math.floor(code / 100)}xx`))
  return (record) =>
    record.eventAt >= from &&
    record.eventAt < until &&
    has(type, record.eventType) &&
    has(subscription, record.subscriptionId) &&
    responded(record.responseStatusCode) &&
    (eventId === undefined || record.eventId.toLowerCase() === eventId) &&
    (ids === undefined || ids.has(record.id.toLowerCase()))
}
