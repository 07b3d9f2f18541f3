// Ticks come in time however the host's clock is set, and none is made up for: a clock that leaps over years is no reason to work for years.
import type { Watcher, WatcherOptions } from './watcher.ts'

/** Until a clock that was set is noticed. */
const noticeMs = 10_000

export function createTicksWatcher({ exercise, scenario, timeline, violate }: WatcherOptions): Watcher {
  const { jumps, periodMs } = scenario
  const startedAt = timeline.now()
  let tickedAt = startedAt
  let ticks = 0
  const jumpsSince = (at: number): number => jumps.filter((jump) => jump.at > at && jump.at <= timeline.now()).length

  function check(): void {
    const gapMs = timeline.now() - tickedAt
    if (gapMs > 2 * periodMs + noticeMs) violate('alive', `has had no tick for ${Math.round(gapMs)} ms`)
  }

  return {
    ticked() {
      check()
      if (jumpsSince(tickedAt) > 0) exercise('a clock that is set holds no tick up')
      tickedAt = timeline.now()
      ticks += 1
      // One more for each jump, which may be noticed twice, and one by its jitter.
      const most = 2 + (timeline.now() - startedAt) / periodMs + 2 * jumpsSince(startedAt)
      if (ticks > most) violate('limits', `has had ${ticks} ticks, ${Math.floor(most)} are due`)
    },
    scraped: check,
  }
}
