// The rate of calls is halved once for each burst of throttling, and comes back slowly. @see docs/architecture.md "Retry plan"
import type { Call, Told } from '../network.ts'
import type { Sight, Watcher, WatcherOptions } from './watcher.ts'

/** Of the maximum, per second. */
const recovery = 0.05
const lowest = 1
/** Waits in between, in which the rate does not come back, are only known roughly. */
const tolerance = 0.02

export function createRateWatcher({ config, exercise, timeline, violate }: WatcherOptions): Watcher {
  const most = config.platform.maxRequestsPerSecond
  /** As low and as high as it can be: where the rate stands still, it is not known for sure. */
  let low = most
  let high = most
  let at = timeline.now()
  let cutAt = -Infinity
  /** Nothing may go out, and the rate does not come back, until here at most. */
  let waitsUntil = -Infinity

  function goOn(): void {
    const now = timeline.now()
    high = Math.min(most, high + ((now - at) / 1000) * recovery * most)
    low = Math.min(most, low + (Math.max(0, now - Math.max(at, waitsUntil)) / 1000) * recovery * most)
    at = now
  }

  function learn(call: Call, told: Told): void {
    const { code, retryAfterMs, status } = told
    if (status !== 429 && (status !== 503 || code !== undefined)) return
    goOn()
    if (call.sentAt > cutAt) {
      low = Math.max(Math.min(lowest, most), low / 2)
      high = Math.max(Math.min(lowest, most), high / 2)
      cutAt = timeline.now()
      exercise('the rate is cut')
    } else {
      exercise('the rate is cut once in a burst')
    }
    // Without a Retry-After the wait doubles with each throttling; at most it is five minutes.
    waitsUntil = Math.max(waitsUntil, timeline.now() + (retryAfterMs ?? (status === 429 ? 300_000 : 0)))
  }

  return {
    told(call, told) {
      if ((call.operation === 'list' || call.operation === 'retry') && told.kind !== 'given-up') learn(call, told)
    },
    scraped({ metrics }: Sight) {
      goOn()
      const shown = metrics.get('platform_request_rate_limit') ?? 0
      if (shown < low - tolerance * most)
        violate('limits', `shows a rate of ${shown}, it is at least ${low.toFixed(3)}`)
      if (shown > high + tolerance * most)
        violate('limits', `shows a rate of ${shown}, it is at most ${high.toFixed(3)}`)
    },
  }
}
