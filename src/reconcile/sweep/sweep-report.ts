// Events of sweeps: the report at the end of each, and problems found on the way.
import type { UnreadableRow } from '../../platform/record.ts'
import type { Counts } from '../decide.ts'
import type { CallFailure } from '../platform-trouble.ts'
import type { SkippedSlice } from './sweep.ts'

/** A full sweep begins with a recent one, so it goes first. */
/** After this long without a sweep, newer failures are not known. */
export const maxUnsweptMs = 300_000

export const sweepKinds = ['full', 'recent'] as const
export type SweepKind = (typeof sweepKinds)[number]
export const sweepResults = ['complete', 'incomplete', 'failed'] as const
export type SweepResult = (typeof sweepResults)[number]

/** Counts of a sweep so far. */
export interface SweepTally {
  slices: number
  /** Failed records listed. */
  listed: number
  /** Known records that left the list of failed ones, though the daemon did not retry them. */
  leftWithoutRetry: number
  /** Known records evicted from a full backlog. */
  evicted: number
  /** Slices not seen completely, and slices that could not be listed at all. */
  incompleteSlices: number
  skippedSlices: number
  unreadable: number
}

export interface SweepReport extends SweepTally {
  /** Part of every log line of this sweep. */
  sweepId: string
  kind: SweepKind
  result: SweepResult
  seconds: number
  /** After a successful full sweep: the failed records of the window by decision. */
  failed?: Counts
  /** With the result `failed`. */
  failure?: CallFailure
}

/** Unreadable rows of a sweep, or of outcome checks (without `sweepId`). */
export interface UnreadableEvent {
  type: 'unreadable'
  sweepId?: string
  rows: readonly UnreadableRow[]
}

/** `open`, with the counts of `report.failed`: records repeatedly rejected by the receiver, or by receiver or platform, and the oldest open event, epoch ms. */
export interface SweepEvent {
  type: 'sweep'
  report: SweepReport
  open?: { refused: number; refusedAgain: number; oldestAt: number | undefined }
}

export type SweeperEvent =
  | UnreadableEvent
  | SweepEvent
  | ({ type: 'slice-skipped'; sweepId: string } & SkippedSlice)
  | { type: 'unexpected'; wrongTime: number; wrongStatus: number }
  /** Known and selected records that left the window, neither recovered nor awaited; `again`: those that had returned. */
  | { type: 'expired'; records: number; again: number }
  /** Expired records back in the backlog: of an operator's retry job, or because the platform's clock was set back. */
  | { type: 'returned'; records: number }
