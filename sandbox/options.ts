// What the sandbox can be told: where it listens, who it knows, and which reading of the specification it plays.
import type { Clock } from '../src/runtime/clock.ts'
import type { FaultRule } from './faults.ts'
import type { Fraction } from './zone.ts'

/** Order of the list. `shuffled` is pseudo-random but the same for every request. */
export type ListOrder = 'event-asc' | 'event-desc' | 'id' | 'shuffled'

export interface Bounds {
  from: 'inclusive' | 'exclusive'
  to: 'inclusive' | 'exclusive'
  /** Whether the event time is cut to the second before it is compared. */
  precision: 'second' | 'fraction'
}

/** HTTP status of each error of the API and of the token endpoint. */
export interface ErrorStatuses {
  invalidStatus: number
  notFound: number
  invalidRequest: number
  unauthorized: number
  throttled: number
  invalidClient: number
}

/** `repeated`: `status=a&status=b` only; `comma`: `status=a,b` only; `single`: one value only. Others are refused. */
export type StatusEncoding = 'both' | 'repeated' | 'comma' | 'single'

/**
 * What `metadata.page` says: the truth; nothing (`absent`: `metadata` is empty); totals that are half (`low`), twice (`high`) or
 * none of the truth (`zero`), or the number of rows on this page (`page`).
 */
export type Totals = 'exact' | 'absent' | 'low' | 'high' | 'zero' | 'page'

export type IgnoredParameter = 'status' | 'eventId' | 'from' | 'to' | 'page.number' | 'page.size'

/** Whether a retry delivers before it answers, or answers first; either way it waits `delayMs` before it delivers. */
export interface DeliveryReading {
  mode: 'sync' | 'async'
  delayMs: number
  /** Status while an async retry waits; default `processing`. While it is `failed` another retry is accepted too. */
  meanwhile?: 'processing' | 'failed'
}

/** Retries by the platform itself after a failed first delivery; the record shows `status` between them. */
export interface AutomaticRetries {
  /** Milliseconds from a failed attempt to the next; as many retries as there are delays. */
  delaysMs: readonly number[]
  status: 'processing' | 'failed'
}

/** More requests than this to the API in a second are answered 429. */
export interface RateLimit {
  requestsPerSecond: number
  /** How many may come at once; default one second's worth. */
  burst?: number
  retryAfter: 'seconds' | 'date' | 'absent'
}

/** One reading of everything that the specification leaves open. All can be changed at run time (`Sandbox.read`). */
export interface Readings {
  /** Default `event-asc`. */
  order: ListOrder
  /** Default both inclusive, by the second. */
  bounds: Bounds
  /** Default `micro`. */
  fraction: Fraction
  /** Default 400 of what the caller did wrong, 404, 401 and 429; a number is the status of invalidStatus, notFound and invalidRequest. */
  errorStatus: number | Partial<ErrorStatuses>
  /** Default `both`. */
  statusEncoding: StatusEncoding
  /** Default `exact`. */
  totals: Totals
  /** Parameters that a gateway drops; default none. */
  ignores: readonly IgnoredParameter[]
  /** Pages are never longer, whatever was asked; default 100. */
  maxPageSize: number
  /** `metadata.page.size`: how long a page can be here (`actual`), or what was `asked`; default `actual`. */
  pageSizeTold: 'actual' | 'asked'
  /** What becomes of a page size above 100; default `clamp`. */
  oversizedPage: 'clamp' | 'refuse'
  /** `scope` of the token answer: a text, or null to leave it out; default `api`. */
  tokenScope: string | null
  /** `expires_in` of the token answer in seconds; default 3600. */
  expiresIn: number
  /** After how many seconds the API refuses a token; default `expiresIn`. */
  tokenLivesSeconds: number | null
  /** Adds fields that the specification does not know to every answer; default false. */
  unknownFields: boolean
  /** Default sync. */
  delivery: DeliveryReading
  /** HTTP status of an accepted retry; default 200. */
  acceptedStatus: number
  /** Whether the first delivery counts in `numberOfAttempts`; default `attempts` (it does). */
  counting: 'attempts' | 'retries'
  /** Whether an attempt shows in number and time when it starts or when its result is known; default `end`. */
  countedAt: 'start' | 'end'
  /** Default none. */
  automaticRetries: AutomaticRetries | null
  /** Default none. */
  rateLimit: RateLimit | null
  /** A delivery without an answer fails after this many milliseconds of the clock; null: never, for clocks that jump on. Default 10,000. */
  deliveryTimeoutMs: number | null
  /** False leaves the `Date` header out; default true. */
  dateHeader: boolean
  /** The server's clock is this far ahead of the given one, in milliseconds: of the identity host and of the API; default 0. */
  skewMs: number | { identity: number; api: number }
}

