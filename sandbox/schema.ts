// What may be told to the sandbox as data: checks the command line's file and the control API's bodies, and names what is wrong.
import { z } from 'zod'
import type { FaultRule } from './faults.ts'
import type { Readings } from './options.ts'
import type { ReceiverRule } from './receiver.ts'
import type { EventOptions, TrafficOptions } from './records.ts'
import type { SeedOptions, WebhookOptions } from './seed.ts'

const milliseconds = z.number().min(0)
const share = z.number().min(0).max(1)
const status = z.number().int().min(100).max(599)
const count = z.number().int().min(0)
const names = z.array(z.string())
const range = z.strictObject({ min: z.number().min(0), max: z.number().min(0) })
const attempts = z.number().int().min(0).max(65_535)
const object = z.record(z.string(), z.unknown())

/** Epoch milliseconds, or an instant such as `2025-03-04T05:06:07Z`. */
const instant = z.union([
  z.number(),
  z.iso
    .datetime({ offset: true, error: 'epoch milliseconds, or an instant such as 2025-03-04T05:06:07Z' })
    .transform((text) => Date.parse(text)),
])

const errorStatuses = z.strictObject({
  invalidStatus: status,
  notFound: status,
  invalidRequest: status,
  unauthorized: status,
  throttled: status,
  invalidClient: status,
})
const inclusion = z.enum(['inclusive', 'exclusive'])
const rateLimit = z.strictObject({
  requestsPerSecond: z.number().positive(),
  burst: z.number().min(1).exactOptional(),
  retryAfter: z.enum(['seconds', 'date', 'absent']),
})

const readings = z.strictObject({
  order: z.enum(['event-asc', 'event-desc', 'id', 'shuffled']),
  bounds: z.strictObject({ from: inclusion, to: inclusion, precision: z.enum(['second', 'fraction']) }),
  fraction: z.enum(['micro', 'nano', 'grouped', 'trimmed']),
  errorStatus: z.union([status, z.strictObject(exactPartial(errorStatuses.shape))]),
  statusEncoding: z.enum(['both', 'repeated', 'comma', 'single']),
  totals: z.enum(['exact', 'absent', 'low', 'high', 'zero', 'page']),
  ignores: z.array(z.enum(['status', 'eventId', 'from', 'to', 'page.number', 'page.size'])),
  maxPageSize: z.number().int().min(1),
  pageSizeTold: z.enum(['actual', 'asked']),
  oversizedPage: z.enum(['clamp', 'refuse']),
  tokenScope: z.string().nullable(),
  expiresIn: z.number().int().min(1),
  tokenLivesSeconds: z.number().positive().nullable(),
  unknownFields: z.boolean(),
  delivery: z.strictObject({
    mode: z.enum(['sync', 'async']),
    delayMs: milliseconds,
    meanwhile: z.enum(['processing', 'failed']).exactOptional(),
  }),
  acceptedStatus: status,
  counting: z.enum(['attempts', 'retries']),
  countedAt: z.enum(['start', 'end']),
  automaticRetries: z
    .strictObject({ delaysMs: z.array(milliseconds), status: z.enum(['processing', 'failed']) })
    .nullable(),
  rateLimit: rateLimit.nullable(),
  deliveryTimeoutMs: milliseconds.nullable(),
  dateHeader: z.boolean(),
  skewMs: z.union([z.number(), z.strictObject({ identity: z.number(), api: z.number() })]),
}) satisfies z.ZodType<Readings>

/** Any of the readings. */
export const readingsSchema = z.strictObject(exactPartial(readings.shape)) satisfies z.ZodType<Partial<Readings>>

const retryAfter = z.union([
  z.literal('absent'),
  z.strictObject({ seconds: z.number(), form: z.enum(['seconds', 'date']).exactOptional() }),
])
const headers = z.record(z.string(), z.string())
const faultBody = z.union([
  z.enum(['error', 'html', 'empty']),
  z.strictObject({ text: z.string(), contentType: z.string().exactOptional() }),
])
const fault = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('latency'), ms: milliseconds, maxMs: milliseconds.exactOptional() }),
  z.strictObject({
    kind: z.literal('status'),
    status,
    body: faultBody.exactOptional(),
    code: z.string().exactOptional(),
    headers: headers.exactOptional(),
    applied: z.boolean().exactOptional(),
  }),
  z.strictObject({ kind: z.literal('throttle'), retryAfter, status: status.exactOptional() }),
  z.strictObject({ kind: z.literal('reset'), when: z.enum(['before', 'after']) }),
  z.strictObject({ kind: z.literal('hang'), applied: z.boolean().exactOptional() }),
  z.strictObject({ kind: z.literal('cut'), share: share.exactOptional() }),
  z.strictObject({
    kind: z.literal('drip'),
    bytes: z.number().int().min(1).exactOptional(),
    everyMs: milliseconds.exactOptional(),
  }),
  z.strictObject({ kind: z.literal('broken-json') }),
  z.strictObject({ kind: z.literal('huge-body'), mebibytes: z.number().min(0).max(512) }),
  z.strictObject({ kind: z.literal('redirect'), location: z.string(), status: status.exactOptional() }),
  z.strictObject({ kind: z.literal('expires-in'), value: z.unknown().optional() }),
  z.strictObject({
    kind: z.literal('refuse-token'),
    error: z.string().exactOptional(),
    description: z.string().exactOptional(),
    status: status.exactOptional(),
  }),
  z.strictObject({ kind: z.literal('wrong-id') }),
  z.strictObject({ kind: z.literal('headers'), headers }),
  z.strictObject({ kind: z.literal('no-date') }),
  z.strictObject({ kind: z.literal('stuck') }),
])

