// Virtual time: what is to happen stands in one queue, and happens in the order of its time, with everything that hangs on it.
import TinyQueue from 'tinyqueue'

export interface Timeline {
  /** Milliseconds since the start. */
  now(): number
  /** The same as a process's monotonic clock shows it: neither from 0 nor the wall clock, so that no two can be mixed up. */
  monotonic(): number
  /** Lets something happen after `ms` milliseconds (0: after all that stands at this moment). Returns what calls it off. */
  after(ms: number, act: () => void): () => void
  /**
   * Goes on until `isOver` says so, nothing is left to happen, or the time is up; then the time stands there.
   * All that an event sets free in promises is done before the next one.
   */
  run(until: number, isOver: () => boolean): Promise<void>
}

interface Event {
  at: number
  order: number
  isOff: boolean
  act: () => void
}

const monotonicStart = 5_000_000
/** More events than this without the time moving are a loop that would burn a core. */
const hotLoop = 20_000

/** All promises that are ready have had their turn when the next round of the event loop begins. */
function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

export function createTimeline(): Timeline {
  const queue = new TinyQueue<Event>([], (a, b) => a.at - b.at || a.order - b.order)
  let now = 0
  let order = 0
  let eventsHere = 0

  function next(): Event | undefined {
    while (queue.peek()?.isOff === true) queue.pop()
    return queue.peek()
  }

  function moveTo(time: number): void {
    eventsHere = time > now ? 0 : eventsHere + 1
    if (eventsHere > hotLoop) throw new Error('hot loop: much happens, but the time does not move')
    now = time
  }

  return {
    now: () => now,
    monotonic: () => monotonicStart + now,
    after(ms, act) {
      const event: Event = { at: now + Math.max(0, ms), order: order++, isOff: false, act }
      queue.push(event)
      return () => {
        event.isOff = true
      }
    },
    async run(until, isOver) {
      await settle()
      for (let event = next(); event !== undefined && event.at <= until && !isOver(); event = next()) {
        queue.pop()
        event.isOff = true
        moveTo(event.at)
        event.act()
        await settle()
      }
      if (!isOver()) now = Math.max(now, until)
    },
  }
}