export const defaultReadings: Readings = {
  order: 'event-asc',
  bounds: { from: 'inclusive', to: 'inclusive', precision: 'second' },
  fraction: 'micro',
  errorStatus: {},
  statusEncoding: 'both',
  totals: 'exact',
  ignores: [],
  maxPageSize: 100,
  pageSizeTold: 'actual',
  oversizedPage: 'clamp',
  tokenScope: 'api',
  expiresIn: 3600,
  tokenLivesSeconds: null,
  unknownFields: false,
  delivery: { mode: 'sync', delayMs: 0 },
  acceptedStatus: 200,
  counting: 'attempts',
  countedAt: 'end',
  automaticRetries: null,
  rateLimit: null,
  deliveryTimeoutMs: 10_000,
  dateHeader: true,
  skewMs: 0,
}

const defaultErrorStatuses: ErrorStatuses = {
  invalidStatus: 400,
  notFound: 404,
  invalidRequest: 400,
  unauthorized: 401,
  throttled: 429,
  invalidClient: 401,
}

export function errorStatuses(reading: Readings['errorStatus']): ErrorStatuses {
  if (typeof reading !== 'number') return { ...defaultErrorStatuses, ...reading }
  return { ...defaultErrorStatuses, invalidStatus: reading, notFound: reading, invalidRequest: reading }
}

/** Where the sandbox is and whom it knows: fixed once it has started. */
export interface SandboxPlace {
  clock: Clock
  /** Certificates registered for the service account, PEM. Without one, startSandbox throws. */
  certificatePem: string | readonly string[]
  /** Whether a certificate outside its dates is refused; default true. */
  checkCertificateDates?: boolean
  /** Default 1. */
  seed?: number
  /** Default 127.0.0.1. */
  host?: string
  /** Default 0: any free port. */
  port?: number
  /** A port of its own for the identity host, so that it is another origin; default: the same port. */
  identityPort?: number
  /** Default 0. The control API listens on 127.0.0.1, whatever `host` is. */
  controlPort?: number
  /** Default 0. */
  receiverPort?: number
  /** Origin by which clients reach this port, such as `http://sandbox:8080`; default what it listens on. The issuer's URL is made of it. */
  publicOrigin?: string
  /** What stands before `/webhooks`, such as `/v1/demo`; default none. */
  pathPrefix?: string
  /** What stands before `/auth/realms`; default none. */
  authPath?: string
  /** Default `demo`. */
  realm?: string
  /** Default `sandbox-service-account`. */
  clientId?: string
  /** IANA zone of the zone-less date-times; default UTC. */
  timeZone?: string
  /** Subscriber URL by subscription id; every other subscription belongs to the built-in receiver. */
  subscribers?: Readonly<Record<string, string>>
  /** Faults from the start on. */
  faults?: readonly FaultRule[]
}

export type SandboxOptions = SandboxPlace & Partial<Readings>

const readingNames = Object.keys(defaultReadings) as (keyof Readings)[]

/** The readings among these options, defaults filled in. An undefined option counts as not given. */
export function readingsOf(options: Partial<Readings>, base: Readings = defaultReadings): Readings {
  const given = readingNames.filter((name) => options[name] !== undefined).map((name) => [name, options[name]])
  return { ...base, ...(Object.fromEntries(given) as Partial<Readings>) }
}
