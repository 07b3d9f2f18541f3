// Limits of single subscriptions: a platform may limit the retries of one, and let those of others through. @see docs/architecture.md "Retry plan"
import TinyQueue from 'tinyqueue'
import { createLearnedLimit, type LearnedLimitOptions } from '../../platform/learned-limit.ts'
import { isRefusal, type RateReport } from '../../platform/rate-limiter.ts'
import type { Subscription, Subscriptions, Tally } from './subscriptions.ts'

/** A refused retry that was sent after the response to the previous one, and all responses before it. */
interface RefusedRetry {
  subscription: Subscription
  at: number
  /** Of its subscription, and of all without a limit of their own. */
  own: Tally
  all: Tally
}

export interface SubscriptionLimits {
  /** A retry of this subscription was sent. */
  sent(subscription: Subscription): void
  /** Learns from the response to a retry. Returns true if it is refused by a limit of its subscription alone. */
  learn(subscription: Subscription, report: RateReport): boolean
  /** When the next waiting subscription may be retried, monotonic ms; Infinity for none. */
  nextChangeAt(): number
}

/** The last refusals that are compared. */
const maxRefusals = 32
/** With a smaller probability, a limit of all does not explain that only these subscriptions were refused. */
const minChance = 0.04
/** A subscription keeps its own limit only while so many times as many of its retries are refused as of others. */
const minRatio = 3

const since = (now: Tally, then: Tally): Tally => ({
  served: now.served - then.served,
  refused: now.refused - then.refused,
})
const countOf = ({ refused, served }: Tally): number => refused + served

/**
 * A limit of all refuses each subscription as often as it is retried. So the refusals since any one of them are compared with the
 * share of the retries that the refused subscriptions had. Each refusal of one refused before is as probable as that share; its
 * square, if no retry of it was served in between. Returns the subscriptions that were refused again, with their first refusal.
 */
function refusedAlone(refusals: readonly RefusedRetry[], all: Tally): ReadonlyMap<Subscription, RefusedRetry> {
  const first = new Map<Subscription, RefusedRetry>()
  const again = new Map<Subscription, RefusedRetry>()
  let exponent = 0
  for (const refusal of refusals.toReversed()) {
    const { own, subscription } = refusal
    const next = first.get(subscription)
    if (next !== undefined) {
      again.set(subscription, refusal)
      exponent += next.own.served > own.served ? 1 : 2
    }
    first.set(subscription, refusal)
    const shareOf = (one: RefusedRetry): number =>
      countOf(since(one.subscription.tally, one.own)) / countOf(since(all, one.all))
    const share = first.values().reduce((sum, one) => sum + shareOf(one), 0)
    if (share ** exponent < minChance) return again
  }
  return new Map()
}

export function createSubscriptionLimits(
  subscriptions: Pick<Subscriptions, 'all'>,
  options: LearnedLimitOptions,
): SubscriptionLimits {
  const { clock, maxPerSecond } = options
  /** All responses of subscriptions without a limit of their own, and the last refusals among these. */
  const all: Tally = { served: 0, refused: 0 }
  let refusals: RefusedRetry[] = []
  /** Ends of waits, the next one first. */
  const ends = new TinyQueue<number>()

  /** Its rate or pause has changed. */
  function wait(subscription: Subscription): void {
    const limit = subscription.ownLimit?.limit
    limit?.refill()
    const waitMs = limit?.untilNextMs() ?? 0
    subscription.waitsUntil = waitMs === 0 ? -Infinity : clock.monotonic() + Math.ceil(waitMs)
    ends.push(subscription.waitsUntil)
  }

  function end(subscription: Subscription): void {
    subscription.ownLimit = undefined
    wait(subscription)
  }

  /** Where others are refused nearly as often, the limit is one of all. */
  function endOthers(): void {
    for (const subscription of subscriptions.all()) {
      const { ownLimit, tally } = subscription
      if (ownLimit === undefined) continue
      const [own, others] = [since(tally, ownLimit.own), since(all, ownLimit.all)]
      if (own.refused * countOf(others) < minRatio * others.refused * countOf(own)) end(subscription)
    }
  }

  /** One without a limit of its own was refused: which ones are refused alone? */
  function compare(): void {
    const alone = refusedAlone(refusals, all)
    refusals = refusals.filter((one) => !alone.has(one.subscription))
    for (const [one, { all: allBefore, own: before }] of alone) {
      const own = since(one.tally, before)
      const withOwn = { served: allBefore.served + own.served, refused: allBefore.refused + own.refused }
      const limit = createLearnedLimit(options)
      one.ownLimit = { limit, refusedSince: clock.monotonic(), own: before, all: withOwn }
    }
    endOthers()
  }

  /** Counts a response, and finds out whether its subscription has a limit of its own. */
  function count(subscription: Subscription, report: RateReport): void {
    const { ownLimit, tally } = subscription
    const name = isRefusal(report) ? 'refused' : 'served'
    // Calls sent before the response to a refused one were refused by the same limit, at the same time.
    const isNews = report.sentAt > (refusals.at(-1)?.at ?? -Infinity)
    const isCompared = name === 'refused' && isNews && ownLimit === undefined
    if (isCompared) refusals.push({ subscription, at: clock.monotonic(), own: { ...tally }, all: { ...all } })
    tally[name] += 1
    if (ownLimit === undefined) all[name] += 1
    if (refusals.length > maxRefusals) refusals.shift()
    if (isCompared) compare()
  }

  return {
    sent(subscription) {
      const limit = subscription.ownLimit?.limit
      if (limit === undefined) return
      limit.refill()
      limit.bucket.level -= 1
      wait(subscription)
    },
    learn(subscription, report) {
      count(subscription, report)
      const { ownLimit } = subscription
      if (ownLimit === undefined) return false
      const { limit } = ownLimit
      limit.refill()
      if (isRefusal(report)) {
        limit.refused(report)
        ownLimit.refusedSince ??= clock.monotonic()
      } else if (report.kind === 'ok') {
        limit.succeeded()
        ownLimit.refusedSince = undefined
      }
      if (limit.perSecond() === maxPerSecond) end(subscription)
      else wait(subscription)
      return isRefusal(report)
    },
    nextChangeAt() {
      while ((ends.peek() ?? Infinity) <= clock.monotonic()) ends.pop()
      return ends.peek() ?? Infinity
    },
  }
}
