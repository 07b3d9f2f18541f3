// A failed record in the backlog: the fields that decisions need, in the platform's time, in about 250 bytes. @see docs/architecture.md "Time", "Backlog and decisions"
import { laterReadingNotAfter, type TimeZone } from '../platform/time-zone.ts'
import type { WebhookRecord } from '../platform/record.ts'
import { jitterSeed } from './backoff.ts'
import { keyOfPacked, packId, unpackId } from './packed-id.ts'

/** The attempts of a record as a row shows them. */
export type Attempts = Pick<WebhookRecord, 'attempts' | 'lastAttemptLocal'>

/** A retry with a pending outcome. Times in monotonic ms. @see docs/architecture.md "Outcomes" */
export interface PendingOutcome {
  /** Its number among the retries of its subscription. */
  sent: number
  sentAt: number
  /** When the request timed out or broke: the platform may have accepted the PATCH as late as this. */
  lostAt: number | undefined
  /** When a check, or the PATCH's response, first showed a new failed attempt: the doubt (`firstDoubtMs`) starts here. */
  failedSince: number | undefined
  checkAt: number
  /** True if a search by its event did not show it: then its second is searched. */
  missedByEvent: boolean
}

/** Number of the next attempt, by the larger count; the first is 1. */
export function nextAttempt({ attempts, tries }: Pick<FailedRecord, 'attempts' | 'tries'>): number {
  return Math.max(attempts, tries) + 1
}

/** An attempt further ahead of the platform's clock is not believed. */
const toleratedAheadMs = 60_000

/** The later reading of an ambiguous attempt time that is not in the future. */
export function readingNotAhead(zone: TimeZone, lastAttemptLocal: number, now: number): number {
  return laterReadingNotAfter(zone, lastAttemptLocal, now + toleratedAheadMs)
}

/** The last attempt, or else the event time. `knownAt`: the same attempt as read before; a later reading of it is none. */
function lastAt(
  { lastAttemptLocal }: Attempts,
  eventAt: number,
  { zone, now, knownAt = now }: Pick<When, 'now' | 'zone'> & { knownAt?: number },
): number {
  if (lastAttemptLocal === null) return eventAt
  const last = readingNotAhead(zone, lastAttemptLocal, Math.min(now, knownAt))
  return last > now + toleratedAheadMs ? eventAt : last
}

/** Ms from a second on the platform's wall clock to the last attempt shown there; null without one. */
function sinceSecond({ lastAttemptLocal }: WebhookRecord, localSecond: number): number | null {
  return lastAttemptLocal === null ? null : lastAttemptLocal - 1000 * localSecond
}

/** The daemon's own actions on a record, which are remembered after it has left the backlog. */
export interface Ours {
  /** PATCHes of this daemon with a response about the record itself, or with a lost response. */
  tries: number
  /** Of these, those up to the last one after which the platform has shown an attempt. */
  provenTries: number
  /** Later PATCHes without the platform's verdict (401, 403, 5xx, a gateway's response), or that never arrived. A throttled one restarts the count at 1. */
  refusals: number
  /** When the last PATCH was sent, with any result, in epoch ms of the platform's clock; 0 without one. */
  triedAt: number
  /** Last change, in monotonic ms, rounded up: a row requested earlier is stale. */
  changedAt: number
  /** When its last outcome became known, in monotonic ms, if that was `failed-again`; else -Infinity. */
  failedAgainAt: number
}

/** Its retry that is under way or wanted. */
interface Wanted {
  awaiting: PendingOutcome | undefined
  /** The operator's jobs that requested its retry, by the signal of their end. */
  askedBy: readonly AbortSignal[]
  /** Jobs with a rate that have not requested it yet. */
  queuedBy: readonly AbortSignal[]
}

interface When {
  zone: TimeZone
  /** Epoch ms of the platform's clock. */
  now: number
  /** The one copy of a text that many records share. Default: the given one. */
  textOf?: (text: string) => string
}

/** No operator's job wants its retry. One for all records. */
export const wantedByNone: Pick<Wanted, 'askedBy' | 'queuedBy'> = { askedBy: [], queuedBy: [] }

/**
 * A failed record. Its times are whole ms of less than 25 days, from the event or the start of the process, or null: V8 stores them
 * without an object.
 */
export class FailedRecord implements Ours, Wanted {
  /** Hash of the id, the source of its backoff jitter. */
  readonly jitterSeed: number
  /** Second of the event on the platform's wall clock. */
  readonly localSecond: number
  /** The platform's count. */
  attempts: number
  /** The receiver's response to the last attempt; null: none. */
  responseStatusCode: number | null
  /** Its packed event id: equal for all records of the event; empty if unknown. */
  readonly eventKey: string
  readonly #id: string
  readonly subscriptionId: string
  readonly eventType: string
  /** From `localSecond`, read as UTC, to the event, in ms. */
  readonly #eventMs: number
  /** From the event to its last attempt; and on the platform's wall clock, from `localSecond`: null without one. */
  #lastMs: number
  #lastLocalMs: number | null
  tries = 0
  provenTries = 0
  refusals = 0
  #triedMs: number | null = null
  #changedAt: number | null = null
  #failedAgainAt: number | null = null
  awaiting: PendingOutcome | undefined = undefined
  askedBy = wantedByNone.askedBy
  queuedBy = wantedByNone.queuedBy
  /** Its place among the records of its subscription; -1 while it is not in the backlog. @see record-index.ts */
  place = -1

