// Left-out records: listed, but not kept, as they are excluded or the backlog had no room. Counted by subscription and
// decision. @see docs/architecture.md "Sweep", "Backlog and decisions"
import { decisions, noCounts, type Counts, type Decision } from '../decide.ts'
import { contains, type Span } from '../window.ts'

/** A listed record that is not kept. */
export interface LeftOutRow {
  subscriptionId: string
  decision: Decision
  /** Second of the event on the platform's wall clock, with its fraction. */
  eventSecond: number
}

/** The count of a full sweep under way. One of `commit` and `abandon` ends it. */
export interface Recount {
  /** A slice was listed, and these of its rows are not kept. */
  add(span: Span, rows: readonly LeftOutRow[]): void
  /** Replaces the count of the full sweep before. `isComplete`: no part of the window was missed. */
  commit(isComplete: boolean): void
  /** The sweep failed: the count before stays valid. */
  abandon(): void
}

export interface LeftOut {
  /** A full sweep begins. `edges` in local seconds: rows before `from` are not listed, rows before `expiring` expire. */
  begin(edges: { from: number; expiring: number }): Recount
  /** A record of the backlog was evicted. */
  evicted(row: LeftOutRow): void
  /** A record entered the backlog that may have been counted. */
  entered(row: LeftOutRow): void
  /**
   * A slice was listed whole; these of its rows are not kept, or were evicted by others of it. They are counted where the
   * last full sweep has not listed.
   */
  listed(span: Span, rows: readonly LeftOutRow[]): void
  /** Returns how many have left the window since then, without excluded ones. */
  forgetBefore(localSecond: number): number
  /** Counts of the last full sweep, and of listings beyond it since; `isHeld`: a due record of that subscription counts as held. */
  counts(isHeld?: (subscriptionId: string) => boolean): Counts
  /** How many of them are selected, and so missing. */
  missing(): number
  /** Of these, the expiring ones. */
  expiring(): Counts
  /** True when some record that is not excluded has no room. */
  any(): boolean
  /**
   * Local second, with its fraction, of the oldest left-out record of these subscriptions, or earlier; undefined when there
   * is none. Parked and excluded ones do not count.
   */
  oldestSecond(isMeant: (subscriptionId: string) => boolean): number | undefined
}

interface LeftOutTally {
  bySubscription: Map<string, Counts>
  expiring: Counts
  edges: { from: number; expiring: number }
  /** Rows by second, for those that leave the window first. */
  lapsing: Map<number, number>
  /** Parts of the window that were listed whole so far; they do not touch. */
  covered: Span[]
  /** Rows beyond them that were evicted, by `keyOf`: counted until they enter again or their part of the window is listed. */
  strays: Map<string, LeftOutRow[]>
  oldest: Map<string, number>
}

/** Rows this near the window's start are counted by the second; by then the next full sweep has come. */
const lapsingSeconds = 6 * 3600
/** Further subscriptions are counted as one. */
const maxSubscriptions = 10_000
const others = ''

function newTally(edges: LeftOutTally['edges']): LeftOutTally {
  return {
    bySubscription: new Map(),
    expiring: noCounts(),
    edges,
    lapsing: new Map(),
    covered: [],
    strays: new Map(),
    oldest: new Map(),
  }
}

function covers({ covered }: LeftOutTally, second: number): boolean {
  return covered.some((span) => contains(span, second))
}

function cover(tally: LeftOutTally, span: Span): void {
  if (span.from >= span.to) return
  let { from, to } = span
  const apart = tally.covered.filter((other) => {
    if (other.to < from || other.from > to) return true
    from = Math.min(from, other.from)
    to = Math.max(to, other.to)
    return false
  })
  tally.covered = [...apart, { from, to }]
}

/** Excluded records cannot lapse. */
const isOurs = ({ decision }: LeftOutRow): boolean => decision !== 'excluded'
export const isOpen = ({ decision }: LeftOutRow): boolean => decision !== 'excluded' && decision !== 'parked'

function entryOf(tally: LeftOutTally, { decision, subscriptionId }: LeftOutRow): Counts {
  const { bySubscription } = tally
  const isNamed =
    decision !== 'excluded' && (bySubscription.has(subscriptionId) || bySubscription.size < maxSubscriptions)
  const key = isNamed ? subscriptionId : others
  const counts = bySubscription.get(key) ?? noCounts()
  bySubscription.set(key, counts)
  return counts
}

function noteOldest(oldest: Map<string, number>, row: LeftOutRow): void {
  const { eventSecond, subscriptionId } = row
  if (isOpen(row)) oldest.set(subscriptionId, Math.min(oldest.get(subscriptionId) ?? Infinity, eventSecond))
}

function change(tally: LeftOutTally, row: LeftOutRow, by: 1 | -1): void {
  const { edges, expiring, lapsing } = tally
  const { decision, eventSecond } = row
  const counts = entryOf(tally, row)
  // A record may have been counted while it backed off, and be due when it enters.
  const counted =
    by > 0 || counts[decision] > 0 ? decision : decisions.find((other) => other !== 'excluded' && counts[other] > 0)
  if (counted === undefined) return
  counts[counted] += by
  if (eventSecond < edges.expiring) expiring[counted] = Math.max(0, expiring[counted] + by)
  if (!isOurs(row) || eventSecond >= edges.from + lapsingSeconds) return
  const second = Math.floor(eventSecond)
  const rows = (lapsing.get(second) ?? 0) + by
  if (rows > 0) lapsing.set(second, rows)
  else lapsing.delete(second)
}

