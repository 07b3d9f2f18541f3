// What sweeps tell: the report of each when it has ended, and what they meet on their way.
import type { Reason } from '../../platform/http.ts'
import type { UnreadableRow } from '../../platform/record.ts'
import { TokenError } from '../../platform/token-endpoint.ts'
import type { Counts } from '../decide.ts'
import { isPlatformTrouble } from '../platform-trouble.ts'
import type { Span } from '../window.ts'

export const sweepKinds = ['full', 'recent'] as const
export type SweepKind = (typeof sweepKinds)[number]
export const sweepResults = ['complete', 'incomplete', 'failed'] as const
export type SweepResult = (typeof sweepResults)[number]
export const skipReasons = ['overlap', 'paused', 'backoff'] as const
export type SkipReason = (typeof skipReasons)[number]

/** What a sweep has seen so far. */
export interface SweepTally {
  slices: number
  /** Failed records listed. */
  listed: number
  /** Slices that were not seen whole, and slices that could not be listed at all. */
  incompleteSlices: number
  skippedSlices: number
}

export interface SweepReport extends SweepTally {
  /** Stands on every log line of this sweep. */
  id: string
  kind: SweepKind
  /** True for the part of a full sweep that goes on where there had been no room. */
  continued: boolean
  result: SweepResult
  seconds: number
  /** After a full sweep that did not fail: the failed records of the window by decision. */
  failed?: Counts
  /** With `failed`: why. `token` means that no access token could be had. */
  failure?: {
    reason: Reason
    stage: 'token' | 'list'
    rejected: boolean
    message: string
    /** Why no answer came: a code of Node, OpenSSL or undici. */
    code?: string | undefined
  }
}

export type SweeperEvent =
  | { type: 'sweep'; report: SweepReport }
  | { type: 'tick-skipped'; reason: SkipReason }
  | { type: 'slice-skipped'; sweepId: string; span: Span; reason: Reason }
  | { type: 'unreadable'; sweepId: string; rows: readonly UnreadableRow[] }
  | { type: 'unexpected'; sweepId: string; time: number; status: number }
  | { type: 'early-at-limit'; sweepId: string; records: number }
  /** Records known to us and selected that left the window, neither recovered nor awaited. */
  | { type: 'lapsed'; records: number }

/** Why a sweep failed; undefined for a bug. */
export function failureOf(error: unknown): SweepReport['failure'] {
  if (!isPlatformTrouble(error)) return undefined
  const { message, reason, transportCode: code } = error
  if (error instanceof TokenError) return { reason, stage: 'token', rejected: error.kind === 'rejected', message, code }
  return { reason, stage: 'list', rejected: reason === 'unauthorized' || reason === 'forbidden', message, code }
}
