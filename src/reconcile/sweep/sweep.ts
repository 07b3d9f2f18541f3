// Lists the failed records of a span, slice by slice: cuts large slices, and skips seconds that can't be listed. @see docs/architecture.md "Sweep"
import type { PlatformFailure } from '../../platform/http/response.ts'
import type { PlatformClient } from '../../platform/client.ts'
import {
  asked,
  isOfSlice,
  listSlice,
  shortSliceSeconds,
  statusFilter,
  type Listed,
  type Listing,
} from './list-slice.ts'
import { createUnlistable, type PlannedSpan, type Unlistable } from './unlistable.ts'
import type { Dispatcher } from '../retry/dispatcher.ts'
import { cut, isEmpty, type Span } from '../window.ts'

/** A part of the span that could not be listed, or not completely: one second with too many records. */
export interface SkippedSlice {
  span: Span
  /** Undefined for too many records. */
  failure?: PlatformFailure | undefined
  /** True if it was not tried, because it was unlistable before. */
  isResting?: true
}

export interface SweepOptions {
  client: Pick<PlatformClient, 'list' | 'ping'>
  /** Status of the records to list. Default: failed. */
  status?: Listed
  monotonic: () => number
  /** Pages requested at the same time. */
  concurrency: number
  /** A slice with more than twice as many records is cut into parts of about this many. */
  sliceRecords: number
  /**
   * Blocks retries in a span that is being listed, and waits for those in flight. Without it, a retried record would leave the
   * list between two pages, and shift others out of sight. Default: no retry is blocked.
   */
  fence?: Dispatcher['fence'] | undefined
  /** Called before each slice, while nothing is being listed. */
  betweenSlices?: (signal: AbortSignal) => Promise<void>
  /** The parts that earlier sweeps could not list. Default: none. */
  unlistable?: Unlistable
  /** Earliest first, whatever fails: a page's cursor relies on it. Default: later halves first, because platforms reject old spans. */
  inOrder?: boolean | undefined
}

/** Result of a part of the sweep: a listed slice, a skipped one, or both if it was listed in part. */
export interface SweepStep {
  listed?: Listing
  skipped?: SkippedSlice
}

/** Maximum number of parts of a slice, whatever total the platform reports. */
const maxParts = 1000
/** Failing slices are cut in two until this many have failed; later ones are skipped. */
const maxFailedSlices = 200
/**
 * After this many consecutive failures, each of a slice no shorter than the one before, nothing is cut until one succeeds: the
 * problem is a part of the window, or all of it, not one record.
 */
const maxInARow = 8
/** The first of this many consecutive failures asks whether the platform responds at all. */
const askEvery = 8
/** No event lies this far ahead of the listed ones. */
const farAheadSeconds = 10 * 365 * 86_400
/** A limit on the length of slices is at least this long. */
const minLimitSeconds = 1800
/** In a span at least this long, the requests for the first and the last second can't cover the same records. */
const minCheckedSeconds = 5

/** State of one sweep. */
interface Findings {
  failedSlices: number
  /** Failures since the last success: all, and those no shorter than the one before. */
  failedInARow: number
  noShorterInARow: number
  lastSeconds: number
  /** Maximum length of a slice, as far as known: two halves could be listed, although the whole could not. */
  maxSeconds: number
  /** False once the totals turned out to ignore the slice. */
  totalsCount: boolean
  totalsChecked: boolean
}

const noFailures = { failedInARow: 0, noShorterInARow: 0, lastSeconds: Infinity }

interface Context {
  options: SweepOptions & { unlistable: Unlistable }
  /** The span's end. */
  end: number
  findings: Findings
  signal: AbortSignal
}

/** If responses are too large, a list without rows shows whether the platform works. Rejects if it does not respond at all. */
async function responds({ options, signal }: Context, failed: Span, { reason }: PlatformFailure): Promise<boolean> {
  if (reason !== 'too-large') {
    await options.client.ping(signal)
    return true
  }
  const empty = { from: failed.to + farAheadSeconds, to: failed.to + farAheadSeconds + 1 }
  const page = await options.client.list({ status: 'failed', ...empty, page: 0, size: 1 }, signal)
  return page.unreadable.length === 0
}

/**
 * Requests the first and the last second of a slice. If both have the total of the whole slice, the platform ignores the
 * bounds, in its totals or altogether, and cutting would never end. Done once per sweep, for an odd total.
 */
async function checkTotals(span: Span, total: number, context: Context): Promise<void> {
  const { findings, options, signal } = context
  if (findings.totalsChecked || span.to - span.from < minCheckedSeconds) return
  findings.totalsChecked = true
  for (const second of [span.from, span.to - 1]) {
    const end = { from: second, to: second + 1 }
    const page = await options.client.list({ ...statusFilter(options.status), ...asked(end), page: 0, size: 1 }, signal)
    if (page.total !== total) return
  }
  findings.totalsCount = false
}

/** The parts of a slice that is cut: about `sliceRecords` records each, and not too short. */
function partsOf(span: Span, total: number, sliceRecords: number): Span[] {
  const seconds = span.to - span.from
  const byTime = seconds > shortSliceSeconds ? Math.max(2, Math.floor(seconds / shortSliceSeconds)) : seconds
  return cut(span, Math.min(Math.ceil(total / sliceRecords), byTime, maxParts))
}

