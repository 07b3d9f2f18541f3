// The sliding window of event time, and spans of it, in seconds of the platform's wall clock.
import type { TimeZone } from '../platform/time-zone.ts'
import { recentMs, type WindowPolicy } from './policy.ts'

/** The event seconds `[from, to)` of the platform's wall clock. */
export interface Span {
  from: number
  to: number
}

export function isEmpty(span: Span): boolean {
  return span.to <= span.from
}

export function contains(span: Span, localSecond: number): boolean {
  return span.from <= localSecond && localSecond < span.to
}

/** What is left of spans without another one. */
export function without(spans: readonly Span[], { from, to }: Span): Span[] {
  const sidesOf = (span: Span): Span[] => [
    { from: span.from, to: Math.min(span.to, from) },
    { from: Math.max(span.from, to), to: span.to },
  ]
  return spans.flatMap(sidesOf).filter((span) => !isEmpty(span))
}

/** Clocks are set back by at most two hours; this adds a reserve. */
const maxRepeatMs = 3 * 3_600_000

/** Lowest reading of the wall clock at or soon after an instant: a clock that is set back repeats readings. */
function minFrom(zone: TimeZone, instant: number): number {
  const change = zone.nextTransition(instant)
  const reading = zone.toLocal(instant)
  return change === undefined || change > instant + maxRepeatMs ? reading : Math.min(reading, zone.toLocal(change))
}

/** Lowest reading above all that the wall clock showed at or shortly before an instant, to the second. */
function maxUntil(zone: TimeZone, instant: number): number {
  const change = zone.nextTransition(instant - maxRepeatMs)
  const reading = zone.toLocal(instant)
  return change === undefined || change > instant ? reading : Math.max(reading, zone.toLocal(change - 1) + 1)
}

/**
 * `[now - lookback, now - settle]` on the platform's wall clock, widened by the hour that daylight saving repeats; the second
 * that has just settled follows with the next sweep. `now` in epoch ms of the platform's clock.
 */
export function slidingWindow(now: number, policy: WindowPolicy, zone: TimeZone): Span {
  return {
    from: Math.floor(minFrom(zone, now - policy.lookback) / 1000),
    to: Math.floor(maxUntil(zone, now - policy.settle) / 1000),
  }
}

/**
 * The seconds of a time range, in epoch ms. Daylight saving that repeats an hour widens it: each record's own time decides.
 */
export function spanBetween({ from, until }: Record<'from' | 'until', number>, now: number, zone: TimeZone): Span {
  const { to, ...span } = slidingWindow(now, { lookback: now - from, settle: now - until }, zone)
  // `until` may lie within one.
  return { ...span, to: to + 1 }
}

/** The instants that events of a time range may have: if daylight saving repeats an hour, the platform's times may mean either. */
export function instantsBetween(
  range: Record<'from' | 'until', number>,
  zone: TimeZone,
): Record<'from' | 'until', number> {
  const [from] = zone.toInstants(minFrom(zone, range.from))
  const [, until] = zone.toInstants(maxUntil(zone, range.until))
  return { from, until }
}

const maxWarningMs = 6 * 3_600_000

/** How long before leaving the window an event is expiring: a quarter of a short window, so that not all its events are. */
export function expiryWarningMs({ lookback }: Pick<WindowPolicy, 'lookback'>): number {
  return Math.min(maxWarningMs, lookback / 4)
}

/**
 * The second on the platform's wall clock before which events are expiring: they leave the window within the warning time.
 * `now` in epoch ms of the platform's clock.
 */
export function expiringBefore(now: number, policy: WindowPolicy, zone: TimeZone): number {
  return slidingWindow(now + expiryWarningMs(policy), policy, zone).from
}

/**
 * The part of the window whose events settled within the last hour, even if the wall clock was put forward in it, and
 * everything since `seenTo`, the local second at which the last such part ended.
 */
export function newestHour(now: number, policy: WindowPolicy, zone: TimeZone, seenTo = Infinity): Span {
  const whole = slidingWindow(now, policy, zone)
  const hour = slidingWindow(now, { ...policy, lookback: policy.settle + recentMs }, zone)
  return { from: Math.max(whole.from, Math.min(hour.from, seenTo)), to: whole.to }
}

/** Cuts a span into at most `parts` equal spans of whole seconds, earliest first. */
export function cut(span: Span, parts: number): Span[] {
  const seconds = span.to - span.from
  const count = Math.max(1, Math.min(parts, seconds))
  const edge = (index: number): number => span.from + Math.floor((seconds * index) / count)
  return Array.from({ length: count }, (_, index) => ({ from: edge(index), to: edge(index + 1) }))
}
