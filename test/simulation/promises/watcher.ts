// What every promise is watched with: one process of the daemon, seen from outside.
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import type { JobView, RetriedView } from '../../../src/records/job.ts'
import type { StatusDocument } from '../../../src/ops/status-document.ts'
import type { Knowledge } from '../knowledge.ts'
import type { Call, Told } from '../network.ts'
import type { SimulatedRecord } from '../platform.ts'
import type { Tally } from '../tally.ts'
import type { Invariant } from '../trace.ts'
import type { World } from '../world.ts'

/** What a scrape gives. */
export interface Sight {
  metrics: ReadonlyMap<string, number>
  status: StatusDocument
  /** Ids of what it names as delivered and not processed. */
  unprocessed: readonly string[]
  /** The last one before the process ends in good order. */
  isLast: boolean
}

/** A retry job, as the operator sees it. */
export interface AskedJob {
  view(): JobView | undefined
  retried(): readonly RetriedView[]
}

/** Watches one promise. Each call comes as it happens: `sent` before the knowledge takes it in, the others after that. */
export interface Watcher {
  sent?(call: Call): void
  told?(call: Call, told: Told): void
  fact?(fact: TelemetryEvent): void
  /** A delivery reached a receiver, or tried to: of a retry of this process (`isOwn`), or of anybody else's. */
  delivered?(receiver: number, isOwn: boolean): void
  scraped?(sight: Sight): void
  /** Its schedule ticked. */
  ticked?(): void
  /** An operator asked it for retries. */
  asked?(job: AskedJob): void
}

export interface WatcherOptions extends World {
  /** Of the process. */
  number: number
  knowledge: Knowledge
  holds: Holds
  violate: (invariant: Invariant, what: string) => void
  exercise: Tally['exercise']
  exempt: Tally['exempt']
}

/** What may keep retries from going out, as it is seen from outside. */
export interface Holds {
  /** ms since the start: since when neither the rate nor the slots, nor a gate, have held any retry. */
  limitsFreeSince(): number
  /** Since when no wait of lists alone, which the platform asked for, has held them. */
  listsFreeSince(): number
  /** ms since the start: since when no gate has held all retries; Infinity while one does. */
  openGateSince(): number
  /** True from a retry job that asks for the record until it is sent. */
  isAskedFor(id: string): boolean
  /** False from a moment on which the platform's clock was set until the daemon can know. */
  isSureOfTime(): boolean
  /** True once a full sweep did not fail. */
  isSwept(): boolean
  /** The last full sweep that saw all, ms since the start; undefined before the first. */
  lastComplete(): { startedAt: number; endedAt: number } | undefined
  /** When the closing of its circuit surely ended the backoffs of a subscription, by the platform's clock; -Infinity for never. */
  backoffsEndedAt(subscriptionId: string): number
  /** Subscriptions whose circuit is not closed, lower case. */
  notClosed(): ReadonlySet<string>
  /** True while a list that the record stands in is being read: what its pages show is not known yet. */
  isBeingListed(record: SimulatedRecord): boolean
  /** True when no fault has touched the time since a moment, ms since the start; of this record, if one is given. */
  isFaultlessSince(at: number, record?: SimulatedRecord): boolean
}
