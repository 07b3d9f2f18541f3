// Invented webhook records: many by rule, or one with given fields.
import { z } from 'zod'
import { instant, milliseconds, parseInput, share, someNames } from '../fields.ts'
import { createSequence, type Sequence } from './hash.ts'
import { knownEventTypes } from './payload.ts'
import { noResult, resultSchema, type AttemptResult, type StoredRecord } from './store.ts'
import type { Zone } from './zone.ts'

const range = z.strictObject({ min: z.number().min(0), max: z.number().min(0) })
const attempts = z.number().int().min(0)

/** Invented records. */
export const seedSchema = z.strictObject({
  count: z.number().int().min(0).max(1_000_000),
  /** Event times in [from, to). */
  from: instant,
  to: instant,
  /** Share of failed records, spread evenly. */
  failed: share.default(1),
  /** Share of processing records; the rest is successful. */
  processing: share.default(0),
  /** Ids, or their number. */
  subscriptions: z.union([z.number().int().min(1).max(20_000), someNames]).default(3),
  /** Default: the four of the specification. Any other name is an unknown event type. */
  eventTypes: someNames.optional(),
  /** `numberOfAttempts`. */
  attempts: z.union([attempts, range]).default({ min: 1, max: 5 }),
  /** Milliseconds from the event to the last attempt (never after now). */
  lastAttemptAfterMs: z.union([milliseconds, range]).default({ min: 500, max: 30 * 60_000 }),
  /** `even`: equal distances. */
  spread: z.enum(['even', 'random']).default('random'),
  /** Results of the last attempts of failed records; default: a mix of responses and errors. */
  result: resultSchema.partial().optional(),
})

export type SeedOptions = z.input<typeof seedSchema>

/** A given record; missing fields are invented. */
export interface WebhookOptions extends Partial<AttemptResult> {
  id?: string
  eventId?: string
  requestPayload?: Record<string, unknown>
  /** Overrides fields of the sent record; undefined removes a field. For records that break the specification. */
  wire?: Record<string, unknown>
  subscriptionId?: string | undefined
  eventType?: string
  /** Epoch milliseconds, with or without a fraction; default now. */
  eventInstant?: number
  /** Default `failed`. A status that the specification does not name is sent as it is. */
  status?: string
  /** `numberOfAttempts`; default 1, or 0 without a last attempt. */
  attempts?: number
  /** Null for none; default one second after the event, not after now. */
  lastAttempt?: number | null
}

export interface SeedContext {
  zone: Zone
  /** The server's time, epoch milliseconds. */
  now: number
  /** Generates the ids: one sequence for all records of a store, so that each is unique. */
  ids: Sequence
}

const html = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>'

/** Results of failed deliveries. */
const failures: readonly [AttemptResult, ...AttemptResult[]] = [
  answered(503, { 'content-type': ['text/plain'], 'retry-after': ['30'] }, 'upstream connect error'),
  answered(500, { 'content-type': ['application/json'], 'x-request-id': ['1', '2'] }, '{"error":"internal"}'),
  answered(502, { 'content-type': ['text/html'] }, html),
  answered(504, {}, ''),
  { ...noResult, lastAttemptErrorMessage: 'Connection refused' },
  { ...noResult, lastAttemptErrorMessage: 'Read timed out' },
  { ...noResult, lastAttemptErrorMessage: 'Connection reset' },
]
const success = answered(200, { 'content-type': ['application/json'] }, '{"ok":true}')

function answered(status: number, headers: Record<string, string[]>, body: string): AttemptResult {
  return { ...noResult, responseStatusCode: status, responseHeaders: headers, responsePayload: body }
}

/** Ids of `count` subscriptions, always the same. */
export function subscriptionIds(count = 3): readonly string[] {
  const random = createSequence(0x73756273)
  return Array.from({ length: count }, () => random.uuid())
}

