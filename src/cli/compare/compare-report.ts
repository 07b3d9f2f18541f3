// The report of `compare`, as --json prints it, and one difference, as --records does.
import type { Counts } from '../../reconcile/decide.ts'
import type { ExitCode } from '../../runtime/errors.ts'
import type { KeyKind } from './read-keys.ts'

/** Where a record, or a line of the file, belongs when the two sides do not agree. */
export type CompareGroup = 'not-processed' | 'failed' | 'processing' | 'unknown'

/** One thing on which the two sides do not agree. `unknown`: a line of the file, with its key alone. */
export interface CompareRecord {
  group: CompareGroup
  key: string
  webhookId?: string
  eventId?: string
  subscriptionId?: string
  eventType?: string
  event?: string | null
  lastAttempt?: string | null
  attempts?: number
  responseStatusCode?: number | null
  /** With `failed` and `processing`: whether the file has it all the same. */
  processed?: boolean
}

/** `schemaVersion` follows SemVer's major: fields are added, not changed. Times are ISO 8601 in UTC. */
export interface CompareReport {
  schemaVersion: 1
  instance: string
  /** Host of the platform's base URL. */
  platform: string
  since: string | null
  until: string | null
  key: KeyKind
  seconds: number
  /** False when a part of the span could not be listed, or not with certainty: the books may differ in more. */
  complete: boolean
  /** True when it is complete and all below but `delivered` is 0. */
  equal: boolean
  /** Delivered by the platform, and processed by the receiver. */
  delivered: number
  /** Delivered by the platform, and not processed: no retry can bring them back. The first 1,000 are listed. */
  notProcessed: { total: number; list: CompareRecord[] }
  /** Failed records, by decision; `processed`: so many of them the receiver has processed without answering 2xx. */
  failed: { total: number; processed: number; byDecision: Counts }
  /** Under way on the platform, or delivered after the file was written: compare again later. */
  processing: number
  /** Keys of the file that the platform does not have in this span. */
  unknown: number
  /** Keys that stand for more than one event: compare by eventId or webhookId to separate them. */
  severalEvents: number
  /** Records whose key could not be read. */
  withoutKey: number
  exitCode: ExitCode
}
