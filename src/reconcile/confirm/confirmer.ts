// Finds out what became of retries: looks at the records themselves, many with one call where they lie close. @see design section 11
import { createNotifier } from '../../runtime/notifier.ts'
import type { Clock, Random } from '../../runtime/clock.ts'
import type { ListPage, ListQuery } from '../../platform/operations.ts'
import type { PlatformClient } from '../../platform/client.ts'
import { PlatformFailure } from '../../platform/response.ts'
import { maxPageSize } from '../../platform/wire.ts'
import type { Backlog } from '../retry/backlog.ts'
import { createCheckQueue } from './check-queue.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Outcomes } from './outcomes.ts'
import { asked } from '../sweep/list-slice.ts'
import { byEventTime, lookUps, spanOf, splitAtGaps, type Group } from './look-plan.ts'
import { isPlatformTrouble } from '../platform-trouble.ts'

export interface ConfirmOptions {
  client: Pick<PlatformClient, 'list' | 'now'>
  backlog: Pick<Backlog, 'get'>
  outcomes: Pick<Outcomes, 'see'>
  clock: Clock
  random: Random
  /** Calls at the same time. */
  concurrency: number
  /** From a PATCH to its first look. */
  firstCheckMs: number
  /** True of a subscription whose retries wait for outcomes: its checks go first. */
  isFull: (subscriptionId: string) => boolean
}

export interface Confirmer {
  /** Follows a record whose outcome is awaited until it is known. */
  follow(entry: FailedRecord): void
  /** How long the longest due check has been due, in ms; 0 when none is. */
  overdueMs(): number
  /** Looks until the signal is aborted; rejects with its reason, or with a bug. */
  run(signal: AbortSignal): Promise<void>
}

/** So many looks in a row that fail are the platform's trouble, not a record's. */
const failuresInARow = 3
const firstPauseMs = 1000
const maxPauseMs = 300_000
/** An event has a record for each subscription: more pages than this are no answer to what was asked. */
const maxEventPages = 10
/** Failures that the next look would meet too. */
const hopeless = new Set<PlatformFailure['reason']>(['unauthorized', 'forbidden', 'throttled'])

/** No listing or look-up begins after so many calls of a round: what is left comes with the next one, which begins with what is urgent then. */
const maxCallsInRound = 50
/** A listing of more pages than this is read for nobody. */
const maxPages = 1000

/** One round of looks. */
interface Round {
  /** Look-ups in a row that failed, and calls that were answered. */
  failures: number
  answers: number
  calls: number
  signal: AbortSignal
}

/** A check that holds retries up goes before all others: none of them is due for so long. */
const heldUpMs = 1e15

/** Calls that a round may still make. */
const callsLeft = ({ calls }: Round): number => Math.max(0, maxCallsInRound - calls)

/** How full of records a span is. */
interface Density {
  rowsPerSecond: number
  pageSize: number
}

/** Works through the items, some at a time; the first failure ends it. */
async function inParallel<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  const ahead = items.values()
  let failed = false
  async function worker(): Promise<void> {
    for (const item of ahead) {
      if (failed) return
      await work(item).catch((error: unknown) => {
        failed = true
        throw error
      })
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker))
}

const isAwaited = (entry: FailedRecord): boolean => entry.awaiting !== undefined

/** Such a record can't be looked up by its event: it is found in the listing of its second, if at all. */
const hasNoEvent = ({ awaiting, eventId }: FailedRecord): boolean => eventId === '' || awaiting?.missedByEvent === true

