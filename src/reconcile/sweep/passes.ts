// What a sweep lists: all of the window, its newest hour, or what had no room before; and what the backlog learns of it. @see design section 8
import type { Clock } from '../../runtime/clock.ts'
import type { PlatformClient } from '../../platform/client.ts'
import type { Reason } from '../../platform/http.ts'
import type { Zone } from '../../platform/local-time.ts'
import type { UnreadableRow } from '../../platform/record.ts'
import type { Backlog } from '../retry/backlog.ts'
import { createBeyond, type AwayFact } from './beyond.ts'
import type { Count } from '../retry/census.ts'
import type { Outcomes } from '../confirm/outcomes.ts'
import type { Dispatcher } from '../retry/dispatcher.ts'
import type { Listing } from './list-slice.ts'
import type { Policy } from '../policy.ts'
import { isPlatformTrouble } from '../platform-trouble.ts'
import { createStuck } from './stuck.ts'
import { sweep } from './sweep.ts'
import { newestHour, slidingWindow, type Span } from '../window.ts'

export type PassFact =
  | { type: 'slice-skipped'; sweepId: string; span: Span; reason: Reason }
  | { type: 'unreadable'; sweepId: string; rows: readonly UnreadableRow[] }
  | { type: 'unexpected'; sweepId: string; time: number; status: number }
  | { type: 'early-at-limit'; sweepId: string; records: number }
  /** Records known to us and selected that left the window, neither recovered nor awaited. */
  | { type: 'lapsed'; records: number }
  | AwayFact

export interface PassOptions {
  client: PlatformClient
  backlog: Backlog
  outcomes: Pick<Outcomes, 'see'>
  dispatcher: Pick<Dispatcher, 'changed' | 'fence' | 'sawAll'>
  policy: Policy
  zone: Zone
  clock: Clock
  sliceRecords: number
  concurrency: number
  maxRecords: number
  /** How long a record may be processing before it counts as stuck. */
  stuckAfterMs: number
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

/** How a full pass differs from the others. */
export interface FullOptions {
  /** Called when the newest hour is listed. */
  onNewest: () => void
  /** How long no full pass had ended well, when that is longer than it should be. */
  blindForMs: number | undefined
}

/** The passes reject with PlatformFailure or TokenError when the platform can't be listed, or with the signal's reason. */
export interface Passes {
  /** Forgets what has left the window, and tells it. Every pass begins with it. */
  forget(): void
  /** The newest part first, then the oldest slices upwards; then what lies beyond, and what is stuck. */
  full(pass: Pass, options: FullOptions): Promise<void>
  /** The newest hour, and what lies between it and the newest part that was listed last. */
  newest(pass: Pass): Promise<void>
  /** Goes on from the oldest records that had to be left out until the backlog is full. */
  leftOut(pass: Pass): Promise<void>
  /** Failed records beyond the window, as the last full pass saw them. */
  beyondWindow(): number
  /** Records that have been processing for too long, as the last full pass saw them. */
  stuckProcessing(): number
}

export function createPasses(options: PassOptions): Passes {
  /** Local second at which the newest part that was listed last ended. */
  let newestSeenTo: number | undefined
  const { backlog, client, clock, dispatcher, outcomes, policy, report, zone } = options
  const { window } = policy
  const beyond = createBeyond({ client, window, zone, report })
  const stuck = createStuck({ ...options, window })
  let hasAskedTime = false
  /** Local second: what lies before it is forgotten. */
  let forgottenBefore = -Infinity

  /** The platform's time comes with its answers: before the first one, a wrong host clock would move the window. */
  async function learnTime(signal: AbortSignal): Promise<void> {
    if (hasAskedTime || client.knowsTime()) return
    await client.list({ status: 'failed', page: 0, size: 1 }, signal)
    hasAskedTime = true
  }

  /** Returns the window as it is now. */
  function forget(): Span {
    const present = slidingWindow(client.now(), window, zone)
    forgottenBefore = present.from
    // The census first: the backlog has it forget too, and does not say how much.
    const counted = backlog.census.forgetBefore(present.from)
    const records = counted + backlog.forgetBefore(present.from).length
    if (records > 0) report({ type: 'lapsed', records })
    return present
  }

  /** From where the last one ended, so that no gap is left between two. */
  function newestPart(): Span {
    return newestHour(client.now(), window, zone, newestSeenTo)
  }

  /** Without what has left the window while its slice waited to be listed: it would come back, and lapse once more. */
  function inWindow(listed: Listing): Listing {
    if (listed.span.from >= forgottenBefore) return listed
    const records = listed.records.filter(({ eventLocal }) => Math.floor(eventLocal / 1000) >= forgottenBefore)
    return { ...listed, records }
  }

  function absorb(whole: Listing, count: Count, { sweepId, tally }: Pass): void {
    const listed = inWindow(whole)
    const now = client.now()
    const learned = backlog.learn(listed, now, count)
    if (learned.changed.length > 0) dispatcher.changed()
    const { askedAt } = listed
    for (const { record, shown } of learned.awaiting) {
      outcomes.see(record, shown, { askedAt, monotonic: askedAt, seenAt: now })
    }
    tally.listed += listed.records.length
    if (!listed.complete) tally.incompleteSlices += 1
    if (listed.unreadable.length > 0) report({ type: 'unreadable', sweepId, rows: listed.unreadable })
    const { time, status } = listed.unexpected
    if (time + status > 0) report({ type: 'unexpected', sweepId, time, status })
    if (learned.earlyAtLimit > 0) report({ type: 'early-at-limit', sweepId, records: learned.earlyAtLimit })
  }

  async function list(span: Span, count: Count, pass: Pass): Promise<void> {
    const { concurrency, sliceRecords } = options
    const monotonic = (): number => clock.monotonic()
    const fence = async (fenced: Span, ended: AbortSignal): Promise<() => void> => {
      const release = await dispatcher.fence(fenced, ended)
      const close = backlog.openListing(monotonic())
      return () => {
        close()
        release()
      }
    }
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

  /** What a full pass asks besides: the sweep does not depend on it. */
  async function besides(look: Promise<void>): Promise<void> {
    try {
      await look
    } catch (error) {
      if (!isPlatformTrouble(error)) throw error
    }
  }

  return {
    forget,
    async full(pass, { onNewest, blindForMs }) {
      if (blindForMs !== undefined) beyond.wasBlind(blindForMs)
      await learnTime(pass.signal)
      const whole = forget()
      const newest = newestPart()
      await recount(undefined, async (count) => {
        await list(newest, count, pass)
        newestSeenTo = newest.to
        onNewest()
        await list({ from: whole.from, to: newest.from }, count, pass)
      })
      await besides(beyond.look(whole, pass.signal))
      await besides(stuck.look(pass.signal))
    },
    async newest(pass) {
      await learnTime(pass.signal)
      forget()
      const span = newestPart()
      await recount(span, (count) => list(span, count, pass))
      newestSeenTo = span.to
    },
    async leftOut(pass) {
      forget()
      while (backlog.size() < options.maxRecords) {
        const span = backlog.census.oldestLeftOut()
        if (span === undefined) return
        const whole = slidingWindow(client.now(), window, zone)
        const inside = { from: Math.max(span.from, whole.from), to: Math.min(span.to, whole.to) }
        await recount(span, async (count) => {
          await list(inside, count, pass)
          // Also a part that can't be listed is done with: it would be gone on from again and again. Not before the end:
          // records that leave the window meanwhile are still told by the count before.
          count.cover(span)
        })
      }
    },
    beyondWindow: () => beyond.records(),
    stuckProcessing: () => stuck.records(),
  }
}
