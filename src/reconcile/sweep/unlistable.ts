// Parts of the window that the platform does not list: later sweeps skip them, and retry them at a falling rate. @see docs/architecture.md "Sweep"
import type { PlatformFailure } from '../../platform/http/response.ts'
import { formatLocalSecond } from '../../platform/time-zone.ts'
import { cut, isEmpty, without, type Span } from '../window.ts'

const overlap = (a: Span, b: Span): boolean => a.from < b.to && b.from < a.to
const lengthOf = ({ from, to }: Span): number => to - from

/** A span to be listed. `uncut`: if that fails, it is not cut. */
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
  /** Number of further tries. */
  tries: number
}

/** The sum of all parts. Times on the platform's wall clock. */
export interface UnlistedSum {
  from: string
  to: string
  seconds: number
  reason: PlatformFailure['reason']
  /** HTTP status of the response; null without one. */
  status: number | null
  /** Code and message of the platform's error body. */
  problem?: string | undefined
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
    ...{ reason, status, problem },
  }
}

export interface Unlistable {
  /** Cuts a span into spans to list now, earliest first, and parts not to be tried yet. */
  plan(span: Span): { ahead: PlannedSpan[]; resting: UnlistedPart[] }
  failed(span: Span, failure: PlatformFailure): void
  /** A span could be listed. */
  listed(span: Span): void
  forgetBefore(localSecond: number): void
  /** Earliest first. */
  parts(): readonly UnlistedPart[]
}

const firstRestMs = 60_000
const maxRestMs = 3_600_000
/** Each retry uses more pieces: this finds the edges of a part, and what can be listed within it. */
const firstPieces = 8
const maxPieces = 64
/**
 * Beside a longer part, this many seconds are listed separately, and skipped as a whole if that fails: if the platform lists
 * only the last days, the part grows with time.
 */
const edgeSeconds = 300

export function createUnlistable(monotonic: () => number): Unlistable {
  /** The parts do not overlap. */
  let parts: UnlistedPart[] = []

  function add(part: UnlistedPart): void {
    const { span } = part
    const touches = (other: UnlistedPart): boolean => other.span.from <= span.to && span.from <= other.span.to
    const all = [...parts.filter(touches), part]
    // The most retried part determines the next try of the whole.
    const [oldest = part] = all.toSorted((a, b) => b.tries - a.tries)
    const from = Math.min(...all.map((one) => one.span.from))
    const to = Math.max(...all.map((one) => one.span.to))
    const since = Math.min(...all.map((one) => one.since))
    const merged = { ...oldest, span: { from, to }, failure: part.failure, since }
    parts = [...parts.filter((other) => !touches(other)), merged].toSorted((a, b) => a.span.from - b.span.from)
  }

  /** The seconds between two parts. */
  function gap(span: Span, before: UnlistedPart | undefined): PlannedSpan[] {
    if (before === undefined || lengthOf(before.span) <= edgeSeconds) return isEmpty(span) ? [] : [span]
    const middle = Math.min(span.to, span.from + edgeSeconds)
    const edge = { from: span.from, to: middle, uncut: true } as const
    return [edge, { from: middle, to: span.to }].filter((one) => !isEmpty(one))
  }

  function retry(span: Span, { tries }: UnlistedPart): PlannedSpan[] {
    return cut(span, Math.min(maxPieces, firstPieces * 2 ** tries)).map((piece) => ({ ...piece, uncut: true }))
  }

  /** Takes a span out of the parts. */
  function takeOut(span: Span): void {
    parts = parts.flatMap((part) => without([part.span], span).map((left) => ({ ...part, span: left })))
  }

  return {
    plan(span) {
      const ahead: PlannedSpan[] = []
      const resting: UnlistedPart[] = []
      let [at, before] = [span.from, undefined as UnlistedPart | undefined]
      for (const part of parts.filter((one) => overlap(one.span, span))) {
        const inside = { from: Math.max(part.span.from, span.from), to: Math.min(part.span.to, span.to) }
        ahead.push(...gap({ from: at, to: inside.from }, before))
        if (part.dueAt <= monotonic()) ahead.push(...retry(inside, part))
        else resting.push({ ...part, span: inside })
        at = inside.to
        before = part
      }
      ahead.push(...gap({ from: at, to: span.to }, before))
      return { ahead, resting }
    },
    failed({ from, to }, failure) {
      const now = monotonic()
      const before = parts.find(({ span }) => overlap(span, { from, to }))
      // Others of the same sweep may be of the same part.
      const tries = before === undefined ? 0 : before.tries + Number(before.dueAt <= now)
      const dueAt = now + Math.min(maxRestMs, firstRestMs * 2 ** tries)
      takeOut({ from, to })
      add({ span: { from, to }, failure, since: before?.since ?? now, dueAt, tries })
    },
    listed: takeOut,
    forgetBefore(localSecond) {
      parts = parts.filter(({ span }) => span.to > localSecond)
    },
    parts: () => parts,
  }
}
