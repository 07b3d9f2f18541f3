// What a sweep lists: all of the window, its newest hour, or what had no room before; and what the backlog learns of it. @see design section 8
import type { Clock } from '../clock.ts'
import type { PlatformClient } from '../platform/client.ts'
import type { Reason } from '../platform/http.ts'
import type { Zone } from '../platform/local-time.ts'
import type { UnreadableRow } from '../platform/record.ts'
import type { Backlog } from './backlog.ts'
import type { Count } from './census.ts'
import type { Dispatcher, TimeOffsetFact } from './dispatch.ts'
import type { Listing } from './listing.ts'
import type { Policy } from './policy.ts'
import { isPlatformTrouble } from './platform-trouble.ts'
import { sweep } from './sweep.ts'
import { newestHour, slidingWindow, type Span } from './window.ts'

export type PassFact =
  | { type: 'slice-skipped'; sweepId: string; span: Span; reason: Reason }
  | { type: 'unreadable'; sweepId: string; rows: readonly UnreadableRow[] }
  | { type: 'unexpected'; sweepId: string; time: number; status: number }
  | { type: 'early-at-limit'; sweepId: string; records: number }
  | TimeOffsetFact

export interface PassOptions {
  client: PlatformClient
  backlog: Backlog
  dispatcher: Pick<Dispatcher, 'offer' | 'fence'>
  policy: Policy
  zone: Zone
  clock: Clock
  sliceRecords: number
  concurrency: number
  maxRecords: number
  report: (fact: PassFact) => void
}

/** What a sweep has seen so far. */
export interface Tally {
  slices: number
  /** Failed records listed. */
  listed: number
  /** Slices that were not seen whole, and slices that could not be listed at all. */
  incompleteSlices: number
  skippedSlices: number
}

/** One sweep under way. */
export interface Pass {
  sweepId: string
  tally: Tally
  signal: AbortSignal
}

/** Each rejects with PlatformFailure or TokenError when the platform can't be listed, or with the signal's reason. */
export interface Passes {
  window(): Span
  /** The newest hour first, then the oldest slices upwards. `onNewest` is called when the newest hour is listed. */
  full(pass: Pass, onNewest: () => void): Promise<void>
  newest(pass: Pass): Promise<void>
  /** Goes on from the oldest records that had to be left out until the backlog is full. */
  leftOut(pass: Pass): Promise<void>
  /** Failed records beyond the window, as the last full pass saw them. */
  beyondWindow(): number
}

export function createPasses(options: PassOptions): Passes {
  const { backlog, client, clock, dispatcher, policy, report, zone } = options
  let beyondWindow = 0
  let hasAskedTime = false

  /** The platform's time comes with its answers: before the first one, a wrong host clock would move the window. */
  async function learnTime(signal: AbortSignal): Promise<void> {
    if (hasAskedTime || client.knowsTime()) return
    await client.list({ status: 'failed', page: 0, size: 1 }, signal)
    hasAskedTime = true
  }

  function absorb(listed: Listing, count: Count, { sweepId, tally }: Pass): void {
    const learned = backlog.learn(listed, client.now(), count)
    dispatcher.offer(learned.changed)
    tally.listed += listed.records.length
    if (!listed.complete) tally.incompleteSlices += 1
    if (listed.unreadable.length > 0) report({ type: 'unreadable', sweepId, rows: listed.unreadable })
    const { time, status } = listed.unexpected
    if (time + status > 0) report({ type: 'unexpected', sweepId, time, status })
    if (learned.offsets.length > 0) report({ type: 'time-offset', offsets: learned.offsets })
    if (learned.earlyAtLimit > 0) report({ type: 'early-at-limit', sweepId, records: learned.earlyAtLimit })
  }

  async function list(span: Span, count: Count, pass: Pass): Promise<void> {
    const { concurrency, sliceRecords } = options
    const fence = (fenced: Span, ended: AbortSignal): Promise<() => void> => dispatcher.fence(fenced, ended)
    const monotonic = (): number => clock.monotonic()
    for await (const step of sweep([span], { client, monotonic, concurrency, sliceRecords, fence }, pass.signal)) {
      pass.tally.slices += 1
      if ('listed' in step) absorb(step.listed, count, pass)
      else {
        pass.tally.skippedSlices += 1
        report({ type: 'slice-skipped', sweepId: pass.sweepId, ...step.skipped })
      }
    }
  }

  /** Lists a span for a new count of it, or of everything. */
  async function recount(span: Span | undefined, body: (count: Count) => Promise<void>): Promise<void> {
    const count = backlog.census.begin(span)
    try {
      await body(count)
    } catch (error) {
      count.abandon()
      throw error
    }
    count.commit()
  }

  /** Counts what lies before the window: nobody retries it any more. The sweep does not depend on it. */
  async function countBeyond(start: number, signal: AbortSignal): Promise<void> {
    try {
      const page = await client.list({ status: 'failed', to: start - 1, page: 0, size: 1 }, signal)
      const isBeyond = page.records.every(({ eventLocal }) => Math.floor(eventLocal / 1000) < start)
      if (isBeyond) beyondWindow = page.total ?? beyondWindow
    } catch (error) {
      if (!isPlatformTrouble(error)) throw error
    }
  }

  return {
    window: () => slidingWindow(client.now(), policy.window, zone),
    async full(pass, onNewest) {
      await learnTime(pass.signal)
      const now = client.now()
      const whole = slidingWindow(now, policy.window, zone)
      const newest = newestHour(now, policy.window, zone)
      await recount(undefined, async (count) => {
        await list(newest, count, pass)
        onNewest()
        await list({ from: whole.from, to: newest.from }, count, pass)
      })
      await countBeyond(whole.from, pass.signal)
    },
    async newest(pass) {
      await learnTime(pass.signal)
      const span = newestHour(client.now(), policy.window, zone)
      await recount(span, (count) => list(span, count, pass))
    },
    async leftOut(pass) {
      const whole = slidingWindow(client.now(), policy.window, zone)
      while (backlog.size() < options.maxRecords) {
        const span = backlog.census.oldestLeftOut()
        if (span === undefined) return
        const inside = { from: Math.max(span.from, whole.from), to: Math.min(span.to, whole.to) }
        await recount(span, (count) => list(inside, count, pass))
      }
    },
    beyondWindow: () => beyondWindow,
  }
}
