// Counts of a full sweep outside the window's failed records: before and after the window, and stuck in processing. @see docs/architecture.md "Sweep"
import type { PlatformClient } from '../../platform/client.ts'
import type { TimeZone } from '../../platform/time-zone.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import { maxPageSize } from '../../platform/wire.ts'
import { exclusionOf } from '../decide.ts'
import { FailedRecord } from '../failed-record.ts'
import { maxLagMs, type Policy, type WindowPolicy } from '../policy.ts'
import { isEmpty, slidingWindow } from '../window.ts'
import { asked, isListedAtItsTime, isShort, listSlice } from './list-slice.ts'

/** Maximum number of records in processing that are listed. */
const maxProcessing = 10_000

/** A record processing for longer is stuck. */
const stuckAfterMs = 900_000

/** An event this far ahead of the platform's clock is in the future. */
const toleratedAheadMs = 300_000

/** Maximum number of pages that are counted where there is no total. */
const maxCountedPages = 10

/** Seconds of the platform's wall clock, inclusive. */
type Outside = Partial<Record<'from' | 'to', number>>

export interface OutsideOptions {
  client: Pick<PlatformClient, 'list' | 'now'>
  policy: Policy
  zone: TimeZone
}

/** The spans before the window, but not before `notBefore`, and ahead of the platform's clock at `now`, in epoch ms. */
export function outsideOf(now: number, policy: WindowPolicy, zone: TimeZone): Record<'before' | 'ahead', Outside> {
  const { notBefore } = policy
  const from = notBefore === undefined ? {} : { from: Math.floor(zone.toLocal(notBefore) / 1000) }
  return {
    before: { ...from, to: slidingWindow(now, policy, zone).from - 1 },
    ahead: { from: slidingWindow(now, { ...policy, settle: -toleratedAheadMs }, zone).to },
  }
}

/**
 * Failed records outside the window that are not excluded, by the rows of the first page, if that ends the list; else by the total;
 * without a usable one, or with `select`, by the rows of the first ten pages, and with `select` those behind them count, too.
 * Undefined if there is a total but no row, if the rows show that others were listed, or if the call waited for the rate, because the
 * clock has passed its bound; `missed` if these are not listed at their own time. @throws PlatformFailure, TokenError, or the signal's reason
 */
export async function countOutside(
  { client, policy, zone }: OutsideOptions,
  outside: Outside,
  signal: AbortSignal,
): Promise<number | 'missed' | undefined> {
  const { from, to } = { from: -Infinity, to: Infinity, ...outside }
  if (to < from) return 0
  const askedAt = client.now()
  const isForeign = ({ eventLocal }: WebhookRecord): boolean =>
    eventLocal < from * 1000 || eventLocal >= (to + 1) * 1000
  const isExcluded = (record: WebhookRecord): boolean =>
    exclusionOf(new FailedRecord(record, { zone, now: askedAt }), policy) !== undefined
  const isSelective = policy.select.eventTypes.length + policy.select.subscriptionIds.length > 0
  const [ids, excluded] = [new Set<string>(), new Set<string>()]
  let most = 0
  for (let page = 0; page < maxCountedPages; page += 1) {
    const listed = await client.list({ status: 'failed', ...outside, page, size: maxPageSize }, signal)
    const { records, rows, total = 0, unreadable } = listed
    if (client.now() - askedAt > toleratedAheadMs) return undefined
    const foreign = records.find(isForeign)
    if (foreign !== undefined) return (await isListedAtItsTime(foreign, client, signal)) ? undefined : 'missed'
    if (records.some(({ status }) => status !== 'failed') || (page === 0 && rows === 0 && total > 0)) return undefined
    const before = ids.size
    for (const [index, { id = `row ${index}` }] of [...records, ...unreadable].entries()) ids.add(id.toLowerCase())
    for (const record of records) if (isExcluded(record)) excluded.add(record.id.toLowerCase())
    // Behind the last page, a platform may show it again.
    if (isShort(listed) || ids.size === before) return ids.size - excluded.size
    if (total >= rows) most = total
    if (most > 0 && !isSelective) break
  }
  return Math.max(ids.size, most) - excluded.size
}

/**
 * False if the filters of lists hide a record that is listed without them; `unknown` if none is, or only such as changed lately.
 * @throws PlatformFailure, TokenError, or the signal's reason
 */
export async function showFiltered(
  client: Pick<PlatformClient, 'list' | 'now'>,
  zone: TimeZone,
  signal: AbortSignal,
): Promise<boolean | 'unknown'> {
  const until = zone.toLocal(client.now() - maxLagMs)
  const isSettled = ({ eventLocal, lastAttemptLocal, status }: WebhookRecord): boolean =>
    status !== 'processing' && Math.max(eventLocal, lastAttemptLocal ?? 0) < until
  const first = await client.list({ page: 0, size: maxPageSize }, signal)
  let settled = first.records.find(isSettled)
  if (settled === undefined && first.records.length > 0) {
    // The newest come first, and are too new.
    const older = await client.list({ to: Math.floor(until / 1000), page: 0, size: maxPageSize }, signal)
    if (older.rows === 0 && first.rows === maxPageSize) return false
    settled = older.records.find(isSettled)
  }
  if (settled === undefined) return 'unknown'
  const from = Math.floor(settled.eventLocal / 1000)
  const query = { status: settled.status, ...asked({ from, to: from + 1 }), page: 0, size: 1 }
  return (await client.list(query, signal)).rows > 0
}

export interface StuckOptions extends OutsideOptions {
  client: PlatformClient
  monotonic: () => number
  /** When the daemon last sent a PATCH of a record, in epoch ms of the platform's clock. */
  triedAt: (id: string) => number | undefined
}

/**
 * Selected records of the window that have been processing for too long since their event, their last attempt and the
 * daemon's PATCH. @throws PlatformFailure, TokenError, or the signal's reason
 */
export async function countStuck(options: StuckOptions, signal: AbortSignal): Promise<number> {
  const { client, monotonic, policy, zone } = options
  const now = client.now()
  // Later events can't be stuck yet.
  const span = slidingWindow(now, { ...policy.window, settle: stuckAfterMs }, zone)
  if (isEmpty(span)) return 0

  function isStuck(record: WebhookRecord): boolean {
    const known = new FailedRecord(record, { zone, now })
    if (exclusionOf(known, policy) !== undefined) return false
    return now - Math.max(known.eventAt, known.lastAt, options.triedAt(record.id) ?? -Infinity) > stuckAfterMs
  }

  // Totals are ignored: they only decide about cutting, and this span is not cut.
  const reading = {
    client,
    monotonic,
    status: 'processing',
    concurrency: policy.sweep.concurrency,
    maxRecords: maxProcessing,
    totalsCount: false,
  } as const
  const { records } = await listSlice(span, reading, signal)
  return records.filter(isStuck).length
}
