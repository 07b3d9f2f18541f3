// Checks pending outcomes in rounds, most overdue first. @see docs/architecture.md "Outcomes"
import type { Clock, Random } from '../../runtime/clock.ts'
import type { ListPage, ListQuery } from '../../platform/operations.ts'
import type { PlatformClient } from '../../platform/client.ts'
import { createUnreadableSum, type UnreadableSum } from '../../platform/record.ts'
import { PlatformFailure } from '../../platform/http/response.ts'
import { maxPageSize } from '../../platform/wire.ts'
import type { FailedRecord } from '../failed-record.ts'
import { createPlatformBackoff } from '../platform-backoff.ts'
import { isOfAnyCall, isPlatformTrouble } from '../platform-trouble.ts'
import type { Backlog } from '../retry/backlog.ts'
import type { PlatformBreaker } from '../retry/platform-breaker.ts'
import { asked } from '../sweep/list-slice.ts'
import type { UnreadableEvent } from '../sweep/sweep-report.ts'
import type { Outcomes } from './outcomes.ts'
import { afterPage, isUnfiltered, ownSearches, planSearches, type Search } from './searches.ts'

export interface ConfirmOptions {
  client: Pick<PlatformClient, 'list' | 'now' | 'ping'>
  backlog: Pick<Backlog, 'get'>
  outcomes: Pick<Outcomes, 'soonestCheckAt' | 'pending' | 'see'>
  clock: Clock
  random: Random
  concurrency: number
  /** Its sweeps and pings show that the platform lists again. */
  breaker: Pick<PlatformBreaker, 'respondedAt'>
  emit: (event: UnreadableEvent) => void
}

/** The steps of the confirm loop, which waits between them. @see src/reconciler.ts */
export interface Confirmer {
  /** Milliseconds until the next round; Infinity without a pending outcome. */
  msUntilRound(): number
  /** One round: checks everything due. Rejects with the signal's reason, or with a bug. */
  check(signal: AbortSignal): Promise<void>
  /** Unreadable rows of the last round, which may be awaited records. */
  unreadable(): UnreadableSum | undefined
}

interface Round {
  signal: AbortSignal
  calls: number
  /** Consecutive failed calls. */
  failures: number
  unreadable: ReturnType<typeof createUnreadableSum>
}

/** Time between two rounds. */
const roundMs = 1000
/** No search begins after this many calls of a round: the next round starts with the most urgent ones. */
const maxCallsInRound = 50
/** After this many consecutive failed calls, a list of one row shows whether the platform is the problem, or these searches. */
const maxFailures = 3
/** Maximum event time between two records that share a call. */
const maxGapSeconds = 3600

export function createConfirmer(options: ConfirmOptions): Confirmer {
  const { backlog, client, clock, concurrency, outcomes, random } = options
  const backoff = createPlatformBackoff(clock, random, options.breaker.respondedAt)
  /** Monotonic ms. */
  let roundAt = -Infinity
  let unreadable: UnreadableSum | undefined
  /** The platform has shown other events than the one that was searched: each such search would read its whole list. */
  let ignoresEvents = false

  const dueAt = ({ awaiting }: FailedRecord): number => awaiting?.checkAt ?? Infinity
  const isDue = (record: FailedRecord): boolean => dueAt(record) <= roundAt

  /** Reports each pending record of a page as a check, and unreadable rows that may be one. */
  function take(page: ListPage, askedAt: number, round: Round): void {
    const check = { askedAt, monotonic: clock.monotonic(), seenAt: client.now() }
    for (const shown of page.records) {
      const record = backlog.get(shown.id)
      if (record !== undefined) outcomes.see(record, shown, check)
    }
    const rows = page.unreadable.filter(({ id }) => id === undefined || backlog.get(id)?.awaiting !== undefined)
    round.unreadable.add(rows)
    if (rows.length > 0) options.emit({ type: 'unreadable', rows })
  }

  /** A search that ended without showing a record, or failed, counts as a check; absence proves nothing. */
  function takeAbsent({ kind, records }: Search, askedAt: number): void {
    for (const record of records.filter(isDue)) {
      if (record.awaiting === undefined) continue
      record.awaiting.missedByEvent = kind === 'event'
      outcomes.see(record, undefined, { askedAt, monotonic: clock.monotonic(), seenAt: client.now() })
    }
  }

  /** Rejects if the platform does not respond at all. */
  async function ask(round: Round): Promise<void> {
    await client.ping(round.signal, 'confirm')
    round.failures = 0
  }

  /** An unlistable span is searched record by record, an event by its second. Those that were searched in vain are due later, and come last. */
  function narrower(kind: 'span' | 'event', records: readonly FailedRecord[]): Search[] {
    if (kind === 'event') for (const { awaiting } of records) if (awaiting !== undefined) awaiting.missedByEvent = true
    return ownSearches(records.toSorted((a, b) => dueAt(a) - dueAt(b)))
  }

  /** Reads one page of a search. Returns the searches that follow it. */
  async function advance(search: Search, round: Round): Promise<Search[]> {
    const { records } = search
    if (!records.some(isDue)) return []
    if (search.kind === 'event' && ignoresEvents) return narrower('event', records.filter(isDue))
    const askedAt = clock.monotonic()
    const filter: Partial<ListQuery> =
      search.kind === 'event' ? { eventId: records[0]?.eventId ?? '' } : asked(search.span)
    round.calls += 1
    try {
      const response = await client.list({ ...filter, page: search.page, size: maxPageSize }, round.signal, 'confirm')
      round.failures = 0
      ignoresEvents ||= isUnfiltered(search, response)
      take(response, askedAt, round)
      const next = afterPage(search, response, records.filter(isDue))
      if (next.length === 0) takeAbsent(search, askedAt)
      return next
    } catch (error) {
      round.failures += 1
      if (!(error instanceof PlatformFailure) || isOfAnyCall(error)) throw error
      if (round.failures === maxFailures) await ask(round)
      if (search.kind !== 'second') return narrower(search.kind, records.filter(isDue))
      takeAbsent(search, askedAt)
      return []
    }
  }

  async function work(round: Round): Promise<void> {
    const due = [...outcomes.pending()].filter(isDue).sort((a, b) => dueAt(a) - dueAt(b))
    let searches = planSearches(due, maxGapSeconds)
    while (searches.length > 0) {
      // After a failure, few calls show whether all fail.
      const atOnce = round.failures > 0 ? 1 : concurrency
      const next = await Promise.all(searches.slice(0, atOnce).map((search) => advance(search, round)))
      searches = [...next.flat(), ...searches.slice(atOnce)]
      // Finishes started searches: in the next round they would start again.
      if (round.calls >= maxCallsInRound) searches = searches.filter(({ page }) => page > 0)
    }
    if (round.failures > 0) await ask(round)
  }

  return {
    msUntilRound() {
      const nextRoundAt = Math.max(outcomes.soonestCheckAt(), backoff.until(), roundAt + roundMs)
      return nextRoundAt - clock.monotonic()
    },
    async check(signal) {
      const round: Round = { signal, calls: 0, failures: 0, unreadable: createUnreadableSum() }
      roundAt = clock.monotonic()
      try {
        await work(round)
        unreadable = round.unreadable.sum()
        backoff.end()
      } catch (error) {
        if (!isPlatformTrouble(error)) throw error
        backoff.failed(error)
      }
    },
    unreadable: () => (outcomes.pending().size === 0 ? undefined : unreadable),
  }
}
