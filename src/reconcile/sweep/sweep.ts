// Lists the failed records of a span, slice by slice: cuts what is too large, goes round what can't be listed. @see design section 8
import { PlatformFailure } from '../../platform/response.ts'
import type { PlatformClient } from '../../platform/client.ts'
import {
  asked,
  FiltersIgnored,
  isForeign,
  listSlice,
  shortSliceSeconds,
  type Listing,
  type TooMany,
} from './list-slice.ts'
import { cut, isEmpty, type Span } from '../window.ts'

/** A part of the span that could not be listed. */
export interface SkippedSlice {
  span: Span
  reason: PlatformFailure['reason']
}

export interface SweepOptions {
  client: PlatformClient
  monotonic: () => number
  /** Pages asked for at the same time. */
  concurrency: number
  /** A slice with more than twice as many records is cut into parts of about this many. */
  sliceRecords: number
  /**
   * Keeps retries out of what is being listed, and waits for those under way. Resolves to the release.
   * Without it a retried record would leave the list between two pages, and shift others out of sight.
   */
  fence: (span: Span, signal: AbortSignal) => Promise<() => void>
  /** Called before each slice, when nothing is being listed. */
  betweenSlices?: (signal: AbortSignal) => Promise<void>
}

/** What a sweep yields: a slice that was listed, or one that had to be left out. */
export type SweepStep = { listed: Listing } | { skipped: SkippedSlice }

/** A slice is cut into so many parts at most, whatever total the platform tells. */
const maxParts = 1000
/** Slices that fail are cut in two until this many have failed; after that they are left out as they are. */
const maxFailedSlices = 200
/** So many failures, and nothing that could be listed: then it is not one record or one page that is the trouble. */
const hopelessAfter = 60
/** The first and the last second of a span so long can't both hold the same records, with what is asked for beside them. */
const shortestCheckedSeconds = 5

/** Failures that smaller slices do not help against. */
const wholeSweep = new Set<PlatformFailure['reason']>(['unauthorized', 'forbidden', 'throttled'])

/** What one sweep has found out so far. */
interface Findings {
  listedSlices: number
  failedSlices: number
  /** False once the totals were found to say nothing about a slice. */
  totalsCount: boolean
  totalsChecked: boolean
}

interface Context {
  options: SweepOptions
  findings: Findings
  signal: AbortSignal
}

async function answersAtAll({ options, signal }: Context): Promise<boolean> {
  try {
    await options.client.list({ status: 'failed', page: 0, size: 1 }, signal)
    return true
  } catch (error) {
    if (error instanceof PlatformFailure) return false
    throw error
  }
}

/**
 * Asks for the first and the last second of a slice: when both tell the total of the whole, either the totals or the
 * parameters themselves are ignored, and cutting on would go on for ever. Asked once in a sweep, where a total is odd.
 * @throws FiltersIgnored when rows from outside of what was asked show which of the two it is.
 */
async function checkTotals(span: Span, total: number | undefined, context: Context): Promise<void> {
  const { findings, options, signal } = context
  if (findings.totalsChecked || span.to - span.from < shortestCheckedSeconds) return
  findings.totalsChecked = true
  let showsForeignTimes = false
  for (const second of [span.from, span.to - 1]) {
    const end = { from: second, to: second + 1 }
    const page = await options.client.list({ status: 'failed', ...asked(end), page: 0, size: 1 }, signal)
    if (page.total !== total) return
    showsForeignTimes ||= page.records.some((record) => isForeign(record, end))
  }
  if (showsForeignTimes) throw new FiltersIgnored()
  if (total !== undefined) findings.totalsCount = false
}

/** The parts that a slice is to be cut into: of about `sliceRecords`, but not shorter than need be. */
function partsOf(span: Span, total: number, sliceRecords: number): Span[] {
  const seconds = span.to - span.from
  const byTime = seconds > shortSliceSeconds ? Math.max(2, Math.floor(seconds / shortSliceSeconds)) : seconds
  return cut(span, Math.min(Math.ceil(total / sliceRecords), byTime, maxParts))
}

async function tooManyIn(span: Span, { total, showsForeignTimes }: TooMany, context: Context): Promise<Span[]> {
  const { sliceRecords } = context.options
  if (total !== undefined || showsForeignTimes) await checkTotals(span, total, context)
  if (total !== undefined && !context.findings.totalsCount) return [span]
  return partsOf(span, total ?? 2 * sliceRecords + 1, sliceRecords)
}

/** Lists one slice, or says into what it is to be cut. */
async function visit(span: Span, context: Context): Promise<SweepStep | Span[]> {
  const { options, findings, signal } = context
  const { client, monotonic, concurrency, sliceRecords } = options
  const { totalsCount } = findings
  const listing = await listSlice(
    span,
    { client, monotonic, status: 'failed', concurrency, maxRecords: 2 * sliceRecords, totalsCount },
    signal,
  )
  if ('tooMany' in listing) return tooManyIn(span, listing, context)
  if (listing.missedTotal !== undefined) {
    await checkTotals(span, listing.missedTotal, context)
    if (!findings.totalsCount) return [span]
  }
  findings.listedSlices += 1
  return { listed: listing }
}

/** A slice that can't be listed is cut in two while the platform answers at all; what remains is left out. */
async function goRound(span: Span, failure: PlatformFailure, context: Context): Promise<SweepStep | Span[]> {
  const { findings } = context
  if (wholeSweep.has(failure.reason) || !(await answersAtAll(context))) throw failure
  findings.failedSlices += 1
  if (findings.listedSlices === 0 && findings.failedSlices >= hopelessAfter) throw failure
  if (span.to - span.from <= 1 || findings.failedSlices > maxFailedSlices) {
    return { skipped: { span, reason: failure.reason } }
  }
  return cut(span, 2)
}

async function step(span: Span, context: Context): Promise<SweepStep | Span[]> {
  try {
    return await visit(span, context)
  } catch (error) {
    if (!(error instanceof PlatformFailure) || error instanceof FiltersIgnored) throw error
    return goRound(span, error, context)
  }
}

/**
 * Lists spans in the order given, each from its earliest slice upwards. A slice stays fenced, with the seconds that are
 * asked for on either side, until the next is asked for.
 * @throws PlatformFailure or TokenError when the platform can't be listed at all, FiltersIgnored, or the signal's reason.
 */
export async function* sweep(
  spans: readonly Span[],
  options: SweepOptions,
  signal: AbortSignal,
): AsyncGenerator<SweepStep> {
  const findings: Findings = { listedSlices: 0, failedSlices: 0, totalsCount: true, totalsChecked: false }
  const context: Context = { options, findings, signal }
  const ahead = spans.filter((span) => !isEmpty(span))
  for (let span = ahead.shift(); span !== undefined; span = ahead.shift()) {
    await options.betweenSlices?.(signal)
    const { from, to } = asked(span)
    const release = await options.fence({ from, to: to + 1 }, signal)
    try {
      const result = await step(span, context)
      if (Array.isArray(result)) ahead.unshift(...result)
      else yield result
    } finally {
      release()
    }
  }
}
