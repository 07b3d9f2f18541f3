// What one run of the simulation is made of: a platform with its habits, receivers, records, troubles, and the daemon's lives.
import type { Limit } from '../../sandbox/api/limits.ts'
import type { SweepPolicy } from '../../src/reconcile/policy.ts'
import type { Draw } from './draw.ts'
import type { FaultWindow } from './fault-kinds.ts'

/**
 * `poison`: the receiver answers 500 for ever; `unwanted`: it answers 422; `barred`: the platform refuses the retry with
 * 422; `missing`: with 404, and no error body unless the platform's habit is another.
 */
export type RecordKind = 'plain' | 'poison' | 'unwanted' | 'barred' | 'missing'

export interface PlannedRecord {
  /** When the event is, ms since the start; negative for what was there before. */
  at: number
  subscription: number
  kind: RecordKind
  /** Attempts made before the start; a record that comes later is delivered by the platform itself, first of all. */
  attempts: number
  /** Last of these attempts, ms since the start. */
  lastAttemptAt: number
  entity: number
  eventType: string
  /** The field of its row that the daemon can't read. */
  unreadable?: 'id' | 'eventDateTime' | 'status'
  /** Its event is this much later than `at`, and lies ahead of the platform's clock to the end. */
  aheadMs?: number
}

/** A failed record of an ordinary kind, tried once at its event. */
export function plannedRecord(fields: Partial<PlannedRecord> & Pick<PlannedRecord, 'at'>): PlannedRecord {
  const { at } = fields
  const common = { subscription: 0, kind: 'plain', entity: 0, eventType: 'account-activated' } as const
  return { ...common, attempts: 1, lastAttemptAt: at, ...fields }
}

/** One that is delivered for the first time after the start. */
export function comingRecord(fields: Partial<PlannedRecord> & Pick<PlannedRecord, 'at'>): PlannedRecord {
  return plannedRecord({ attempts: 0, lastAttemptAt: 0, ...fields })
}

/** What the specification leaves open, and how long things take. Durations in ms. */
export interface Habits {
  timeZone: string
  /** `sync`: the PATCH is answered when it was delivered; else at once, and the record is shown so meanwhile. */
  delivery: 'sync' | 'async'
  meanwhile: 'processing' | 'failed' | 'successful'
  /** A retried record is shown as successful, and a new one of its event is delivered. */
  retriesAnew?: true
  /** When an attempt is counted and gets its time. */
  counts: 'start' | 'end'
  /** Attempts of its own after the first one. */
  ownRetries: number
  ownRetryMs: number
  order: 'event-asc' | 'event-desc' | 'id' | 'attempt-asc' | 'attempt-desc'
  fromInclusive: boolean
  toInclusive: boolean
  timePrecision: 'ms' | 'second'
  /** True when the refusal of a record that is not there has an error body. */
  missingHasCode: boolean
  /** HTTP status of the refusal of what is not failed. */
  conflictStatus: 200 | 400 | 409 | 422
  tokenLifeSeconds: number
  /** How long the identity host takes to give a token, beside the latency. */
  tokenTime: readonly [least: number, most: number]
  /** The API knows a token only so long after its issue. */
  tokenKnownAfterMs: number
  /** What a void token is answered with; `page`: a login page with 200. A 400 and a 500 have an error body. */
  voidToken: 401 | 403 | 302 | 404 | 511 | 400 | 500 | 'page'
  latency: readonly [least: number, most: number]
  /** Until an asynchronous delivery begins. */
  queue: readonly [least: number, most: number]
  deliveryTime: readonly [least: number, most: number]
  /** Until it gives up on a receiver that does not answer. */
  deliveryTimeout: number
  /** How far the identity host's clock is ahead of the platform's at the start. */
  identityAheadMs: number
  /** A list answers with the records as they were up to so long ago, ms. */
  lagMs: number
  /** Attempts of its own after a retry that failed. */
  ownRetriesAfterRetry: number
  /** Share of records without an event id. */
  withoutEventId: number
  /** What a list does with the parameter `data.webhook.eventId`. */
  eventIdFilter: 'works' | 'ignored' | 'finds-nothing' | 'refused'
  /** `mixed`: the ids of a record come in lower or upper case, by chance, in each response. */
  idCase: 'lower' | 'mixed'
  /** Limits of the rate of list calls and retries; of the retries of one subscription alone. */
  limits: readonly (Limit & { subscription?: number })[]
  /** Lists from before so long ago are refused, ms; undefined: none. */
  listsFor?: number
  /** Lists without a first time and an event are not answered in time: its table holds years. */
  hasYears?: true
  /** Longer lists are refused, ms; undefined: none. */
  listsAtOnce?: number
  /**
   * Only the first rows of a list are shown, and behind them an error, no rows, no rows that the total counts, or the last page again;
   * undefined: all are.
   */
  firstRows?: { rows: number; behind: 'error' | 'none' | 'uncounted' | 'again' }
  /**
   * Maximum rows on a page, what the metadata say of it, and what is behind the last one, which may be itself; whether more rows are refused.
   * Undefined: as specified.
   */
  pages?: {
    max: number
    told: 'own' | 'asked' | 'none'
    totals: 'exact' | 'none'
    behind: 'none' | 'again'
    refusesMore: boolean
  }
  /** Until then, ms since the start, bounds of lists mean times that are so much later than those of the rows, as in another zone. */
  boundsLater?: { ms: number; until: number }
  /** Meanwhile, ms since the start, lists that are asked for a status, or for a time, or all of them show no rows. */
  hidden?: { by: 'status' | 'time' | 'all'; from: number; until: number }
  /** Bytes of a row in a list: a response with too many of them does not arrive. */
  rowBytes: number
  /** How statuses are written. */
  statusCase: 'lower' | 'capital' | 'upper'
  /** No response of the API has a Date. */
  withoutDate?: true
  /** How a list without rows writes its `data`, if not with an empty array; without any text, it is a 204. */
  emptyList?: string
  /** Responses have no zeros and nulls. */
  omitsZeros?: true
  /** Some responses have numbers as texts. */
  numbersAsTexts?: true
  /** How the lifetime of a token is given, if not as it is. */
  expiresIn?: string | number
}