/** Lists one slice, or returns its parts if it must be cut. */
async function visit(span: Span, context: Context): Promise<SweepStep | Span[]> {
  const { options, findings, signal } = context
  const { client, monotonic, concurrency, sliceRecords, status = 'failed' } = options
  const { totalsCount } = findings
  const how = { client, monotonic, status, concurrency, maxRecords: 2 * sliceRecords, totalsCount }
  const listing = await listSlice(span, how, signal)
  const { total, verdict } = listing
  const isTooMany = verdict === 'too-many'
  if (total !== undefined && (verdict === 'missed' || isTooMany)) await checkTotals(span, total, context)
  // The total turned out to exceed the slice: once more without it.
  if (total !== undefined && !findings.totalsCount) return [span]
  if (isTooMany) return partsOf(span, total ?? 2 * sliceRecords + 1, sliceRecords)
  Object.assign(findings, noFailures)
  return { listed: listing, ...(verdict === 'capped' && { skipped: { span, failure: listing.failure } }) }
}

/** A slice that may be half of one that could not be listed. */
interface SliceAhead extends PlannedSpan {
  whole?: { seconds: number; listedHalves: number }
}

/**
 * Repeats the first failing slice in a row, because the platform may have failed for a moment. Cuts others in two, as long as
 * the platform responds; skips the rest, or in order all but its end.
 */
async function goRound(
  slice: SliceAhead,
  failure: PlatformFailure,
  context: Context,
): Promise<SweepStep | SliceAhead[]> {
  const { end, findings, options } = context
  if (findings.failedInARow % askEvery === 0 && !(await responds(context, slice, failure))) throw failure
  findings.failedInARow += 1
  if (findings.failedInARow === 1 && slice.whole === undefined && slice.uncut !== true) return [slice]
  const skipped = { skipped: { span: { from: slice.from, to: slice.to }, failure } }
  if (slice.uncut === true) return skipped
  findings.failedSlices += 1
  const seconds = slice.to - slice.from
  if (seconds >= findings.lastSeconds) findings.noShorterInARow += 1
  findings.lastSeconds = seconds
  const isGivenUp = findings.noShorterInARow > maxInARow || findings.failedSlices > maxFailedSlices
  // The platform may list only the last days.
  const isRest = options.inOrder === true && slice.to === end
  if (seconds <= 1 || (isGivenUp && !isRest)) return skipped
  const whole = { seconds, listedHalves: 0 }
  const halves = cut(slice, 2).map((half): SliceAhead =>
    isGivenUp && half.to !== end ? { ...half, uncut: true } : { ...half, whole },
  )
  return options.inOrder === true ? halves : halves.reverse()
}

/** Learns how long a span the platform lists at once. Lists that fail at random suggest a limit, too, so it has a minimum. */
function noteListed({ whole, ...slice }: SliceAhead, { findings, options }: Context): void {
  options.unlistable.listed(slice)
  if (whole === undefined) return
  whole.listedHalves += 1
  const halfSeconds = Math.ceil(whole.seconds / 2)
  if (whole.listedHalves === 2 && halfSeconds >= minLimitSeconds)
    findings.maxSeconds = Math.min(findings.maxSeconds, halfSeconds)
}

async function step(slice: SliceAhead, context: Context): Promise<SweepStep | SliceAhead[]> {
  try {
    const visited = await visit({ from: slice.from, to: slice.to }, context)
    if (!Array.isArray(visited) && visited.skipped?.failure === undefined) noteListed(slice, context)
    return visited
  } catch (error) {
    if (!isOfSlice(error)) throw error
    return goRound(slice, error, context)
  }
}

/** A retry in the slice may have shifted a record out of sight. */
function withMissed({ listed, ...step }: SweepStep): SweepStep {
  if (listed === undefined) return step
  return { ...step, listed: { ...listed, verdict: listed.verdict === 'whole' ? 'missed' : listed.verdict } }
}

/**
 * Lists a span from its earliest slice upwards. Retries stay blocked in a slice and its extra seconds
 * until the next slice is requested. @throws PlatformFailure or TokenError if the platform does not respond at all,
 * FiltersIgnored, or the signal's reason
 */
export async function* sweep(whole: Span, given: SweepOptions, signal: AbortSignal): AsyncGenerator<SweepStep> {
  const { unlistable = createUnlistable(given.monotonic) } = given
  const options = { ...given, unlistable }
  const findings: Findings = {
    ...noFailures,
    ...{ failedSlices: 0, maxSeconds: Infinity, totalsCount: true, totalsChecked: false },
  }
  const context: Context = { options, end: whole.to, findings, signal }
  const { ahead: planned, resting } = unlistable.plan(whole)
  for (const { failure, span } of resting) yield { skipped: { span, failure, isResting: true } }
  const ahead: SliceAhead[] = planned.filter((span) => !isEmpty(span))
  for (let slice = ahead.shift(); slice !== undefined; slice = ahead.shift()) {
    const { uncut } = slice
    const pieces = cut(slice, Math.ceil((slice.to - slice.from) / findings.maxSeconds))
    if (pieces.length > 1) {
      ahead.unshift(...pieces.map((piece) => ({ ...piece, ...(uncut && { uncut }) })))
      continue
    }
    await options.betweenSlices?.(signal)
    const { from, to } = asked(slice)
    const fence = await options.fence?.({ from, to: to + 1 }, signal)
    try {
      const result = await step(slice, context)
      if (Array.isArray(result)) ahead.unshift(...result)
      else yield fence?.isBroken === true ? withMissed(result) : result
    } finally {
      fence?.release()
    }
  }
}