export function createConfirmer(options: ConfirmOptions): Confirmer {
  const { backlog, client, clock, concurrency, outcomes, random } = options
  const notifier = createNotifier(clock)
  const queue = createCheckQueue(options.firstCheckMs)
  let pauses = 0
  /** Since when the longest due check of the round under way is due. */
  let roundDueAt = Infinity

  /** The lowest goes first: checks that hold retries up, the longest due of them; then the longest due of the others. */
  function rankOf({ awaiting, subscriptionId }: FailedRecord): number {
    return (awaiting?.checkAt ?? Infinity) - (options.isFull(subscriptionId) ? heldUpMs : 0)
  }

  function inOrderOfUrgency(group: Group): FailedRecord[] {
    const ranked = group.map((entry) => ({ entry, rank: rankOf(entry) }))
    return ranked.sort((a, b) => a.rank - b.rank).map(({ entry }) => entry)
  }

  /** Parts by their most urgent record. */
  function partsByUrgency(parts: readonly Group[]): Group[] {
    const ranked = parts.map((part) => ({
      part,
      rank: part.reduce((min, entry) => Math.min(min, rankOf(entry)), Infinity),
    }))
    return ranked.sort((a, b) => a.rank - b.rank).map(({ part }) => part)
  }

  /** Takes in what a page shows, of every awaited record on it. `due` loses those that were seen. */
  function take(page: ListPage, askedAt: number, due: Set<FailedRecord>): void {
    const look = { askedAt, monotonic: clock.monotonic(), seenAt: client.now() }
    for (const record of page.records) {
      const entry = backlog.get(record.id)
      if (entry === undefined || !isAwaited(entry)) continue
      outcomes.see(entry, record, look)
      // A failure that is seen by the way is checked again soon, and not when its own check would be due.
      queue.add(entry)
      due.delete(entry)
    }
  }

  /** What a listing did not show has been looked at all the same: that it is absent proves nothing. */
  function takeAbsent(entries: Iterable<FailedRecord>, askedAt: number): void {
    const look = { askedAt, monotonic: clock.monotonic(), seenAt: client.now() }
    for (const entry of entries) outcomes.see(entry, undefined, look)
  }

  async function read(query: ListQuery, due: Set<FailedRecord>, round: Round): Promise<ListPage> {
    const askedAt = clock.monotonic()
    round.calls += 1
    const page = await client.list(query, round.signal, 'confirm')
    round.answers += 1
    take(page, askedAt, due)
    return page
  }

  /** Looks a record up by its event, with the others of that event. */
  async function lookUp(entry: FailedRecord, round: Round): Promise<void> {
    if (!isAwaited(entry)) return
    const askedAt = clock.monotonic()
    const due = new Set([entry])
    for (let page = 0; page < maxEventPages && due.size > 0; page += 1) {
      const { rows, size } = await read({ eventId: entry.eventId, page, size: maxPageSize }, due, round)
      if (rows < (size ?? maxPageSize)) break
    }
    if (due.size === 0 || entry.awaiting === undefined) return
    entry.awaiting.missedByEvent = true
    takeAbsent(due, askedAt)
  }

  function putOff({ awaiting }: FailedRecord): void {
    if (awaiting === undefined) return
    const now = clock.monotonic()
    awaiting.checkAt = now + Math.min(maxPauseMs, Math.max(firstPauseMs, (now - awaiting.sentAt) / 2))
  }

  /** A look that failed is made up for; too many in a row are thrown on. */
  async function lookUpOrPutOff(entry: FailedRecord, round: Round): Promise<void> {
    try {
      await lookUp(entry, round)
      round.failures = 0
    } catch (error) {
      round.failures += 1
      if (!(error instanceof PlatformFailure) || round.failures >= failuresInARow) throw error
      putOff(entry)
    }
  }

  /** Those of one event come together. */
  async function lookUpEach(group: Group, round: Round): Promise<void> {
    const byEvent = new Map(inOrderOfUrgency(group).map((entry) => [entry.eventId, entry]))
    const due = [...byEvent.values()].slice(0, callsLeft(round))
    await inParallel(due, concurrency, (entry) => lookUpOrPutOff(entry, round))
  }

  /**
   * Looks at a group by listing its span, until all of it has been seen; what it did not show stays in `due`. When that
   * would cost more calls than looking each up, it tells how full the span is instead.
   */
  async function listSpan(
    group: Group,
    due: Set<FailedRecord>,
    maxCalls: number,
    round: Round,
  ): Promise<Density | undefined> {
    const span = asked(spanOf(group))
    const query = { ...span, page: 0, size: maxPageSize }
    const first = await read(query, due, round)
    const pageSize = first.size ?? maxPageSize
    const total = first.total ?? (first.rows < pageSize ? first.rows : Infinity)
    const more = Math.ceil(total / pageSize) - 1
    if (due.size === 0) return undefined
    if (more > maxCalls) return { rowsPerSecond: total / (span.to - span.from + 1), pageSize }
    const pages = Array.from({ length: Math.max(0, more) }, (_, index) => index + 1)
    await inParallel(pages, concurrency, async (page) => {
      if (due.size > 0) await read({ ...query, page }, due, round)
    })
    return undefined
  }

  /** Looks at a group by listing its span or, where that costs more, by listing parts of it or one look-up each. */
  async function look(group: Group, round: Round, splits: number): Promise<void> {
    if (callsLeft(round) === 0) return
    const calls = lookUps(group)
    if (calls <= 1) {
      await lookUpEach(group, round)
      return
    }
    const due = new Set(group)
    const density = await listSpan(group, due, Math.min(calls, maxPages), round)
    if (density === undefined) {
      // Totals may say less than there is: what the pages did not show is looked up.
      await lookUpEach([...due], round)
      return
    }
    const left = group.filter(isAwaited)
    const parts = splitAtGaps(left, density.rowsPerSecond, density.pageSize)
    if (parts.length < 2 || splits === 0) await lookUpEach(left, round)
    else for (const part of partsByUrgency(parts)) await look(part, round, splits - 1)
  }

  /** A span that can't be listed is looked at record by record. */
  async function lookAround(group: Group, round: Round): Promise<void> {
    try {
      await look(group, round, 2)
    } catch (error) {
      if (!(error instanceof PlatformFailure) || hopeless.has(error.reason) || round.failures > 0) throw error
      await lookUpEach(group.filter(isAwaited), round)
    }
  }

  /** Pages through its second until it is seen, whatever the totals say: nothing else shows such a record. */
  async function lookAtSecond(entry: FailedRecord, round: Round): Promise<void> {
    const askedAt = clock.monotonic()
    // It may have been seen with another one of its second.
    if (entry.awaiting === undefined || entry.awaiting.checkAt > askedAt || callsLeft(round) === 0) return
    const due = new Set([entry])
    const query = { ...asked(spanOf([entry])), size: maxPageSize }
    const seen = new Set<string>()
    for (let page = 0; page < maxPages && due.size > 0; page += 1) {
      const { records } = await read({ ...query, page }, due, round)
      const before = seen.size
      for (const { id } of records) seen.add(id)
      if (seen.size === before) break
    }
    takeAbsent(due, askedAt)
    if (entry.awaiting !== undefined) entry.awaiting.missedByEvent = false
  }

  async function pause(signal: AbortSignal): Promise<void> {
    const longest = Math.min(maxPauseMs, firstPauseMs * 2 ** Math.min(pauses, 20))
    pauses += 1
    await clock.sleep(longest * (1 - random.next() / 2), signal)
  }

  /** One round: looks at all that is due, and pauses when the platform does not answer. */
  async function lookAtDue(signal: AbortSignal): Promise<void> {
    const round: Round = { failures: 0, answers: 0, calls: 0, signal }
    const due = queue.take(clock.monotonic())
    roundDueAt = due[0]?.awaiting?.checkAt ?? Infinity
    const [odd, plain] = [due.filter(hasNoEvent), due.filter((entry) => !hasNoEvent(entry))]
    try {
      await lookAround(byEventTime(plain), round)
      await inParallel(inOrderOfUrgency(odd), 1, (entry) => lookAtSecond(entry, round))
      // One that fails by itself is put off by itself.
      if (round.failures > 1 && round.answers === 0) await pause(signal)
      else pauses = 0
    } catch (error) {
      signal.throwIfAborted()
      if (!isPlatformTrouble(error)) throw error
      await pause(signal)
    } finally {
      roundDueAt = Infinity
      for (const entry of due) queue.add(entry)
    }
  }

  return {
    follow(entry) {
      queue.add(entry)
      notifier.notify()
    },
    overdueMs: () => Math.max(0, clock.monotonic() - Math.min(roundDueAt, queue.firstDueAt() ?? Infinity)),
    async run(signal) {
      for (;;) {
        signal.throwIfAborted()
        const roundAt = queue.nextRoundAt()
        const wait = roundAt === undefined ? undefined : roundAt - clock.monotonic()
        if (wait !== undefined && wait <= 0) await lookAtDue(signal)
        else await notifier.wait(wait, signal)
      }
    },
  }
}
