// The platform's zone-less date-times: instants to local time, and local time to and from text.
// A local time is stored as microseconds since 1970-01-01T00:00:00 of the local wall clock.

export interface Zone {
  /** Local microseconds of an instant (epoch milliseconds; may have a fraction). */
  local(instantMs: number): number
}

/**
 * How fractional seconds are written: always 6 or 9 digits; `grouped` as Java's LocalDateTime.toString (none, 3, 6 or 9) or
 * `trimmed` as its ISO formatter (no trailing zeros, none when zero).
 */
export type Fraction = 'micro' | 'nano' | 'grouped' | 'trimmed'

/** @throws RangeError for a zone that the runtime does not know */
export function createZone(name: string): Zone {
  let from = 0
  let to = 0
  let offsetMs = 0

  function learnOffset(instantMs: number): void {
    const zoned = Temporal.Instant.fromEpochMilliseconds(Math.floor(instantMs)).toZonedDateTimeISO(name)
    offsetMs = zoned.offsetNanoseconds / 1e6
    // A transition exactly at the instant is the start of its own span.
    from = zoned.add({ nanoseconds: 1 }).getTimeZoneTransition('previous')?.epochMilliseconds ?? -Infinity
    to = zoned.getTimeZoneTransition('next')?.epochMilliseconds ?? Infinity
  }

  learnOffset(0)
  return {
    local(instantMs) {
      if (!(instantMs >= from && instantMs < to)) learnOffset(instantMs)
      // A double holds today's milliseconds to a quarter of a microsecond.
      return Math.round(instantMs * 1000) + offsetMs * 1000
    },
  }
}

/** `2025-03-04T05:06:07.123456`. The nanosecond digits are always zero. */
export function localText(localMicros: number, fraction: Fraction): string {
  const ms = Math.floor(localMicros / 1000)
  const seconds = new Date(ms).toISOString().slice(0, 19)
  const micros = (((localMicros % 1_000_000) + 1_000_000) % 1_000_000).toString().padStart(6, '0')
  switch (fraction) {
    case 'micro':
      return `${seconds}.${micros}`
    case 'nano':
      return `${seconds}.${micros}000`
    case 'grouped':
      return micros === '000000' ? seconds : `${seconds}.${micros.endsWith('000') ? micros.slice(0, 3) : micros}`
    case 'trimmed':
      return micros === '000000' ? seconds : `${seconds}.${micros.replace(/0+$/, '')}`
  }
}

const secondsPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/

/** Local microseconds of `YYYY-MM-DDThh:mm:ss`, exactly that; undefined for anything else. @see docs/platform-api.md "List webhooks" */
export function parseLocalSeconds(text: string): number | undefined {
  if (!secondsPattern.test(text)) return undefined
  const ms = Date.parse(`${text}Z`)
  // Date.parse accepts the 30th of February.
  return Number.isNaN(ms) || !new Date(ms).toISOString().startsWith(text) ? undefined : ms * 1000
}