/** The records, oldest event first. The same options and sequence of ids give the same records. @throws SandboxInputError */
export function seedRecords(options: SeedOptions, { ids, now, zone }: SeedContext): StoredRecord[] {
  const plan = parseInput(seedSchema, options)
  const random = createSequence(ids.word())
  const { subscriptions: given } = plan
  const subscriptions = typeof given === 'number' ? subscriptionIds(given) : given
  const eventTypes = plan.eventTypes ?? knownEventTypes
  const failedResults = plan.result === undefined ? failures : [resultOf(noResult, plan.result)]
  const statuses = statusesOf(plan)
  return eventTimes(plan, random).map((time, position) => {
    const status = statuses[position] ?? 'failed'
    const attempted = time + numberIn(plan.lastAttemptAfterMs, random)
    return {
      id: ids.uuid(),
      eventId: ids.uuid(),
      subscriptionId: oneOf(subscriptions, random) ?? '',
      eventType: oneOf(eventTypes, random) ?? '',
      eventMicros: zone.local(time),
      random: ids.word(),
      status,
      attempts: Math.floor(numberIn(plan.attempts, random, 1)),
      lastAttemptMicros: zone.local(Math.min(attempted, Math.max(now, time))),
      result: status === 'successful' ? success : (oneOf(failedResults, random) ?? noResult),
      acceptedRetries: 0,
    }
  })
}

/** The record that these options describe. */
export function newRecord(options: WebhookOptions, { ids, now, zone }: SeedContext): StoredRecord {
  const { eventInstant = now, requestPayload, status = 'failed', wire } = options
  const { lastAttempt = Math.max(eventInstant, Math.min(now, eventInstant + 1000)) } = options
  const result = lastAttempt === null ? noResult : status === 'successful' ? success : failures[0]
  const [id, eventId] = [ids.uuid(), ids.uuid()]
  return {
    id: options.id ?? id,
    eventId: options.eventId ?? eventId,
    subscriptionId: options.subscriptionId ?? subscriptionIds(1)[0] ?? '',
    eventType: options.eventType ?? knownEventTypes[0],
    eventMicros: zone.local(eventInstant),
    random: ids.word(),
    status,
    attempts: options.attempts ?? (lastAttempt === null ? 0 : 1),
    lastAttemptMicros: lastAttempt === null ? null : zone.local(lastAttempt),
    result: resultOf(result, options),
    acceptedRetries: 0,
    requestPayload,
    wire,
  }
}

/** `base` with the given fields of another result. */
function resultOf(base: AttemptResult, given: NonNullable<SeedPlan['result']>): AttemptResult {
  const {
    responseStatusCode = base.responseStatusCode,
    responsePayload = base.responsePayload,
    responseHeaders = base.responseHeaders,
    lastAttemptErrorMessage = base.lastAttemptErrorMessage,
  } = given
  return { responseStatusCode, responsePayload, responseHeaders, lastAttemptErrorMessage }
}

type SeedPlan = z.output<typeof seedSchema>

/** Event times in ascending order, epoch milliseconds with microseconds as the fraction. */
function eventTimes({ count, from, spread, to }: SeedPlan, random: Sequence): number[] {
  const micros = Math.max(0, to - from) * 1000
  const times = Array.from({ length: count }, (_, position) => {
    const share = spread === 'even' ? position / count : random.next()
    return from + Math.floor(micros * share) / 1000
  })
  return times.sort((a, b) => a - b)
}

/** Exactly `share * count` records of a status (rounded), evenly among the others. */
function statusesOf({ count, failed, processing }: SeedPlan): string[] {
  const amongOthers = processing / (1 - failed)
  return Array.from({ length: count }, (_, position) => {
    const before = Math.round(position * failed)
    if (Math.round((position + 1) * failed) > before) return 'failed'
    const others = position - before
    return Math.round((others + 1) * amongOthers) > Math.round(others * amongOthers) ? 'processing' : 'successful'
  })
}

function numberIn(given: number | { min: number; max: number }, random: Sequence, inclusive = 0): number {
  return typeof given === 'number' ? given : given.min + random.next() * (given.max - given.min + inclusive)
}

function oneOf<T>(values: readonly T[], random: Sequence): T | undefined {
  return values[random.below(values.length)]
}
