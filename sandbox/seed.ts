// Fills the store with made-up records: many by rule, or one as told.
import { createSequence, hash, uuidOf } from './hash.ts'
import { knownEventTypes } from './payload.ts'
import {
  failed,
  noResult,
  processing,
  statusCodeOf,
  successful,
  type AttemptResult,
  type NewRecord,
  type Particulars,
  type Store,
} from './store.ts'
import type { Zone } from './zone.ts'

export interface NumberRange {
  min: number
  max: number
}

export interface SeedOptions {
  count: number
  /** Event times lie in [from, to), epoch milliseconds. */
  from: number
  to: number
  /** Share of the records that is failed, 0 to 1, spread evenly; default 1. */
  failed?: number
  /** Share that is processing; the rest of 1 is successful. Default 0. */
  processing?: number
  /** Ids, or how many; default 3. */
  subscriptions?: number | readonly string[]
  /** Default: the four that the specification knows. Any other name makes an unknown event type. */
  eventTypes?: readonly string[]
  /** `numberOfAttempts`; a function is given the record's position. Default 1 to 5. */
  attempts?: number | NumberRange | ((position: number) => number)
  /** Milliseconds from the event to the last attempt (never after now); null: no attempt yet. Default 0.5 s to 30 min. */
  lastAttemptAfterMs?: number | NumberRange | null
  /** `even`: equal distances; `random`; `batches`: bursts of about a hundred within a few milliseconds. Default `random`. */
  spread?: 'even' | 'random' | 'batches'
  /** What the last attempts of failed records came to; default: a mix of answers and errors. */
  result?: Partial<AttemptResult>
}

/** A record as told; everything left out is made up. */
export interface WebhookOptions extends Particulars, Partial<AttemptResult> {
  subscriptionId?: string
  eventType?: string
  /** Epoch milliseconds, may have a fraction; default now. */
  eventInstant?: number
  /** Default `failed`. A status that nobody specified is sent as it is. */
  status?: string
  /** `numberOfAttempts`; default 1, or 0 without a last attempt. */
  attempts?: number
  /** Epoch milliseconds, or null for none; default one second after the event, not after now. */
  lastAttempt?: number | null
}

export interface SeedContext {
  seed: number
  zone: Zone
  /** The server's time, epoch milliseconds. */
  now: number
}

const html = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>'

/** What failed deliveries looked like. */
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

/** The subscription ids that a number stands for. */
export function subscriptionIds(seed: number, given: number | readonly string[] = 3): readonly string[] {
  if (typeof given !== 'number') return given
  const word = (position: number, part: number): number => hash(seed, 0x73756273, position, part)
  return Array.from({ length: given }, (_, at) => uuidOf(word(at, 0), word(at, 1), word(at, 2), word(at, 3)))
}

/** Adds the records; the number of the first is returned. The same seed, options and store make the same records. */
export function seedRecords(store: Store, options: SeedOptions, { seed, zone, now }: SeedContext): number {
  const random = createSequence(hash(seed, 0x73656564, store.size))
  const subscriptions = nonEmpty(subscriptionIds(seed, options.subscriptions), 'subscriptions')
  const eventTypes = nonEmpty(options.eventTypes ?? knownEventTypes, 'eventTypes')
  const failedResults = options.result === undefined ? failures : ([{ ...noResult, ...options.result }] as const)
  const times = eventTimes(options, random.next)
  return store.addMany(options.count, (position): NewRecord => {
    const time = times[position] ?? options.from
    const status = statusAt(position, options)
    const attempted = lastAttemptAt(time, options.lastAttemptAfterMs, random.next)
    return {
      eventLocalMicros: zone.local(time),
      lastAttemptLocalMicros: attempted === null ? NaN : zone.local(Math.min(attempted, Math.max(now, time))),
      status,
      attempts: attempted === null ? 0 : attemptsAt(position, options.attempts ?? { min: 1, max: 5 }, random.next),
      subscriptionId: random.pick(subscriptions),
      eventType: random.pick(eventTypes),
      result: attempted === null ? noResult : status === successful ? success : random.pick(failedResults),
    }
  })
}