const keyOf = ({ eventSecond, subscriptionId }: LeftOutRow): string => `${eventSecond} ${subscriptionId}`

function addStray(tally: LeftOutTally, row: LeftOutRow): void {
  change(tally, row, 1)
  const same = tally.strays.get(keyOf(row))
  if (same === undefined) tally.strays.set(keyOf(row), [row])
  else same.push(row)
}

function takeStray(tally: LeftOutTally, row: LeftOutRow): void {
  const same = tally.strays.get(keyOf(row))
  const stray = same?.pop()
  if (stray !== undefined) change(tally, stray, -1)
  if (same?.length === 0) tally.strays.delete(keyOf(row))
}

/** A part of the window was listed whole: what is left out beyond the parts before it is known from now on. */
function extend(tally: LeftOutTally, span: Span, rows: readonly LeftOutRow[]): void {
  for (const row of [...tally.strays.values()].flat()) if (contains(span, row.eventSecond)) takeStray(tally, row)
  for (const row of rows) {
    if (contains(span, row.eventSecond) && !covers(tally, row.eventSecond)) change(tally, row, 1)
  }
  cover(tally, span)
}

export function createLeftOut(): LeftOut {
  let present = newTally({ from: -Infinity, expiring: -Infinity })
  let open: LeftOutTally | undefined
  /** The latest second of any listing. */
  let seenTo = -Infinity

  /** The count of the sweep before, and the count of the current one so far. */
  function tallies(second: number): LeftOutTally[] {
    return [
      ...(covers(present, second) ? [present] : []),
      ...(open !== undefined && covers(open, second) ? [open] : []),
    ]
  }

  return {
    begin(edges) {
      const own = newTally(edges)
      open = own
      return {
        add(span, rows) {
          cover(own, span)
          for (const row of rows) {
            change(own, row, 1)
            noteOldest(own.oldest, row)
          }
        },
        commit(isComplete) {
          open = undefined
          if (!isComplete) {
            for (const [id, second] of present.oldest)
              own.oldest.set(id, Math.min(own.oldest.get(id) ?? Infinity, second))
          }
          // Evicted since, beyond what this sweep has listed.
          for (const row of [...present.strays.values()].flat()) if (!covers(own, row.eventSecond)) addStray(own, row)
          present = own
        },
        abandon() {
          open = undefined
          for (const [id, second] of own.oldest)
            present.oldest.set(id, Math.min(present.oldest.get(id) ?? Infinity, second))
        },
      }
    },
    evicted(row) {
      if (covers(present, row.eventSecond)) change(present, row, 1)
      else addStray(present, row)
      noteOldest(present.oldest, row)
      if (open === undefined || !covers(open, row.eventSecond)) return
      change(open, row, 1)
      noteOldest(open.oldest, row)
    },
    entered(row) {
      for (const tally of tallies(row.eventSecond)) change(tally, row, -1)
      takeStray(present, row)
    },
    listed(span, rows) {
      seenTo = Math.max(seenTo, span.to)
      const first = new Map<string, number>()
      const inSpan = new Map<string, number>()
      for (const row of rows) {
        noteOldest(first, row)
        if (contains(span, row.eventSecond)) noteOldest(inSpan, row)
      }
      // The oldest of this span is now the next one that the listing showed, or the span's end: a lower bound. An evicted
      // record beyond the span says nothing of what lies between.
      for (const { oldest } of [present, ...(open === undefined ? [] : [open])]) {
        for (const [id, second] of oldest) {
          if (!contains(span, second)) continue
          const next = inSpan.get(id) ?? span.to
          if (next < seenTo) oldest.set(id, next)
          else oldest.delete(id)
        }
      }
      for (const [id, second] of first) present.oldest.set(id, Math.min(present.oldest.get(id) ?? Infinity, second))
      extend(present, span, rows)
    },
    forgetBefore(localSecond) {
      let lapsed = 0
      for (const [second, rows] of [...present.lapsing]) {
        if (second >= localSecond) continue
        present.lapsing.delete(second)
        // Listed again since: the new count is more exact.
        if (open === undefined || !covers(open, second)) lapsed += rows
      }
      for (const [second, rows] of [...(open?.lapsing ?? [])]) {
        if (second >= localSecond) continue
        open?.lapsing.delete(second)
        lapsed += rows
      }
      return lapsed
    },
    missing() {
      let sum = 0
      for (const counts of present.bySubscription.values()) {
        for (const decision of decisions) if (decision !== 'excluded') sum += counts[decision]
      }
      return sum
    },
    counts(isHeld = () => false) {
      const sum = noCounts()
      for (const [id, counts] of present.bySubscription) {
        const held = isHeld(id)
        for (const decision of decisions) sum[decision === 'due' && held ? 'held' : decision] += counts[decision]
      }
      return sum
    },
    expiring: () => ({ ...present.expiring, excluded: 0 }),
    any: () =>
      present.bySubscription.values().some((counts) => decisions.some((one) => one !== 'excluded' && counts[one] > 0)),
    oldestSecond(isMeant) {
      let oldest = Infinity
      for (const [id, second] of present.oldest) if (second < oldest && isMeant(id)) oldest = second
      return oldest === Infinity ? undefined : oldest
    },
  }
}
