// Options of the sandbox: its address, the service account, and its reading of the specification.
import { z } from 'zod'
import type { Clock } from '../src/runtime/clock.ts'
import { faultRuleSchema, type FaultRule } from './api/faults.ts'
import { limitSchema } from './api/limits.ts'
import { httpStatus, milliseconds, parseInput } from './fields.ts'

export const maxPort = 65_535
export const portSchema = z.number().int().min(0).max(maxPort)
const inclusion = z.enum(['inclusive', 'exclusive'])

const ledgerSchema = z.strictObject({
  /**
   * The response: the keys of the span; none (`empty`); those of another platform (`other`); an HTML page; a 503; an end within
   * a line (`half`); or a connection reset, before the response (`down`) or during it (`cut`).
   */
  answer: z.enum(['keys', 'empty', 'other', 'page', 'error', 'half', 'down', 'cut']).default('keys'),
  /** Time until a delivery is entered. */
  lagMs: milliseconds.default(0),
})

/** A reading of every open point of the specification. Each can change while the sandbox runs. */
export const readingsSchema = z.strictObject({
  /** Order of the list. `shuffled`: pseudo-random, the same for every request. `unstable`: records of one second change their order. */
  order: z.enum(['event-asc', 'event-desc', 'id', 'shuffled', 'unstable']).default('event-asc'),
  /** `precision`: whether event times are truncated to the second before the comparison. */
  bounds: z
    .strictObject({ from: inclusion, to: inclusion, precision: z.enum(['second', 'fraction']) })
    .default({ from: 'inclusive', to: 'inclusive', precision: 'second' }),
  /** Bounds are this much later than the times of the records, as in another zone. */
  boundsLaterSeconds: z.number().default(0),
  /** Digits of seconds: zone.ts. */
  fraction: z.enum(['micro', 'nano', 'grouped', 'trimmed']).default('micro'),
  /** HTTP status of a rejected list or retry; null: 404 for a missing record, otherwise 400. */
  errorStatus: httpStatus.nullable().default(null),
  /** HTTP status for a void token. */
  unauthorizedStatus: httpStatus.default(401),
  /** `repeated`: `status=a&status=b` only; `comma`: `status=a,b` only; `single`: one value only. Others are rejected. */
  statusEncoding: z.enum(['both', 'repeated', 'comma', 'single']).default('both'),
  /**
   * `metadata.page` is correct, or missing (`absent`), or its totals are half (`low`) or twice (`high`) the number, zero,
   * or the number of rows on this page (`page`).
   */
  totals: z.enum(['exact', 'absent', 'low', 'high', 'zero', 'page']).default('exact'),
  /**
   * The array of an empty list: written, absent, null, or, with all zeros of `metadata.page`, absent as in proto3. `no-content`: such a
   * list is a 204 without a body.
   */
  emptyList: z.enum(['array', 'absent', 'null', 'proto3', 'no-content']).default('array'),
  /** Parameters that a gateway drops. */
  ignores: z
    .array(z.enum(['status', 'eventId', 'from', 'to', 'page.number', 'page.size']))
    .readonly()
    .default([]),
  /** Maximum page size, for any requested size. */
  maxPageSize: z.number().int().min(1).default(100),
  /** `metadata.page.size`: the actual or the requested page size. */
  pageSizeTold: z.enum(['actual', 'asked']).default('actual'),
  /** `scope` of the token response; null: absent. */
  tokenScope: z.string().nullable().default('api'),
  /** Case of the status in records. */
  statusCase: z.enum(['lower', 'capital', 'upper']).default('lower'),
  /** Lists with a status filter show no records. */
  statusHides: z.boolean().default(false),
  /** Form of the records' ids: the daemon can retry only UUIDs. */
  ids: z.enum(['uuid', 'ulid', 'number']).default('uuid'),
  /** Form of the records' times: the daemon can read only ISO 8601. */
  times: z.enum(['iso', 'array', 'epoch', 'rfc1123', 'german', 'week']).default('iso'),
  /** Rejects lists from before `maxAge`, or over a span longer than `maxSpan`, both in seconds. */
  listLimits: z
    .strictObject({ maxAge: z.number().positive().optional(), maxSpan: z.number().positive().optional() })
    .prefault({}),
  /** Maximum lag of lists, different for each; PATCHes do not lag. */
  maxLagMs: milliseconds.default(0),
  /** `expires_in` of the token response, seconds. */
  expiresIn: z.number().int().min(1).default(3600),
  /** Seconds until the API knows a new token. */
  tokenKnownAfterSeconds: z.number().min(0).default(0),
  /** Response to a void token: an error, or as from gateways, a login page with 200 or a redirect to it. */
  voidToken: z.enum(['error', 'page', 'redirect']).default('error'),
  /** Adds unknown fields to every response. */
  unknownFields: z.boolean().default(false),
  /** Order of a retry: deliver, then respond (`sync`), or respond first. Both wait `delayMs` before the delivery. */
  delivery: z
    .strictObject({
      mode: z.enum(['sync', 'async']),
      delayMs: milliseconds.default(0),
      /** Status while an async retry waits. With `failed`, further retries are accepted. */
      meanwhile: z.enum(['processing', 'failed', 'successful']).default('processing'),
    })
    .prefault({ mode: 'sync' }),
  /** HTTP status of an accepted retry. */
  acceptedStatus: httpStatus.default(200),
  /** Meaning of `numberOfAttempts`: `attempts` counts the first delivery, `retries` does not. */
  counting: z.enum(['attempts', 'retries']).default('attempts'),
  /** When the record shows an attempt: at its start, or with its result. */
  countedAt: z.enum(['start', 'end']).default('end'),
  /** The platform's own retries after a failed first delivery: a delay before each, and the status between them. */
  automaticRetries: z
    .strictObject({ delaysMs: z.array(milliseconds).readonly(), status: z.enum(['processing', 'failed']) })
    .nullable()
    .default(null),
  /** Rate limits; a call must pass all limits of its operation. */
  limits: z.array(limitSchema).readonly().default([]),
  /** The ledger of the receiver. */
  ledger: ledgerSchema.prefault({}),
  /** False: without a `Date` header. */
  dateHeader: z.boolean().default(true),
  /** How far the clocks of identity host and API are ahead of the given one, in milliseconds. */
  skewMs: z.union([z.number(), z.strictObject({ identity: z.number(), api: z.number() })]).default(0),
})

