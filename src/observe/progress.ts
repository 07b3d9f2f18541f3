// What metrics need of the facts beyond counting them: when there was progress, when it is due next; and how long the rest takes.
import type { Fact } from './events.ts'
import type { Counts } from '../reconcile/retry/census.ts'

/** The gauges that are made of it. Times in epoch ms of this host's clock. */
export interface Watched {
  /** Undefined before the first. */
  progressAt: number | undefined
  progressDueAt: number
  /** 0 when nothing is open, Infinity when nothing was recovered of late. */
  estimatedDrainSeconds: number
}

export interface WatchOptions {
  /** Epoch ms: the first tick comes with the start. */
  startedAt: number
  /** The shortest time between two ticks of the schedule, in ms. */
  periodMs: number
  /** When the schedule ticks next, in epoch ms. */
  nextTickAt: () => number | undefined
}

export interface Present {
  counts: Counts
  /** Records seen to recover, per ms. */
  recoveredPerMs: number
}

export interface Watch {
  /** `now` in epoch ms of this host's clock. */
  hear(fact: Fact, now: number): void
  /**
   * Hears of a tick. `restEndsInMs`: until sweeps may come again after the last ones, negative when they may; undefined
   * before the first.
   */
  ticked(now: number, restEndsInMs: number | undefined): void
  state(present: Present): Watched
}

/** Room for a tick that is late or skipped. */
const slackPeriods = 2
const longestSlackMs = 300_000

const tellingResults: ReadonlySet<string> = new Set(['accepted', 'already-resolved', 'gone', 'rejected'])

/** The platform was seen to do its work: a list, an answer that is about the record itself, or an outcome. */
function isProgress(fact: Fact): boolean {
  if (fact.type === 'sweep') return fact.report.result !== 'failed'
  if (fact.type === 'retry') return fact.answer.sent && tellingResults.has(fact.answer.result)
  return fact.type === 'outcome' && fact.outcome !== 'unknown'
}

/** Seconds until what is open is recovered, at a pace. Parked and excluded records are nobody's work. */
function drainSeconds(counts: Counts, recoveredPerMs: number): number {
  const open = counts.due + counts.held + counts['backing-off'] + counts.awaiting
  return open === 0 ? 0 : open / recoveredPerMs / 1000
}

export function createWatch({ startedAt, periodMs, nextTickAt }: WatchOptions): Watch {
  const slackMs = Math.min(slackPeriods * periodMs, longestSlackMs)
  let progressAt: number | undefined
  /** The first tick after the last progress that may start a sweep. */
  let tickAt = startedAt

  /** Moves on to the next tick, once the one that was waited for has come. */
  function moveOn(now: number): void {
    if (now >= tickAt) tickAt = nextTickAt() ?? now + periodMs
  }

  return {
    hear(fact, now) {
      if (!isProgress(fact)) return
      progressAt = now
      moveOn(now)
    },
    ticked(now, restEndsInMs) {
      // A tick during the rest starts nothing: the next one may.
      if (restEndsInMs !== undefined && restEndsInMs > 0) moveOn(now)
    },
    state: ({ counts, recoveredPerMs }) => ({
      progressAt,
      progressDueAt: tickAt + slackMs,
      estimatedDrainSeconds: drainSeconds(counts, recoveredPerMs),
    }),
  }
}
