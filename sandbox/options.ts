// Options of the sandbox: its address, the service account, and the reading of the specification that it plays.
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
   * The response: the keys of the span; none (`empty`); those of another platform (`other`); a page of HTML; an error 503; an end within
   * a line (`half`); or the connection is reset, before anything is sent (`down`) or in the middle (`cut`).
   */
  answer: z.enum(['keys', 'empty', 'other', 'page', 'error', 'half', 'down', 'cut']).default('keys'),
  /** How long it takes to enter a delivery. */
  lagMs: milliseconds.default(0),
})

/** One reading of everything that the specification leaves open. All can be changed while the sandbox runs. */
export const readingsSchema = z.strictObject({
  /** Order of the list. `shuffled` is pseudo-random but the same for every request; of `unstable` those of one second are in another order each time. */
  order: z.enum(['event-asc', 'event-desc', 'id', 'shuffled', 'unstable']).default('event-asc'),
  /** `precision`: whether the event time is cut to the second before it is compared. */
  bounds: z
    .strictObject({ from: inclusion, to: inclusion, precision: z.enum(['second', 'fraction']) })
    .default({ from: 'inclusive', to: 'inclusive', precision: 'second' }),
  /** Bounds mean times so much later than those of the records, as in another zone. */
  boundsLaterSeconds: z.number().default(0),
  /** Digits of seconds: zone.ts. */
  fraction: z.enum(['micro', 'nano', 'grouped', 'trimmed']).default('micro'),
  /** HTTP status of a refused list or retry; null: 404 for a record that does not exist, 400 for all else. */
  errorStatus: httpStatus.nullable().default(null),
  /** HTTP status for a void token. */
  unauthorizedStatus: httpStatus.default(401),
  /** `repeated`: `status=a&status=b` only; `comma`: `status=a,b` only; `single`: one value only. Others are refused. */
  statusEncoding: z.enum(['both', 'repeated', 'comma', 'single']).default('both'),
  /**
   * `metadata.page` is the truth; or missing (`absent`); or its totals are half (`low`), twice (`high`) or none of the truth
   * (`zero`), or the number of rows on this page (`page`).
   */
  totals: z.enum(['exact', 'absent', 'low', 'high', 'zero', 'page']).default('exact'),
  /** The array of a list whose total is 0: written, left out, null, or, with all zeros of `metadata.page`, left out as by proto3. */
  emptyList: z.enum(['array', 'absent', 'null', 'proto3']).default('array'),
  /** Parameters that a gateway drops. */
  ignores: z
    .array(z.enum(['status', 'eventId', 'from', 'to', 'page.number', 'page.size']))
    .readonly()
    .default([]),
  /** Maximum page size, for any requested size. */
  maxPageSize: z.number().int().min(1).default(100),
  /** `metadata.page.size`: how long a page can be here, or what was asked for. */
  pageSizeTold: z.enum(['actual', 'asked']).default('actual'),
  /** `scope` of the token response; null leaves it out. */
  tokenScope: z.string().nullable().default('api'),
  /** How records write their status. */
  statusCase: z.enum(['lower', 'capital', 'upper']).default('lower'),
  /** Lists that are asked for a status show no records. */
  statusHides: z.boolean().default(false),
  /** Form of the records' ids: the daemon can retry UUIDs alone. */
  ids: z.enum(['uuid', 'ulid', 'number']).default('uuid'),
  /** Form of the records' times: the daemon can read ISO 8601 alone. */
  times: z.enum(['iso', 'array', 'epoch', 'rfc1123', 'german', 'week']).default('iso'),
  /** Lists are refused whose first event is older than `maxAge`, or whose span is longer than `maxSpan`, both in seconds. */
  listLimits: z
    .strictObject({ maxAge: z.number().positive().optional(), maxSpan: z.number().positive().optional() })
    .prefault({}),
  /** Lists show the records as they were up to so long ago, each in its own way; PATCHes do not lag. */
  maxLagMs: milliseconds.default(0),
  /** `expires_in` of the token response, seconds. */
  expiresIn: z.number().int().min(1).default(3600),
  /** Seconds after its issue from which on the API knows a token. */
  tokenKnownAfterSeconds: z.number().min(0).default(0),
  /** How a void token is answered: with an error, or as gateways do, with a login page of 200 or a redirect to it. */
  voidToken: z.enum(['error', 'page', 'redirect']).default('error'),
  /** Adds fields that the specification does not know to every response. */
  unknownFields: z.boolean().default(false),
  /** Order of a retry: deliver and then answer, or answer first. Both wait `delayMs` before the delivery. */
  delivery: z
    .strictObject({
      mode: z.enum(['sync', 'async']),
      delayMs: milliseconds.default(0),
      /** Status while an async retry waits. While it is `failed` another retry is accepted too. */
      meanwhile: z.enum(['processing', 'failed', 'successful']).default('processing'),
    })
    .prefault({ mode: 'sync' }),
  /** HTTP status of an accepted retry. */
  acceptedStatus: httpStatus.default(200),
  /** Meaning of `numberOfAttempts`: `attempts` counts the first delivery, `retries` does not. */
  counting: z.enum(['attempts', 'retries']).default('attempts'),
  /** When an attempt shows in number and time: at its start, or with its result. */
  countedAt: z.enum(['start', 'end']).default('end'),
  /** The platform's own retries after a failed first delivery: a delay before each, and the status between them. */
  automaticRetries: z
    .strictObject({ delaysMs: z.array(milliseconds).readonly(), status: z.enum(['processing', 'failed']) })
    .nullable()
    .default(null),
  /** Limits of the rate; a call must pass all that are for its operation. */
  limits: z.array(limitSchema).readonly().default([]),
  /** The ledger of the receiver. */
  ledger: ledgerSchema.prefault({}),
  /** False leaves the `Date` header out. */
  dateHeader: z.boolean().default(true),
  /** The server's clock is this far ahead of the given one, in milliseconds: of the identity host and of the API. */
  skewMs: z.union([z.number(), z.strictObject({ identity: z.number(), api: z.number() })]).default(0),
})

export type Readings = z.output<typeof readingsSchema>
/** Some of the readings, as they are given. */
export type ReadingsInput = z.input<typeof readingsSchema>

/** Where the sandbox is and which service account it knows: fixed once it has started. */
const placeSchema = z.strictObject({
  host: z.string().min(1).default('127.0.0.1'),
  /** Of API and identity host. 0: any free port, as with the others. */
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
  /** True: without sockets, so that a virtual clock rules everything; calls come to `gateway`. */
  inProcess?: boolean
}

/** Place and readings in one: how a file gives them. */
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
