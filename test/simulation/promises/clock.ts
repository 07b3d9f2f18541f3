// The difference between the clocks is shown as it is, also after one of them was set. @see docs/architecture.md "Time"
import type { Watcher, WatcherOptions } from './watcher.ts'

/** A jump is believed after three answers that agree; some may have been under way. */
const answersForJump = 12

export function createClockWatcher(options: WatcherOptions): Watcher {
  const { exercise, expectations, platform, scenario, timeline, violate } = options
  const toleranceMs = expectations.clockTolerance + 1000
  /** Answers with the time since the server's clock was last set. */
  const answers = { auth: 0, api: 0 }
  let isSet = false
  for (const { at } of scenario.platformJumps) {
    timeline.after(at - timeline.now(), () => {
      answers.api = 0
      isSet = true
    })
  }

  function hostNow(): number {
    const set = scenario.jumps.reduce((sum, { at, ms }) => (at <= timeline.now() ? sum + ms : sum), 0)
    return scenario.startAt + timeline.now() + scenario.hostAheadMs + set
  }

  return {
    told({ operation }, { hasDate, kind }) {
      if (!hasDate || kind === 'given-up' || operation === 'health') return
      answers[operation === 'token' ? 'auth' : 'api'] += 1
    },
    scraped({ metrics }) {
      const truth = {
        auth: scenario.startAt + timeline.now() + scenario.habits.identityAheadMs - hostNow(),
        api: platform.now() - hostNow(),
      }
      for (const origin of ['auth', 'api'] as const) {
        if (answers[origin] < (isSet && origin === 'api' ? answersForJump : 1)) continue
        exercise('the difference between the clocks is shown')
        const shown = 1000 * (metrics.get(`clock_skew_seconds{origin="${origin}"}`) ?? NaN)
        if (!(Math.abs(shown - truth[origin]) <= toleranceMs))
          violate('books', `shows a clock skew of ${shown} ms for ${origin}, it is ${truth[origin]}`)
      }
    },
  }
}
