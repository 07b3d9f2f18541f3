// A clock that stands still until a test moves it, so that hours pass in milliseconds and in the same order each time.
import TinyQueue from 'tinyqueue'
import { sleepBy, type Clock } from '../../src/runtime/clock.ts'

export interface VirtualClock extends Clock {
  /**
   * Moves both clocks on by `ms`, waking sleepers in the order of their time (first come, first served at the same
   * time), and lets everything that hangs on each of them settle before the next. It stands still once `isOver` says so.
   */
  advance(ms: number, isOver?: () => boolean): Promise<void>
  /**
   * Moves on from sleeper to sleeper until the promise is settled, and gives what it gave.
   * Rejects when it takes more than `limitMs` of virtual time (default a day), or when no sleeper is left and real I/O
   * does not bring it on within a few seconds either.
   */
  run<T>(promise: Promise<T>, limitMs?: number): Promise<T>
  /** Lets promise chains (and the real I/O that is ready) settle; the time stands still. */
  settle(): Promise<void>
  /** The host's wall clock is set: `now()` moves by `ms` (either way), durations don't notice. */
  jump(ms: number): void
  /** How many are asleep: 0 after everything was stopped, or something leaked. */
  sleepers(): number
  /** Milliseconds until the next one wakes up; undefined when no sleeper is left. */
  nextWake(): number | undefined
}

interface Sleeper {
  dueAt: number
  order: number
  /** Cancelled, or over: an entry that is still in the queue counts no more. */
  gone: boolean
  wake: () => void
}

/** More timers than this without the time moving are a loop that would burn a core. */
const hotLoopTimers = 100_000
const defaultLimitMs = 24 * 60 * 60 * 1000
/** How often `run` looks again for a promise that waits for real I/O: a few seconds in all. */
const patience = 2_000

/** A virtual clock. `startMs` is the wall clock at the start, in epoch ms. */
export function createVirtualClock(startMs = Date.UTC(2026, 0, 15, 12)): VirtualClock {
  const queue = new TinyQueue<Sleeper>([], (a, b) => a.dueAt - b.dueAt || a.order - b.order)
  let asleep = 0
  // Neither 0 nor the wall clock: who mixes the two clocks up shall be found out.
  let monotonic = 5_000_000
  let wallOffset = startMs - monotonic
  let order = 0
  let timersHere = 0

  function next(): Sleeper | undefined {
    while (queue.peek()?.gone === true) queue.pop()
    return queue.peek()
  }

  function moveTo(time: number): void {
    if (time > monotonic) timersHere = 0
    monotonic = Math.max(monotonic, time)
  }

  /** All promises that are ready have had their turn when the next round of the event loop begins. */
  const settle = (): Promise<void> =>
    new Promise((resolve) => {
      setImmediate(resolve)
    })

  async function wakeNext(sleeper: Sleeper): Promise<void> {
    moveTo(sleeper.dueAt)
    queue.pop()
    sleeper.gone = true
    asleep--
    sleeper.wake()
    await settle()
  }

  function countHere(): void {
    if (++timersHere > hotLoopTimers) throw new Error('hot loop: it sets timers but the time does not move')
  }

  function timer(ms: number, act: () => void): () => void {
    countHere()
    const sleeper: Sleeper = { dueAt: monotonic + Math.max(0, ms || 0), order: order++, gone: false, wake: act }
    queue.push(sleeper)
    asleep++
    return () => {
      if (sleeper.gone) return
      sleeper.gone = true
      asleep--
    }
  }

  const sleepOn = sleepBy(timer)
  async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
    countHere()
    await sleepOn(ms, signal)
  }

  async function advance(ms: number, isOver = (): boolean => false): Promise<void> {
    const target = monotonic + ms
    await settle()
    for (let first = next(); first !== undefined && first.dueAt <= target && !isOver(); first = next())
      await wakeNext(first)
    if (isOver()) return
    moveTo(target)
    await settle()
  }

  async function run<T>(promise: Promise<T>, limitMs = defaultLimitMs): Promise<T> {
    const limit = monotonic + limitMs
    let settled = false
    const done = (): void => {
      settled = true
    }
    promise.then(done, done)
    await settle()
    for (let idle = 0; !settled;) {
      const first = next()
      if (first === undefined) {
        if (++idle > patience) throw new Error('the promise is not settled, and no sleeper is left')
        await settle()
        await new Promise((resolve) => setTimeout(resolve, 1))
        continue
      }
      idle = 0
      if (first.dueAt > limit) throw new Error(`the promise is not settled after ${limitMs} ms of virtual time`)
      await wakeNext(first)
    }
    return promise
  }

  return {
    now: () => monotonic + wallOffset,
    monotonic: () => monotonic,
    timer,
    sleep,
    advance,
    run,
    settle,
    jump(ms) {
      wallOffset += ms
    },
    sleepers: () => asleep,
    nextWake() {
      const first = next()
      return first === undefined ? undefined : first.dueAt - monotonic
    },
  }
}