  constructor(record: WebhookRecord, when: When) {
    const { attempts, eventId, eventLocal, id, responseStatusCode } = record
    const { textOf = (text) => text } = when
    this.#id = packId(id)
    this.jitterSeed = jitterSeed(id)
    this.localSecond = Math.floor(eventLocal / 1000)
    this.attempts = attempts
    this.responseStatusCode = responseStatusCode
    this.eventKey = packId(eventId)
    this.subscriptionId = textOf(record.subscriptionId)
    this.eventType = textOf(record.eventType)
    this.#eventMs = laterReadingNotAfter(when.zone, eventLocal, when.now) - 1000 * this.localSecond
    this.#lastMs = lastAt(record, this.eventAt, when) - this.eventAt
    this.#lastLocalMs = sinceSecond(record, this.localSecond)
  }

  /** Its key in the backlog. */
  get key(): string {
    return keyOfPacked(this.#id)
  }
  get id(): string {
    return unpackId(this.#id)
  }
  get eventId(): string {
    return unpackId(this.eventKey)
  }
  /** Times in epoch ms of the platform's clock. */
  get eventAt(): number {
    return 1000 * this.localSecond + this.#eventMs
  }
  /** The last attempt that the platform shows, or the event. */
  get lastAt(): number {
    return this.eventAt + this.#lastMs
  }
  /** Last attempt on the platform's wall clock as the platform shows it; null without one. */
  get lastAttemptLocal(): number | null {
    return this.#lastLocalMs === null ? null : 1000 * this.localSecond + this.#lastLocalMs
  }
  get triedAt(): number {
    return this.#triedMs === null ? 0 : this.eventAt + this.#triedMs
  }
  set triedAt(at: number) {
    this.#triedMs = at === 0 ? null : Math.round(at - this.eventAt)
  }
  get changedAt(): number {
    return this.#changedAt ?? -Infinity
  }
  set changedAt(at: number) {
    this.#changedAt = at === -Infinity ? null : Math.ceil(at)
  }
  get failedAgainAt(): number {
    return this.#failedAgainAt ?? -Infinity
  }
  set failedAgainAt(at: number) {
    this.#failedAgainAt = at === -Infinity ? null : Math.ceil(at)
  }
  /** What is remembered of it. */
  get ours(): Ours {
    const { changedAt, failedAgainAt, provenTries, refusals, triedAt, tries } = this
    return { changedAt, failedAgainAt, provenTries, refusals, triedAt, tries }
  }
  /** True from an operator's request until the retry is sent. */
  get askedFor(): boolean {
    return this.askedBy.some(({ aborted }) => !aborted)
  }
  /** True while a running job with a rate has found it. */
  get isQueued(): boolean {
    return this.queuedBy.some(({ aborted }) => !aborted)
  }
  /** True while an operator wants its retry: then it does not expire. */
  get isWanted(): boolean {
    return this.askedFor || this.isQueued
  }

  note(changes: Partial<Ours & Wanted>): void {
    Object.assign(this, changes)
  }

  /** The platform has shown an attempt after its last try with a response. */
  prove(): void {
    this.provenTries = this.awaiting === undefined ? this.tries : this.tries - 1
  }

  /**
   * Updates the record from the platform, unless its list lags behind: fewer attempts, and none later. Returns whether the last
   * attempt or their number changed.
   */
  show(record: WebhookRecord, when: When): boolean {
    const { attempts: attemptsBefore, lastAt: lastBefore } = this
    const isSame = record.attempts === attemptsBefore && record.lastAttemptLocal === this.lastAttemptLocal
    const at = lastAt(record, this.eventAt, isSame ? { ...when, knownAt: lastBefore } : when)
    if (record.attempts > this.attempts || at > this.lastAt) this.prove()
    if (record.attempts >= this.attempts || at > this.lastAt) {
      this.attempts = record.attempts
      this.responseStatusCode = record.responseStatusCode
      this.#lastMs = at - this.eventAt
      this.#lastLocalMs = sinceSecond(record, this.localSecond)
    }
    // A PATCH in the future was sent before the platform's clock was set back.
    if (this.triedAt > when.now + toleratedAheadMs) this.triedAt = 0
    return this.attempts !== attemptsBefore || this.lastAt !== lastBefore
  }
}