export type Readings = z.output<typeof readingsSchema>
/** Some of the readings, as they are given. */
export type ReadingsInput = z.input<typeof readingsSchema>

/** Address and service account of the sandbox: fixed after its start. */
const placeSchema = z.strictObject({
  host: z.string().min(1).default('127.0.0.1'),
  /** Port of API and identity host. 0: any free port, as for the others. */
  port: portSchema.default(0),
  receiverPort: portSchema.default(0),
  /** Origin by which clients reach `port`, such as `http://sandbox:8090`; default: the address where it listens. */
  publicOrigin: z.url().optional(),
  /** Path before `/webhooks`, such as `/v1/demo`. */
  pathPrefix: z.string().default(''),
  realm: z
    .string()
    .regex(/^[\w.-]+$/, 'letters, digits, dots, hyphens and underscores')
    .default('demo'),
  clientId: z.string().min(1).default('sandbox-service-account'),
  /** IANA zone of the zone-less date-times. */
  timeZone: z.string().default('UTC'),
})

export interface SandboxOptions extends z.input<typeof placeSchema>, ReadingsInput {
  clock: Clock
  /** Registered key of the service account in PEM: a certificate, or a bare public key. */
  certificatePem: string
  /** From the start on. */
  faults?: readonly FaultRule[]
  /** True: without sockets, for a virtual clock; calls go to `gateway`. */
  inProcess?: boolean
}

/** Place and readings together, as in a file. */
export const optionsSchema = z.strictObject({
  ...placeSchema.shape,
  ...readingsSchema.shape,
  faults: z.array(faultRuleSchema).default([]),
})

/** @throws SandboxInputError */
export function placeOf(options: SandboxOptions): z.output<typeof placeSchema> {
  return parseInput(placeSchema.strip(), options)
}

/** The readings among these options, defaults filled in. @throws SandboxInputError */
export function readingsOf(options: ReadingsInput): Readings {
  return parseInput(readingsSchema.strip(), options)
}

/** These readings with some of them changed. @throws SandboxInputError */
export function changedReadings(readings: Readings, changes: ReadingsInput): Readings {
  return parseInput(readingsSchema, { ...readings, ...changes })
}