export const faultRuleSchema = z.strictObject({
  operation: z.enum(['token', 'list', 'retry', 'api', 'any', 'delivery']),
  fault,
  probability: share.exactOptional(),
  skip: count.exactOptional(),
  count: count.exactOptional(),
  webhookIds: names.exactOptional(),
}) satisfies z.ZodType<FaultRule>

export const receiverRuleSchema = z.strictObject({
  connection: z.enum(['reset', 'hang']).exactOptional(),
  status: status.exactOptional(),
  body: z.string().exactOptional(),
  headers: z.record(z.string(), z.union([z.string(), names])).exactOptional(),
  slowMs: milliseconds.exactOptional(),
  eventTypes: names.exactOptional(),
  subscriptionIds: names.exactOptional(),
  webhookIds: names.exactOptional(),
  probability: share.exactOptional(),
  count: count.exactOptional(),
}) satisfies z.ZodType<ReceiverRule>

export const seedSchema = z.strictObject({
  count: z.number().int().min(0).max(10_000_000),
  from: instant,
  to: instant,
  failed: share.exactOptional(),
  processing: share.exactOptional(),
  subscriptions: z.union([z.number().int().min(1).max(10_000), names.min(1)]).exactOptional(),
  eventTypes: names.min(1).exactOptional(),
  attempts: z.union([attempts, range]).exactOptional(),
  lastAttemptAfterMs: z.union([milliseconds, range]).nullable().exactOptional(),
  spread: z.enum(['even', 'random', 'batches']).exactOptional(),
  result: z.strictObject(exactPartial(resultShape())).exactOptional(),
}) satisfies z.ZodType<SeedOptions>

export const webhookSchema = z.strictObject({
  ...exactPartial(resultShape()),
  id: z.uuid().exactOptional(),
  eventId: z.uuid().exactOptional(),
  requestPayload: object.exactOptional(),
  wire: object.exactOptional(),
  subscriptionId: z.string().exactOptional(),
  eventType: z.string().exactOptional(),
  eventInstant: instant.exactOptional(),
  status: z.string().exactOptional(),
  attempts: attempts.exactOptional(),
  lastAttempt: instant.nullable().exactOptional(),
}) satisfies z.ZodType<WebhookOptions>

export const eventSchema = webhookSchema.pick({
  subscriptionId: true,
  eventType: true,
  eventInstant: true,
  requestPayload: true,
}) satisfies z.ZodType<EventOptions>

export const trafficSchema = z.strictObject({
  perSecond: z.number().min(0).max(10_000),
  subscriptionIds: names.min(1).exactOptional(),
  eventTypes: names.min(1).exactOptional(),
}) satisfies z.ZodType<TrafficOptions>

function resultShape() {
  return {
    responseStatusCode: status.nullable(),
    responsePayload: z.string().nullable(),
    responseHeaders: z.record(z.string(), names).nullable(),
    lastAttemptErrorMessage: z.string().nullable(),
  }
}

type ExactPartial<S extends z.ZodRawShape> = { [K in keyof S]: z.ZodExactOptional<S[K]> }

function exactPartial<S extends z.ZodRawShape>(shape: S): ExactPartial<S> {
  const entries = Object.entries(shape).map(([name, schema]) => [name, z.exactOptional(schema)])
  return Object.fromEntries(entries) as ExactPartial<S>
}

/** Something told to the sandbox can't be used; the message names each place and what is wrong there. */
export class SandboxInputError extends Error {
  readonly code = 'SANDBOX_INPUT'
}

/** @throws SandboxInputError */
export function parseInput<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the whole'}: ${message}`)
  throw new SandboxInputError(problems.join('; '))
}