/** The record that these options describe. */
export function newRecord(options: WebhookOptions, { seed, zone, now }: SeedContext): NewRecord {
  const eventInstant = options.eventInstant ?? now
  const status = options.status ?? 'failed'
  const code = statusCodeOf(status)
  const lastAttempt =
    options.lastAttempt === undefined ? Math.max(eventInstant, Math.min(now, eventInstant + 1000)) : options.lastAttempt
  const result = lastAttempt === null ? noResult : code === successful ? success : failures[0]
  const particulars = particularsOf(options, status)
  return {
    eventLocalMicros: zone.local(eventInstant),
    lastAttemptLocalMicros: lastAttempt === null ? NaN : zone.local(lastAttempt),
    status: code,
    attempts: options.attempts ?? (lastAttempt === null ? 0 : 1),
    subscriptionId: options.subscriptionId ?? subscriptionIds(seed, 1)[0] ?? '',
    eventType: options.eventType ?? knownEventTypes[0],
    result: { ...result, ...givenResult(options) },
    ...(particulars === undefined ? {} : { particulars }),
  }
}

function givenResult(options: Partial<AttemptResult>): Partial<AttemptResult> {
  const names = Object.keys(noResult) as (keyof AttemptResult)[]
  const given = names.filter((name) => options[name] !== undefined).map((name) => [name, options[name]])
  return Object.fromEntries(given) as Partial<AttemptResult>
}

function particularsOf({ id, eventId, requestPayload, wire }: Particulars, status: string): Particulars | undefined {
  const particulars: Particulars = {}
  if (id !== undefined) particulars.id = id
  if (eventId !== undefined) particulars.eventId = eventId
  if (requestPayload !== undefined) particulars.requestPayload = requestPayload
  if (statusCodeOf(status) > failed) particulars.wire = { status, ...wire }
  else if (wire !== undefined) particulars.wire = wire
  return Object.keys(particulars).length === 0 ? undefined : particulars
}

/** Event times in ascending order, epoch milliseconds with microseconds as the fraction. */
function eventTimes({ count, from, to, spread = 'random' }: SeedOptions, random: () => number): Float64Array {
  const times = new Float64Array(count)
  const micros = Math.max(0, to - from) * 1000
  if (spread === 'even') return times.map((_, position) => from + Math.floor((micros * position) / count) / 1000)
  let burst = 0
  for (let position = 0; position < count; position++) {
    if (spread === 'random') times[position] = from + Math.floor(random() * micros) / 1000
    else {
      if (position % 100 === 0) burst = Math.floor(random() * micros)
      times[position] = from + Math.min(burst + Math.floor(random() * 5000), Math.max(0, micros - 1)) / 1000
    }
  }
  return times.sort()
}

/** Exactly `share * count` records of a status (rounded), evenly among the others. */
function statusAt(position: number, { failed: failedShare = 1, processing: processingShare = 0 }: SeedOptions): number {
  const before = Math.round(position * failedShare)
  if (Math.round((position + 1) * failedShare) > before) return failed
  const amongOthers = position - before
  const share = processingShare / (1 - failedShare)
  return Math.round((amongOthers + 1) * share) > Math.round(amongOthers * share) ? processing : successful
}

function attemptsAt(position: number, attempts: NonNullable<SeedOptions['attempts']>, random: () => number): number {
  if (typeof attempts === 'function') return attempts(position)
  return typeof attempts === 'number' ? attempts : Math.floor(within(attempts, random))
}

function lastAttemptAt(time: number, after: SeedOptions['lastAttemptAfterMs'], random: () => number): number | null {
  if (after === null) return null
  if (typeof after === 'number') return time + after
  return time + within(after ?? { min: 500, max: 30 * 60_000 }, random, 0)
}

function within({ min, max }: NumberRange, random: () => number, inclusive = 1): number {
  return min + random() * (max - min + inclusive)
}

function nonEmpty<T>(values: readonly T[], name: string): readonly [T, ...T[]] {
  const [first, ...others] = values
  if (first === undefined) throw new RangeError(`seed: ${name} must name at least one`)
  return [first, ...others]
}
