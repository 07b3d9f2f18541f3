// Times and spans as the status document gives them: ISO 8601 in UTC, and seconds.

/** Largest time that Date knows. @see ECMA-262 section 21.4.1.1 */
const maxTimeMs = 8.64e15

/** A time that Date can't hold is as good as none: it must not keep the rest from being shown. */
export function toTime(ms: number | undefined): string | null {
  return ms === undefined || !(Math.abs(ms) <= maxTimeMs) ? null : new Date(ms).toISOString()
}

/** Seconds with one digit; never 0 while something is left. */
export function toSeconds(ms: number): number {
  return Math.ceil(Math.max(0, ms) / 100) / 10
}