export interface Outage {
  from: number
  to: number
  how: 503 | 500 | 429 | 401 | 405 | 410 | 422 | 'no-answer' | 'refused'
}

export interface PlannedReceiver {
  outages: readonly Outage[]
  /** Share of deliveries that fail with 500 although it is up. */
  flaky: number
  /** It answers 422 to events of this type until then, ms since the start. */
  refuses?: { eventType: string; until: number }
  /** It fails so many deliveries of each record with 504. */
  failsFirst?: number
}

/** The ledger of the receiver. Its bad responses: nothing, HTTP 503, a page, half of it, half of it and a reset, keys of another platform. */
export interface PlannedLedger {
  /** Share of the deliveries that are lost behind a 200. */
  lostShare: number
  /** Until it has a delivery, ms. */
  lagMs: number
  faults: readonly { from: number; to: number; answer: 'down' | 'error' | 'page' | 'half' | 'cut' | 'other' }[]
}

/** One process of the daemon. */
export interface PlannedLife {
  /**
   * How it ends: at a time (ms after its start), or in the moment in which its n-th call comes to the platform, before
   * or after it took effect.
   */
  ends: { after: number } | { call: number; when: 'arrived' | 'applied' } | 'never'
  how: 'crash' | 'stop'
  /** Until the next process starts, ms. */
  gapMs: number
}

/** An operator asks for the records of a time: from `sinceMs` to `untilMs` ago. */
export interface PlannedJob {
  at: number
  sinceMs: number
  untilMs: number
  exhausted: boolean
  /** Retries a second. */
  rate: number | undefined
  /** It is deleted so long after its start. */
  cancelAfterMs: number | undefined
  /** It names failed records of that time, or one of their events; `age`: the span may begin before the window. */
  by?: 'event' | 'webhooks' | 'age'
}

export interface Scenario {
  seed: number
  /** What the run is mostly about. */
  theme: string
  /** Epoch ms of the platform's clock at the start. */
  startAt: number
  /** When the last trouble is over, ms since the start. */
  calmAt: number
  /** The most that everything may take after that, ms; events of one entity that go one after the other may take longer. */
  patienceMs: number
  /** How long it is watched after everything has arrived, ms. */
  calmMs?: number
  periodMs: number
  sweep: SweepPolicy
  env: Readonly<Record<string, string>>
  habits: Habits
  /** Receiver of each subscription. */
  subscriptions: readonly number[]
  receivers: readonly PlannedReceiver[]
  records: readonly PlannedRecord[]
  faults: readonly FaultWindow[]
  /** When every token becomes void, ms since the start. */
  revocations: readonly number[]
  /** When another client retries some failed records, how many, ms since the start. */
  others: readonly { at: number; records: number }[]
  /** Host clock: how far it is ahead of the platform's at first, and how it is set later. */
  hostAheadMs: number
  jumps: readonly { at: number; ms: number }[]
  /** When the platform's own clock is set, and by how much. */
  platformJumps: readonly { at: number; ms: number }[]
  /** When the key file and the registered certificate change; keys are named by numbers, the first is 0. */
  keys: {
    /** `broken`: the file holds no key. */
    file: readonly { at: number; key: number | 'broken' }[]
    registered: readonly { at: number; key: number }[]
  }
  /** Ends of the certificate in `auth.certificateFile`, epoch ms, from these moments on; empty: there is none. */
  certificates: readonly { at: number; notAfter: number }[]
  /** When the operator pauses and resumes all retries, or those of a subscription, ms since the start. */
  pauses: readonly { from: number; to: number; subscription?: number }[]
  /** When the operator has circuits probed, ms since the start. */
  probes?: readonly number[]
  /** Retry jobs of the operator, ms since the start. */
  jobs: readonly PlannedJob[]
  lives: readonly PlannedLife[]
  ledger?: PlannedLedger
  /** Names of readings.ts. */
  readings: readonly string[]
}

/** Changes the habits of a scenario as these are drawn. */
export const withHabits =
  (habits: (draw: Draw) => Partial<Habits>) =>
  (draw: Draw, scenario: Scenario): Scenario => ({ ...scenario, habits: { ...scenario.habits, ...habits(draw) } })

/** A receiver that takes everything. */
export const well: PlannedReceiver = { outages: [], flaky: 0 }

/** Nothing that hits the daemon, its host or the platform. */
export const noTrouble = {
  ...{ faults: [], revocations: [], others: [], jumps: [], platformJumps: [], pauses: [] },
  keys: { file: [], registered: [] },
} satisfies Partial<Scenario>

/** An attempt that is counted and shown as failed while it is under way can't be told from one that has failed, but by what comes of it. */
export function looksFailed({ counts, meanwhile }: Pick<Habits, 'counts' | 'meanwhile'>): boolean {
  return meanwhile === 'failed' && counts === 'start'
}

/** A success may be shown before, or in place of, the outcome: what failed is known minutes later. */
export function succeedsTooSoon({ meanwhile, retriesAnew }: Habits): boolean {
  return meanwhile === 'successful' || retriesAnew === true
}

/** When receivers are sound, ms since the start. A dead subscription has one probe in five minutes, so a second failure takes hours. */
export function soundAtOf({ calmAt, patienceMs }: Scenario): number {
  return calmAt + patienceMs / 4
}
