// Moments as the commands take and show them: in one stated zone, always with its offset.
import { parseDuration } from '../config/duration.ts'
import { shownText } from '../config/layer.ts'
import { UsageError } from '../runtime/errors.ts'

/** Which of two readings of a local time is meant that daylight saving repeats: the earlier for a beginning, the later for an end. */
export type Edge = 'earlier' | 'later'

export interface Moments {
  /** IANA name of the zone. */
  zone: string
  /** `2026-01-02T03:04:05Z`, or with the zone's offset; `-` for undefined and for what is no moment. Epoch ms. */
  show(ms: number | undefined): string
  /**
   * Epoch ms of what was given to an option: a moment with its zone (`2026-01-02T03:04:05Z`), a local one in the zone
   * (`2026-01-02T03:04`, `2026-01-02`), or how long before `now` (`6h`).
   * @throws UsageError that names the option
   */
  parse(text: string, about: { option: string; now: number; edge: Edge }): number
}

/** A time of day, then `Z` or an offset. */
const hasOffset = /[Tt ][^[]*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)(?:\[|$)/

/** @throws UsageError for a zone that is not known */
export function createMoments(zone: string): Moments {
  const name = zoneNamed(zone)

  function show(ms: number | undefined): string {
    if (ms === undefined || !(Math.abs(ms) <= 8.64e15)) return '-'
    const at = Temporal.Instant.fromEpochMilliseconds(Math.floor(ms)).toZonedDateTimeISO(name)
    const local = at.toPlainDateTime().toString({ smallestUnit: 'second' })
    return local + (name === 'UTC' ? 'Z' : at.offset)
  }

  function read(text: string, now: number, edge: Edge): number {
    const before = parseDuration(text)
    if (before !== undefined) return now - before
    if (hasOffset.test(text)) return Temporal.Instant.from(text).epochMilliseconds
    return Temporal.PlainDateTime.from(text).toZonedDateTime(name, { disambiguation: edge }).epochMilliseconds
  }

  return {
    zone: name,
    show,
    parse(text, { option, now, edge }) {
      try {
        return read(text, now, edge)
      } catch {
        throw new UsageError(
          `${option}: a moment such as 2026-01-02T03:04:05Z or 2026-01-02T03:04 (in ${name}), or how long ago, such as 6h; ` +
            `not "${shownText(text)}"`,
        )
      }
    },
  }
}

function zoneNamed(zone: string): string {
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(zone).timeZoneId
  } catch {
    throw new UsageError(`--zone: an IANA time zone such as UTC or Europe/Berlin, not "${shownText(zone)}"`)
  }
}

/** A span for people: `12 s`, `4 min`, `2 h 10 min`, `3 d 4 h`. */
export function showSpan(seconds: number): string {
  if (!Number.isFinite(seconds)) return 'no end in sight'
  const whole = Math.max(0, Math.round(seconds))
  if (whole < 120) return `${whole} s`
  const minutes = Math.round(whole / 60)
  if (minutes < 120) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`
  const days = Math.floor(hours / 24)
  return hours % 24 === 0 ? `${days} d` : `${days} d ${hours % 24} h`
}
