// Parses a time written by a person or another program. Date.parse would take any word and a number for a date: `incident 7` is 2001.

/** Epoch ms of an ISO 8601 date and time with its zone, such as `2026-01-15T12:00:00Z`; undefined for any other text. */
export function parseInstant(text: string): number | undefined {
  try {
    return Temporal.Instant.from(text).epochMilliseconds
  } catch {
    return undefined
  }
}

/** Null for a time that Date can't represent, so that the rest is still shown. */
export function toDate(ms: number | undefined): Date | null {
  const date = new Date(ms ?? NaN)
  return Number.isNaN(date.getTime()) ? null : date
}
