// Reads a moment that a person or another program wrote. Date.parse would take any word and a number for a date: `incident 7` is 2001.

/** Epoch ms of an ISO 8601 date and time with its zone, such as `2026-01-15T12:00:00Z`; undefined for any other text. */
export function parseInstant(text: string): number | undefined {
  try {
    return Temporal.Instant.from(text).epochMilliseconds
  } catch {
    return undefined
  }
}

/** Null for a time that Date can't hold: it must not keep the rest from being shown. */
export function toDate(ms: number | undefined): Date | null {
  const date = new Date(ms ?? NaN)
  return Number.isNaN(date.getTime()) ? null : date
}
