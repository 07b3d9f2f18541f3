// The time of one server, learned from its Date headers against the monotonic clock. @see docs/architecture.md "Time"
import type { Clock } from '../runtime/clock.ts'
import type { HttpResponse } from './http/http.ts'
import { parseHttpDate } from './http/response.ts'

export interface ServerClock {
  /** Best estimate of the server's time, in epoch ms. Before the first response: the host's time at the start, advanced. */
  now(): number
  /** The earliest time that the server's clock may show now, in epoch ms. */
  earliestNow(): number
  /** True once a response has shown the server's time. */
  isKnown(): boolean
  /** How far the server's clock is ahead of the host's present clock, in ms. */
  aheadOfHostMs(): number
  /**
   * Learns from a response; ignores one without a usable `Date`, or with an `Age` above 0.
   * @returns the error of the previous estimate, in ms; 0 if the response agrees with it
   */
  learn(response: Pick<HttpResponse, 'headers' | 'sentAt' | 'receivedAt'>): { movedMs: number }
  /**
   * The process was suspended for so long after monotonic `since`, as another server's responses show. Nothing changes if this one's
   * did before.
   */
  wasSuspended(by: Interval, since: number): void
}

/** Server time minus monotonic time, or a change of it, in ms: at least the first, at most the second. */
type Interval = readonly [min: number, max: number]

/** A larger jump is accepted only after `responsesForJump` responses that agree with each other. */
const jumpMs = 60_000
const responsesForJump = 3
/** Drift of two good clocks: 100 ppm, twice that of a crystal. */
const driftPerMs = 100e-6
/** Before the first response: well beyond the error of a host with NTP. */
const unknownMarginMs = 5000

function intersection(a: Interval, b: Interval): Interval | undefined {
  const both = [Math.max(a[0], b[0]), Math.min(a[1], b[1])] as const
  return both[0] <= both[1] ? both : undefined
}

/** Milliseconds between two intervals, 0 if they touch. */
function gap(a: Interval, b: Interval): number {
  return Math.max(0, a[0] - b[1], b[0] - a[1])
}

function middle([min, max]: Interval): number {
  return (min + max) / 2
}

/**
 * Knows nothing at first; accepts the first response. One per origin. `suspended`: a response has shown that the process was
 * suspended after monotonic `since`, and for how long.
 */
export function createServerClock(
  clock: Clock,
  suspended: (by: Interval, since: number) => void = () => undefined,
): ServerClock {
  const hostOffset = (): number => clock.now() - clock.monotonic()
  // A small correction of the host's clock must not make records due. After a suspend, or once a wrong clock was set, it is all there is.
  let assumed = hostOffset()
  /** `hostOffset`: the host's own when it was learned. */
  let known: { interval: Interval; at: number; hostOffset: number } | undefined
  /** Far from the known time, and not accepted yet. */
  let pendingJump: { interval: Interval; responses: number } | undefined

  /** The evidence of one response: `Date` is truncated to the second, and was written between sending and receiving. */
  function intervalOf({ headers, receivedAt, sentAt }: Parameters<ServerClock['learn']>[0]): Interval | undefined {
    // With an Age, the response is a cache's, and its Date is older; 0 is written by caches on the way of each response.
    const date = Number(headers['age'] ?? 0) === 0 ? parseHttpDate(headers['date']?.trim() ?? '') : undefined
    return date === undefined ? undefined : [date - receivedAt, date + 1000 - sentAt]
  }

  function assumedOffset(): number {
    if (Math.abs(hostOffset() - assumed) > jumpMs) assumed = hostOffset()
    return assumed
  }

  const offset = (): number => (known === undefined ? assumedOffset() : middle(known.interval))

  /** An old estimate is less exact, because clocks drift apart. */
  function drifted({ interval: [min, max], at }: NonNullable<typeof known>, now: number): Interval {
    const drift = Math.max(0, now - at) * driftPerMs
    return [min - drift, max + drift]
  }

  /** True if the host's clock has moved by as much, in ms: during a suspend the monotonic clock stops. */
  function isShownByHost(ms: number): boolean {
    return known !== undefined && Math.abs(hostOffset() - known.hostOffset - ms) <= jumpMs
  }

  /** The interval of a jump, once enough responses agree on it. */
  function confirmedJump(seen: Interval): Interval | undefined {
    const agreed = pendingJump && intersection(pendingJump.interval, seen)
    const responses = agreed === undefined ? 1 : (pendingJump?.responses ?? 0) + 1
    pendingJump = { interval: agreed ?? seen, responses }
    return responses >= responsesForJump ? pendingJump.interval : undefined
  }

  /** The estimate with new evidence; undefined while a jump is unconfirmed. */
  function combine(before: Interval, seen: Interval): Interval | undefined {
    const isJump = gap(before, seen) > jumpMs && !isShownByHost(middle(seen) - middle(before))
    return isJump ? confirmedJump(seen) : (intersection(before, seen) ?? seen)
  }

  return {
    now: () => clock.monotonic() + offset(),
    earliestNow() {
      const now = clock.monotonic()
      return now + (known === undefined ? assumedOffset() - unknownMarginMs : drifted(known, now)[0])
    },
    isKnown: () => known !== undefined,
    aheadOfHostMs: () => offset() - hostOffset(),
    learn(response) {
      const seen = intervalOf(response)
      if (seen === undefined) return { movedMs: 0 }
      const { receivedAt } = response
      const interval = known === undefined ? seen : combine(drifted(known, receivedAt), seen)
      if (interval === undefined) return { movedMs: 0 }
      const before = known?.interval ?? [assumedOffset(), assumedOffset()]
      const movedMs = middle(interval) - middle(before)
      if (movedMs > jumpMs && isShownByHost(movedMs) && known !== undefined)
        suspended([interval[0] - before[1], interval[1] - before[0]], known.at)
      known = { interval, at: receivedAt, hostOffset: hostOffset() }
      pendingJump = undefined
      return { movedMs: gap(before, interval) === 0 ? 0 : Math.abs(movedMs) }
    },
    wasSuspended(by, since) {
      // After that time, it may have learned of it itself.
      if (known === undefined || (known.at > since && !isShownByHost(middle(by)))) return
      const [min, max] = known.interval
      known = { ...known, interval: [min + by[0], max + by[1]], hostOffset: hostOffset() }
    },
  }
}
