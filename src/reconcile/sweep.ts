// Lists the failed records of a span, slice by slice: cuts what is too large, goes round what can't be listed. @see design section 8
import { PlatformFailure } from '../platform/failure.ts'
import type { PlatformClient } from '../platform/client.ts'
import { listSlice, type Listing, type TooMany } from './listing.ts'
import { cut, isEmpty, type Span } from './window.ts'

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
   * Keeps retries out of a slice while it is listed, and waits for those under way. Resolves to the release.
   * Without it a retried record would leave the list between two pages, and shift others out of sight.
   */
  fence: (span: Span, signal: AbortSignal) => Promise<() => void>
}

/** What a sweep yields: a slice that was listed, or one that had to be left out. */
export type SweepStep = { listed: Listing } | { skipped: SkippedSlice }

/** The platform answers, but not what was asked: going on could retry the wrong records for ever. */
export class FiltersIgnored extends PlatformFailure {
  constructor() {
    super('other', undefined, 'the platform ignores eventDateTimeFrom/To')
    this.name = 'FiltersIgnored'
  }
}

/** Slices that fail are cut in two until this many have failed; after that they are left out as they are. */
const maxFailedSlices = 200

/** Failures that smaller slices do not help against. */
const wholeSweep = new Set<PlatformFailure['reason']>(['unauthorized', 'forbidden', 'throttled'])

/** What one sweep has found out so far. */
interface Findings {
  failedSlices: number
  /** False once the totals were found to say nothing about a slice. */
  totalsCount: boolean
}

/** A slice to list, and where it came from. */
interface Slice {
  span: Span
  /** The slice it was cut from, and that one's total: a part that tells the same total arouses suspicion. */
  parent?: { total: number; parts: Span[]; checked: boolean }
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

/** Every part telling its parent's total means that either the totals or the parameters themselves are ignored. */
async function checkTotals(parts: Span[], tooMany: TooMany, context: Context): Promise<void> {
  let showsForeignTimes = tooMany.showsForeignTimes
  for (const part of parts) {
    const query = { status: 'failed', from: part.from - 1, to: part.to, page: 0, size: 1 } as const
    const page = await context.options.client.list(query, context.signal)
    if (page.total !== tooMany.total) return
    showsForeignTimes ||= page.records.some(({ eventLocal }) => {
      const second = Math.floor(eventLocal / 1000)
      return second < part.from - 1 || second > part.to
    })
  }
  // Then no listing is known to be whole, and cutting on would go on for ever.
  if (showsForeignTimes) throw new FiltersIgnored()
  context.findings.totalsCount = false
}

/** Lists one slice, or says into what it is to be cut. */
async function visit(slice: Slice, context: Context): Promise<SweepStep | Slice[]> {
  const { options, findings, signal } = context
  const { client, monotonic, concurrency, sliceRecords } = options
  const listing = await listSlice(
    slice.span,
    { client, monotonic, concurrency, maxRecords: 2 * sliceRecords, totalsCount: findings.totalsCount },
    signal,
  )
  if (!('total' in listing)) return { listed: listing }
  const { parent } = slice
  if (parent?.checked === false && listing.total === parent.total) {
    parent.checked = true
    await checkTotals(parent.parts, listing, context)
    if (!findings.totalsCount) return [slice]
  }
  const parts = cut(slice.span, Math.ceil(listing.total / sliceRecords))
  const from = { total: listing.total, parts, checked: false }
  return parts.map((span) => ({ span, parent: from }))
}

/** A slice that can't be listed is cut in two while the platform answers at all; what remains is left out. */
async function goRound(slice: Slice, failure: PlatformFailure, context: Context): Promise<SweepStep | Slice[]> {
  if (wholeSweep.has(failure.reason) || !(await answersAtAll(context))) throw failure
  context.findings.failedSlices += 1
  const { span } = slice
  if (span.to - span.from <= 1 || context.findings.failedSlices > maxFailedSlices) {
    return { skipped: { span, reason: failure.reason } }
  }
  return cut(span, 2).map((half) => ({ span: half }))
}

async function step(slice: Slice, context: Context): Promise<SweepStep | Slice[]> {
  try {
    return await visit(slice, context)
  } catch (error) {
    if (!(error instanceof PlatformFailure) || error instanceof FiltersIgnored) throw error
    return goRound(slice, error, context)
  }
}

/**
 * Lists spans in the order given, each from its earliest slice upwards. A slice stays fenced until the next is asked for.
 * @throws PlatformFailure or TokenError when the platform can't be listed at all, FiltersIgnored, or the signal's reason.
 */
export async function* sweep(
  spans: readonly Span[],
  options: SweepOptions,
  signal: AbortSignal,
): AsyncGenerator<SweepStep> {
  const context: Context = { options, findings: { failedSlices: 0, totalsCount: true }, signal }
  const ahead: Slice[] = spans.filter((span) => !isEmpty(span)).map((span) => ({ span }))
  for (let slice = ahead.shift(); slice !== undefined; slice = ahead.shift()) {
    const release = await options.fence(slice.span, signal)
    try {
      const result = await step(slice, context)
      if (Array.isArray(result)) ahead.unshift(...result)
      else yield result
    } finally {
      release()
    }
  }
}
