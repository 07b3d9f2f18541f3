// Reads a moment that a person or another program wrote. Date.parse would take any word and a number for a date: `incident 7` is 2001.

/** Epoch ms of an ISO 8601 date and time with its zone, such as `2026-01-15T12:00:00Z`; undefined for any other text. */
export function parseInstant(text: string): number | undefined {
  try {
    return Temporal.Instant.from(text).epochMilliseconds
  } catch {
    return undefined
  }
}
