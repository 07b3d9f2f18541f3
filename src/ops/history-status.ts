// The last hour and the pace, as the status document gives them.
import type { MinuteState } from '../observe/history.ts'
import { toTime } from './time.ts'

export interface MinuteStatus {
  /** When it began. */
  at: string
  /** Deliveries that were missing at its beginning (now, in the minute under way); null while nobody knew. */
  missing: number | null
  /** Outcomes that were seen in it. */
  recovered: number
  failedAgain: number
  unknown: number
}

export interface DrainStatus {
  /** Deliveries seen to recover in a minute: in the last one, or on average of the last five when none did then. */
  recoveredPerMinute: number
  /** How long until nothing is missing but what is parked, if each arrives at its next retry; 0 when it is so now, null when nobody can tell. */
  seconds: number | null
  /** When that is. */
  doneAt: string | null
}

export function toMinute({ at, missing, recovered, failedAgain, unknown }: MinuteState): MinuteStatus {
  return { at: toTime(at) ?? '', missing: missing ?? null, recovered, failedAgain, unknown }
}

/** `doneAt` in epoch ms, undefined when nobody can tell. */
export function toDrain(recoveredPerMs: number, doneAt: number | undefined, now: number): DrainStatus {
  const isKnown = doneAt !== undefined && toTime(doneAt) !== null
  return {
    recoveredPerMinute: Math.round(recoveredPerMs * 600_000) / 10,
    seconds: isKnown ? Math.ceil(Math.max(0, doneAt - now) / 1000) : null,
    doneAt: isKnown ? toTime(doneAt) : null,
  }
}
