// What metrics need of the facts beyond counting them: when there was progress, when it is due next; and how long the rest takes.
import type { Fact } from '../facts.ts'
import type { Counts } from '../reconcile/census.ts'

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
  /** Time between two ticks of the schedule, in ms. */
  periodMs: number
  /** When the schedule ticks next, in epoch ms. */
  nextTickAt: () => number | undefined
}

export interface Present {
  /** Epoch ms of this host's clock. */
  now: number
  counts: Counts
  /** Until sweeps may come again after the last ones, negative when they may; undefined before the first. */
  restEndsInMs: number | undefined
  /** Records seen to recover, per ms. */
  recoveredPerMs: number
}

export interface Watch {
  /** `now` in epoch ms of this host's clock. */
  hear(fact: Fact, now: number): void
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
  /** The first tick after the last progress. */
  let tickAt = startedAt

  function dueAt(now: number, restEndsInMs: number | undefined): number {
    const restsUntil = restEndsInMs === undefined ? -Infinity : now + restEndsInMs
    // A tick during the rest starts nothing; the one that does comes within a period after it.
    return (restsUntil > tickAt ? restsUntil + periodMs : tickAt) + slackMs
  }

  return {
    hear(fact, now) {
      if (!isProgress(fact)) return
      progressAt = now
      if (now >= tickAt) tickAt = nextTickAt() ?? now + periodMs
    },
    state: ({ now, counts, restEndsInMs, recoveredPerMs }) => ({
      progressAt,
      progressDueAt: dueAt(now, restEndsInMs),
      estimatedDrainSeconds: drainSeconds(counts, recoveredPerMs),
    }),
  }
}
