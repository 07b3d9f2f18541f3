// Parts of the window that the platform does not list: skipped by later sweeps, and tried again at a falling rate. @see docs/architecture.md "Sweep"
import type { PlatformFailure } from '../../platform/http/response.ts'
import { formatLocalSecond } from '../../platform/time-zone.ts'
import { contains, cut, isEmpty, type Span } from '../window.ts'

const byTime = (a: UnlistedPart, b: UnlistedPart): number => a.span.from - b.span.from
const overlap = (a: Span, b: Span): boolean => a.from < b.to && b.from < a.to
const lengthOf = ({ from, to }: Span): number => to - from

/** A span that is to be listed. `uncut`: if that fails, it is not cut. */
export interface PlannedSpan extends Span {
  uncut?: true
}

/** A part of the window that could not be listed. */
export interface UnlistedPart {
  span: Span
  failure: PlatformFailure
  /** Monotonic ms of its first failure, and of the next try. */
  since: number
  dueAt: number
  /** How often it was tried again. */
  tries: number
}

/** All of them in one. Times on the platform's wall clock. */
export interface UnlistedSum {
  from: string
  to: string
  seconds: number
  reason: PlatformFailure['reason']
  /** HTTP status of the response; null when none came. */
  status: number | null
  /** Code and message of the platform's error body. */
  problem?: string
}

/** Undefined for none. */
export function sumOfUnlisted(parts: readonly Pick<UnlistedPart, 'failure' | 'span'>[]): UnlistedSum | undefined {
  const [first] = parts
  if (first === undefined) return undefined
  const { problem, reason, status = null } = first.failure
  return {
    from: formatLocalSecond(Math.min(...parts.map(({ span }) => span.from))),
    to: formatLocalSecond(Math.max(...parts.map(({ span }) => span.to))),
    seconds: parts.reduce((sum, { span }) => sum + lengthOf(span), 0),
    ...{ reason, status },
    ...(problem !== undefined && { problem }),
  }
}

export interface Unlistable {
  /** Cuts a span into spans to be listed now, earliest first, and parts that are not tried yet. */
  plan(span: Span): { ahead: PlannedSpan[]; resting: UnlistedPart[] }
  failed(span: Span, failure: PlatformFailure): void
  /** A sweep has tried this span to its end: of parts that were tried again, those remain that have failed. */
  tried(span: Span): void
  /** A span in pieces that are no longer than what the platform lists at once; one in most cases. */
  narrow(span: PlannedSpan): PlannedSpan[]
  /** Both halves of a span, so long, were listed that could not be listed in one. */
  learnWidth(seconds: number): void
  /** Forgets what lies before a local second, or all. */
  forgetBefore(localSecond: number): void
  parts(): readonly UnlistedPart[]
}

const firstRestMs = 60_000
const maxRestMs = 3_600_000
/** A part is tried again in more pieces each time: so its edges, and what can be listed within it, are found. */
const firstPieces = 8
const maxPieces = 64
/**
 * Beside a longer part so many seconds are listed apart, and skipped whole if that fails: where the platform lists the last days
 * only, the part grows with time.
 */
const edgeSeconds = 300
/** Spans are not cut shorter than this for a limit of their length. It holds for an hour. */
const minWidth = 1800
const widthMs = 3_600_000

export function createUnlistable(monotonic: () => number): Unlistable {
  /** Apart from each other. */
  let parts: UnlistedPart[] = []
  /** Parts that are being tried again: what comes of it is known at the end of the sweep. */
  let trying: UnlistedPart[] = []
  let width = { seconds: Infinity, until: -Infinity }

  function add(part: UnlistedPart): void {
    const { span } = part
    const touches = (other: UnlistedPart): boolean => other.span.from <= span.to && span.from <= other.span.to
    const near = parts.filter(touches)
    const all = [...near, part]
    // The part that was tried most often says when the whole is tried again.
    const oldest = all.reduce((a, b) => (b.tries > a.tries ? b : a))
    const from = Math.min(...all.map((one) => one.span.from))
    const to = Math.max(...all.map((one) => one.span.to))
    const since = Math.min(...all.map((one) => one.since))
    const merged = { ...oldest, span: { from, to }, failure: part.failure, since }
    parts = [...parts.filter((other) => !touches(other)), merged]
  }

  /** The seconds between two parts. */
  function gap(span: Span, before: UnlistedPart | undefined): PlannedSpan[] {
    if (before === undefined || lengthOf(before.span) <= edgeSeconds) return isEmpty(span) ? [] : [span]
    const middle = Math.min(span.to, span.from + edgeSeconds)
    const edge = { from: span.from, to: middle, uncut: true } as const
    return [edge, { from: middle, to: span.to }].filter((one) => !isEmpty(one))
  }

  /** The pieces of a part that is tried again; what lies outside of the span stays as it was. */
  function retry(part: UnlistedPart, inside: Span): PlannedSpan[] {
    parts = parts.filter((other) => other !== part)
    for (const rest of [
      { from: part.span.from, to: inside.from },
      { from: inside.to, to: part.span.to },
    ])
      if (!isEmpty(rest)) parts.push({ ...part, span: rest })
    trying.push({ ...part, span: inside })
    return cut(inside, Math.min(maxPieces, firstPieces * 2 ** part.tries)).map((piece) => ({ ...piece, uncut: true }))
  }

  return {
    plan(span) {
      const ahead: PlannedSpan[] = []
      const resting: UnlistedPart[] = []
      // Of a sweep that was broken off.
      parts = [...parts, ...trying.filter(({ span: tried }) => overlap(tried, span))].toSorted(byTime)
      trying = trying.filter(({ span: tried }) => !overlap(tried, span))
      let [at, before] = [span.from, undefined as UnlistedPart | undefined]
      for (const part of parts.filter((one) => overlap(one.span, span))) {
        const inside = { from: Math.max(part.span.from, span.from), to: Math.min(part.span.to, span.to) }
        ahead.push(...gap({ from: at, to: inside.from }, before))
        if (part.dueAt <= monotonic()) ahead.push(...retry(part, inside))
        else resting.push({ ...part, span: inside })
        at = inside.to
        before = part
      }
      ahead.push(...gap({ from: at, to: span.to }, before))
      return { ahead, resting }
    },
    failed(span, failure) {
      const now = monotonic()
      const again = trying.find((part) => contains(part.span, span.from))
      const tries = again === undefined ? 0 : again.tries + 1
      const dueAt = now + Math.min(maxRestMs, firstRestMs * 2 ** tries)
      add({ span: { from: span.from, to: span.to }, failure, since: again?.since ?? now, dueAt, tries })
    },
    narrow(span) {
      const seconds = monotonic() < width.until ? width.seconds : Infinity
      const { uncut } = span
      return cut(span, Math.ceil(lengthOf(span) / seconds)).map((piece) => ({ ...piece, ...(uncut && { uncut }) }))
    },
    learnWidth(seconds) {
      const now = monotonic()
      if (seconds < minWidth || (now < width.until && seconds >= width.seconds)) return
      width = { seconds, until: now + widthMs }
    },
    forgetBefore(localSecond) {
      const isLater = ({ span }: UnlistedPart): boolean => span.to > localSecond
      parts = parts.filter(isLater)
      trying = trying.filter(isLater)
    },
    tried(span) {
      trying = trying.filter((part) => !overlap(part.span, span))
    },
    parts: () => [...parts, ...trying].toSorted(byTime),
  }
}
