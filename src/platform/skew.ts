// Learns how far the platform's clock is from this host's, from the Date headers of its answers. Pure, but for what it holds.

/** One answer's evidence. */
export interface SkewSample {
  /** The `Date` header as it came; undefined when there was none. */
  dateHeader: string | undefined
  /** True when the answer came with an `Age`: a cache spoke, and its Date is of another time. */
  hasAge: boolean
  /** Host clock, epoch ms: when the request was sent, and when the head of the answer had come. */
  sentAt: number
  receivedAt: number
}

/** Server time minus host time in ms: at least the first, at most the second. */
export type SkewInterval = readonly [earliest: number, latest: number]

export interface Skew {
  /** Takes an answer's evidence in; passes over what says nothing (no or odd Date, Age, a host clock set back in between). */
  learn(sample: SkewSample): void
  /** [earliest, latest] in ms; undefined before the first answer. */
  interval(): SkewInterval | undefined
  /** Best estimate in ms; 0 when nothing is known. */
  estimate(): number
}

/** A jump of more than this is believed only after `answersForJump` answers that agree with each other. */
const jumpMs = 60_000
const answersForJump = 3
/** How far two good clocks part in a while: 100 ppm, twice what a crystal does. */
const driftPerMs = 100e-6

/**
 * The fixed form that a server must send, and a date that exists; undefined for all else. The obsolete forms carry no
 * zone or a two-digit year, and what `Date.parse` makes of them is no evidence. @see RFC 9110 section 5.6.7
 */
function parseHttpDate(header: string): number | undefined {
  const date = new Date(header)
  return date.toUTCString() === header ? date.getTime() : undefined
}

/**
 * What one answer says of the skew: the header's second was cut off, and it was written between sending and receiving
 * (design section 7). Undefined when it says nothing.
 */
export function skewOfSample(sample: SkewSample): SkewInterval | undefined {
  const date = sample.dateHeader === undefined || sample.hasAge ? undefined : parseHttpDate(sample.dateHeader.trim())
  if (date === undefined) return undefined
  const earliest = date - sample.receivedAt
  const latest = date + 1000 - sample.sentAt
  // An exchange that ended before it began: the host's clock was set back meanwhile. (NaN ends here too.)
  if (!(sample.receivedAt >= sample.sentAt) || !Number.isFinite(latest - earliest)) return undefined
  return [earliest, latest]
}

function intersection(a: SkewInterval, b: SkewInterval): SkewInterval | undefined {
  const both = [Math.max(a[0], b[0]), Math.min(a[1], b[1])] as const
  return both[0] <= both[1] ? both : undefined
}

/** Milliseconds between two intervals, 0 when they touch. */
function gap(a: SkewInterval, b: SkewInterval): number {
  return Math.max(0, a[0] - b[1], b[0] - a[1])
}

function middle(interval: SkewInterval): number {
  return (interval[0] + interval[1]) / 2
}

/** How far new evidence moved the skew, ms: 0 when it agrees with what was known before, exactly or not. Nothing known counts as no skew. */
export function skewMovedMs(before: SkewInterval = [0, 0], after: SkewInterval = before): number {
  return gap(before, after) === 0 ? 0 : Math.abs(middle(after) - middle(before))
}

function widen([earliest, latest]: SkewInterval, ms: number): SkewInterval {
  return [earliest - ms, latest + ms]
}

/**
 * Knows nothing at first; the first answer is believed at once. One per origin.
 * @param hostAheadMs how far the host's own wall clock is ahead of the clock of the samples. A jump that it shows too is
 * believed at once: the process was suspended. Default: nobody knows.
 */
export function createSkew(hostAheadMs: () => number | undefined = () => undefined): Skew {
  let known: { interval: SkewInterval; at: number } | undefined
  /** Far from what is known, and not believed yet. */
  let doubted: { interval: SkewInterval; answers: number } | undefined

  function believe(interval: SkewInterval, at: number): void {
    known = { interval, at }
    doubted = undefined
  }

  function isShownByHost(seen: SkewInterval): boolean {
    const ahead = hostAheadMs()
    return ahead !== undefined && gap(seen, [ahead, ahead]) <= jumpMs
  }

  function doubt(seen: SkewInterval, at: number): void {
    const agreed = doubted === undefined ? undefined : intersection(doubted.interval, seen)
    const answers = agreed === undefined ? 1 : (doubted?.answers ?? 0) + 1
    if (answers >= answersForJump) believe(agreed ?? seen, at)
    else doubted = { interval: agreed ?? seen, answers }
  }

  return {
    learn(sample) {
      const seen = skewOfSample(sample)
      if (seen === undefined) return
      if (known === undefined) {
        believe(seen, sample.receivedAt)
        return
      }
      // Clocks drift apart: what was learned long ago is known less exactly now.
      const drifted = widen(known.interval, Math.max(0, sample.receivedAt - known.at) * driftPerMs)
      const agreed = intersection(drifted, seen)
      if (agreed !== undefined) believe(agreed, sample.receivedAt)
      else if (gap(drifted, seen) <= jumpMs || isShownByHost(seen)) believe(seen, sample.receivedAt)
      else doubt(seen, sample.receivedAt)
    },
    interval: () => known?.interval,
    estimate: () => (known === undefined ? 0 : middle(known.interval)),
  }
}
