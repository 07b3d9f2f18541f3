// Left-out records: listed, but without a place in the backlog, as they are excluded or it is full. Counted by subscription and
// decision. @see docs/architecture.md "Sweep", "Backlog and decisions"
import { decisions, noCounts, type Counts, type Decision } from '../decide.ts'
import { contains, type Span } from '../window.ts'

/** A listed record that has no place. */
export interface LeftOutRow {
  subscriptionId: string
  decision: Decision
  /** Second of the event on the platform's wall clock, with its fraction. */
  eventSecond: number
}

export interface LeftOut {
  /**
   * A full sweep begins. `edges` in local seconds: rows before `from` are not listed, rows before `expiring` expire. The
   * returned function ends it: `done` replaces the counts of the full sweep before, `failed` leaves them.
   */
  beginSweep(edges: { from: number; expiring: number }): (end: 'done' | 'failed') => void
  /** A slice was listed, and these of its rows have no place. They count where nothing was listed before. */
  listed(span: Span, rows: readonly LeftOutRow[]): void
  /** A record has lost its place. */
  gaveWay(row: LeftOutRow): void
  /** A record that may have been counted has got a place. */
  entered(row: LeftOutRow): void
  /**
   * All from this local second on is about to be listed, and noted anew. The returned function restores what was known of the
   * part beyond `listedTo`.
   */
  relist(from: number): (listedTo: number) => void
  /**
   * Local second, with its fraction, of the oldest record of these subscriptions that is neither exhausted nor excluded, or
   * earlier; undefined when there is none.
   */
  oldestSecond(isMeant: (subscriptionId: string) => boolean): number | undefined
  /** Returns how many have left the window since then, without excluded ones. */
  forgetBefore(localSecond: number): number
  /** Counts of the last full sweep, and of listings beyond it since; `isBlocked`: a due record of that subscription counts as blocked. */
  counts(isBlocked?: (subscriptionId: string) => boolean): Counts
  /** How many of them are selected, and so missing. */
  missing(): number
  /** Of these, the expiring ones. */
  expiring(): Counts
}

/** Rows of the window by subscription, and the parts of it that were listed. */
interface Tally {
  bySubscription: Map<string, Counts>
  expiring: Counts
  expiringBefore: number
  /** They do not touch. */
  listed: Span[]
}

/** Rows this near the window's start are counted by the second; by then the next full sweep has come. */
const lapsingSeconds = 6 * 3600
/** Further subscriptions are counted as one. */
const maxSubscriptions = 10_000
const others = ''

function newTally(expiringBefore: number): Tally {
  return { bySubscription: new Map(), expiring: noCounts(), expiringBefore, listed: [] }
}

function hasListed({ listed }: Tally, second: number): boolean {
  return listed.some((span) => contains(span, second))
}

function extend(tally: Tally, span: Span): void {
  if (span.from >= span.to) return
  let { from, to } = span
  const apart = tally.listed.filter((other) => {
    if (other.to < from || other.from > to) return true
    from = Math.min(from, other.from)
    to = Math.max(to, other.to)
    return false
  })
  tally.listed = [...apart, { from, to }]
}

function countsOf({ bySubscription }: Tally, { decision, subscriptionId }: LeftOutRow): Counts {
  const isNamed =
    decision !== 'excluded' && (bySubscription.has(subscriptionId) || bySubscription.size < maxSubscriptions)
  return bySubscription.getOrInsertComputed(isNamed ? subscriptionId : others, noCounts)
}

function change(tally: Tally, row: LeftOutRow, by: 1 | -1): void {
  const counts = countsOf(tally, row)
  // A record may have been counted while it backed off, and be due when it enters.
  const counted =
    by > 0 || counts[row.decision] > 0
      ? row.decision
      : decisions.find((other) => other !== 'excluded' && counts[other] > 0)
  if (counted === undefined) return
  counts[counted] += by
  const { expiring, expiringBefore } = tally
  if (row.eventSecond < expiringBefore) expiring[counted] = Math.max(0, expiring[counted] + by)
}

export function createLeftOut(): LeftOut {
  /** By the last full sweep, with all that was listed beyond it since. */
  let present = newTally(-Infinity)
  /** By the full sweep under way. */
  let next: Tally | undefined
  /** The oldest second by subscription; `before`: what a listing under way is about to replace. */
  const oldest = new Map<string, number>()
  const before = new Map<string, number>()
  /** Selected rows by second, for those that leave the window first. */
  const leaving = new Map<number, number>()
  let leavingBefore = -Infinity
  /** The latest second of any listing. */
  let listedUntil = -Infinity

  function noteOldest(subscriptionId: string, second: number): void {
    oldest.set(subscriptionId, Math.min(oldest.get(subscriptionId) ?? Infinity, second))
  }

  /** Notes a row without a place. */
  function note({ decision, eventSecond, subscriptionId }: LeftOutRow): void {
    if (decision === 'excluded') return
    if (decision !== 'exhausted') noteOldest(subscriptionId, eventSecond)
    const second = Math.floor(eventSecond)
    if (second < leavingBefore) leaving.set(second, (leaving.get(second) ?? 0) + 1)
  }

  function countAll(isBlocked = (_subscriptionId: string): boolean => false): Counts {
    const sum = noCounts()
    for (const [id, counts] of present.bySubscription) {
      const blocked = isBlocked(id)
      for (const decision of decisions) sum[decision === 'due' && blocked ? 'blocked' : decision] += counts[decision]
    }
    return sum
  }

  return {
    beginSweep({ from, expiring }) {
      const own = newTally(expiring)
      next = own
      leavingBefore = from + lapsingSeconds
      return (end) => {
        next = undefined
        if (end === 'done') present = own
      }
    },
    listed(span, rows) {
      for (const second of leaving.keys()) if (contains(span, second)) leaving.delete(second)
      for (const row of rows) {
        if (!hasListed(present, row.eventSecond)) change(present, row, 1)
        if (next !== undefined && !hasListed(next, row.eventSecond)) change(next, row, 1)
        note(row)
      }
      extend(present, span)
      if (next !== undefined) extend(next, span)
      listedUntil = Math.max(listedUntil, span.to)
    },
    gaveWay(row) {
      change(present, row, 1)
      if (next !== undefined && hasListed(next, row.eventSecond)) change(next, row, 1)
      note(row)
    },
    entered(row) {
      for (const tally of [present, next]) {
        if (tally !== undefined && hasListed(tally, row.eventSecond)) change(tally, row, -1)
      }
    },
    relist(from) {
      for (const [id, second] of oldest) {
        if (second < from) continue
        oldest.delete(id)
        before.set(id, second)
      }
      return (listedTo) => {
        for (const [id, second] of before) if (listedTo < listedUntil) noteOldest(id, Math.max(second, listedTo))
        before.clear()
      }
    },
    oldestSecond(isMeant) {
      let first = Infinity
      for (const [id, second] of [...oldest, ...before]) if (second < first && isMeant(id)) first = second
      return first === Infinity ? undefined : first
    },
    forgetBefore(localSecond) {
      for (const [id, second] of oldest) oldest.set(id, Math.max(second, localSecond))
      let expired = 0
      for (const [second, rows] of leaving) {
        if (second >= localSecond) continue
        leaving.delete(second)
        expired += rows
      }
      return expired
    },
    counts: countAll,
    missing() {
      const counts = countAll()
      return decisions.reduce((sum, decision) => sum + counts[decision], -counts.excluded)
    },
    expiring: () => ({ ...present.expiring, excluded: 0 }),
  }
}
