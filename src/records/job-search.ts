// Finds the records of a retry job: in memory if all matches are there, otherwise on the platform.
import type { TimeZone } from '../platform/time-zone.ts'
import type { Reconciler } from '../reconciler.ts'
import { exclusionOf } from '../reconcile/decide.ts'
import { FailedRecord } from '../reconcile/failed-record.ts'
import { keyOf } from '../reconcile/packed-id.ts'
import type { Policy } from '../reconcile/policy.ts'
import type { Backlog } from '../reconcile/retry/backlog.ts'
import type { OperatorEvent } from '../reconcile/retry/operator-pause.ts'
import type { SweeperEvent } from '../reconcile/sweep/sweep-report.ts'
import { finishInTurns, type Steps, type Turn } from '../runtime/steps.ts'
import { matcherOf } from './filter.ts'
import { leaveOut, type RetryJob } from './job.ts'
import { joined, type FoundRecords, type Lister } from './listing.ts'
import { aheadOf, gapsOf, type SeenWindow } from './records.ts'

/** Rows per step, for the backlog and the requests. */
const perStep = 500
const tooMany = 'More records match than can be retried at once (backlog.maxRecords).'

export interface JobSearchOptions {
  reconciler: () => Reconciler
  lister: Lister
  policy: Policy
  zone: TimeZone
  seenWindow: () => SeenWindow
  /** Why the backlog may lack failures since the last sweep. */
  newerGap: () => string | undefined
  turn: Turn
  emit: (event: OperatorEvent | SweeperEvent) => void
  /** Receives a matching record. */
  take: (job: RetryJob, entry: FailedRecord) => void
  /** True when no more records may be requested. */
  isFull: () => boolean
}

/**
 * Finds the records, and passes each to `take`. Rejects with a PlatformFailure, a TokenError, or the reason why the job ended.
 */
export function createJobSearch(options: JobSearchOptions): (job: RetryJob) => Promise<void> {
  const { emit, isFull, lister, newerGap, policy, reconciler, seenWindow, take, turn, zone } = options

  /** `leftOut`: keys of records that were found and left out already. */
  function* takeHeld(job: RetryJob, leftOut: ReadonlySet<string> = new Set()): Steps<undefined> {
    const { backlog } = reconciler()
    const { filter } = job
    const matches = matcherOf(filter)
    const held = filter.webhookIds?.flatMap((id) => backlog.get(id) ?? []) ?? backlog.entries()
    let seen = 0
    for (const entry of held) {
      seen += 1
      if (seen % perStep === 0) yield
      if (job.ending.signal.aborted) return undefined
      if (job.items.has(entry.key) || leftOut.has(entry.key) || !matches(entry)) continue
      if (isFull()) {
        job.listing.incomplete = tooMany
        return undefined
      }
      take(job, entry)
    }
    return undefined
  }

  /** Adds listed records to the backlog, as a sweep does; a dry run only looks at them. */
  async function takeListed(job: RetryJob, { askedAt, problem, records }: FoundRecords): Promise<void> {
    const { backlog, client, planner } = reconciler()
    job.listing.incomplete = problem ?? job.listing.incomplete
    const matches = matcherOf(job.filter)
    const holdsExcluded = job.filter.webhookIds !== undefined
    for (let at = 0; at < records.length; at += perStep) {
      if (at > 0) await turn()
      job.ending.signal.throwIfAborted()
      const now = client.now()
      const failed = records.slice(at, at + perStep).filter(({ status }) => status === 'failed')
      const fresh = new Map(failed.map((record) => [keyOf(record.id), new FailedRecord(record, { zone, now })]))
      const meant = failed.filter(({ id }) => {
        const entry = fresh.get(keyOf(id))
        return entry !== undefined && matches(entry)
      })
      if (meant.length > 0 && isFull()) {
        job.listing.incomplete = tooMany
        return
      }
      const takeMeant = (): void => {
        for (const { id } of meant) {
          const entry = backlog.get(id) ?? fresh.get(keyOf(id))
          if (entry === undefined) continue
          const isHeld = backlog.holds(entry)
          // Excluded, or no longer failed since the listing.
          if (isHeld || job.dryRun) take(job, entry)
          else if (exclusionOf(entry, policy) !== undefined) leaveOut(job, 'excluded')
        }
      }
      if (job.dryRun) takeMeant()
      else planner.changed(await learned({ records: meant, askedAt, holdsExcluded, beforeEviction: takeMeant }))
    }
  }

  /** In steps: a full backlog looks at all its records to make room. */
  async function learned(
    listed: Omit<Parameters<Backlog['learn']>[0], 'span' | 'unreadable' | 'verdict'>,
  ): Promise<FailedRecord[]> {
    const { backlog, client, outcomes } = reconciler()
    // The listing says nothing about other records.
    const nothing = { span: { from: 0, to: 0 }, unreadable: [], verdict: 'missed' as const }
    const { changed, relapsed, returned } = await finishInTurns(
      backlog.learn({ ...listed, ...nothing }, client.now()),
      turn,
    )
    for (const relapse of relapsed) outcomes.relapsed(relapse, client.now())
    if (returned > 0) emit({ type: 'returned', records: returned })
    return changed
  }

  /** In memory if all matches are there, otherwise on the platform. */
  async function search(job: RetryJob): Promise<void> {
    await turn()
    const { signal } = job.ending
    const { backlog, client } = reconciler()
    const { eventId, from = -Infinity, until = client.now(), webhookIds } = job.filter
    const gaps = gapsOf(reconciler(), seenWindow())
    if (eventId !== undefined) {
      job.listing.source = 'platform'
      const found = await lister.ofEvent(eventId, signal).catch(async (error: unknown) => {
        await finishInTurns(takeHeld(job), turn)
        throw error
      })
      job.listing.notFailed = found.records.filter(({ status }) => status !== 'failed').length
      job.listing.processing = found.records.filter(({ status }) => status === 'processing').length
      await takeListed(job, found)
      return
    }
    if (webhookIds !== undefined) {
      await finishInTurns(takeHeld(job), turn)
      const missing = webhookIds.filter((id) => !job.items.has(keyOf(id)) && backlog.get(id) === undefined)
      if (missing.length === 0 || job.listing.incomplete !== undefined) return
      job.listing.source = 'platform'
      const shown = new Set<string>()
      for await (const found of lister.ofIds(missing, signal)) {
        for (const { id } of found.records) shown.add(id.toLowerCase())
        await takeListed(job, found)
      }
      job.listing.notFound = missing.filter((id) => !shown.has(id))
      return
    }
    const windowFrom = client.now() - policy.window.lookback
    if (gaps === undefined) await finishInTurns(takeHeld(job), turn)
    if (job.listing.incomplete !== undefined) return
    job.listing.incomplete = joined([gaps === undefined ? newerGap() : undefined, aheadOf(reconciler(), job.filter)])
    if (gaps === undefined && from >= windowFrom) return
    job.listing.source = 'platform'
    const to = Math.min(until, gaps === undefined ? windowFrom : Infinity)
    const notTaken = new Set<string>()
    if (to > from)
      for await (const found of lister.ofSpan(lister.spanOf(from, to), { signal })) {
        await takeListed(job, found)
        for (const key of found.records.map(({ id }) => keyOf(id))) if (!job.items.has(key)) notTaken.add(key)
      }
    // An incomplete list may hide records of the backlog.
    if (gaps !== undefined) await finishInTurns(takeHeld(job, notTaken), turn)
  }

  return search
}
