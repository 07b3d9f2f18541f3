// Times as commands read and show them, always in one stated zone.
import { parseDuration } from '../config/duration.ts'
import { shownText } from '../runtime/redact.ts'
import { UsageError } from '../runtime/errors.ts'

/** Which reading of a repeated local time counts: the earlier for a start, the later for an end. */
type Edge = 'earlier' | 'later'

export interface Moments {
  /** `2026-01-02T03:04:05Z`, or with the zone's offset; `-` for none or an invalid one. A number is epoch ms. */
  show(at: Date | number | null): string
  /**
   * Epoch ms of an option's value: a time with zone (`2026-01-02T03:04:05Z`), a local time in the zone (`2026-01-02T03:04`,
   * `2026-01-02`), or an age (`6h`).
   * @throws UsageError that names the option
   */
  parse(text: string, about: { option: string; now: number; edge: Edge }): number
}

/** Between these, local times of all zones have four-digit years. */
const [earliest, latest] = [Date.parse('0001-01-01T00:00Z'), Date.parse('9999-12-31T10:00Z')]

/** A time of day, then `Z` or an offset. */
const hasOffset = /[Tt ][^[]*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)(?:\[|$)/

function zoneNamed(zone: string): string {
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(zone).timeZoneId
  } catch {
    throw new UsageError(`--zone: an IANA time zone such as UTC or Europe/Berlin, not "${shownText(zone)}"`)
  }
}

/** @throws UsageError for an unknown zone */
export function createMoments(zone: string): Moments {
  const name = zoneNamed(zone)

  function read(text: string, now: number, edge: Edge): number {
    const before = parseDuration(text)
    if (before !== undefined) return now - before
    if (hasOffset.test(text)) return Temporal.Instant.from(text).epochMilliseconds
    const how = { disambiguation: edge }
    // A local time leaves out a zone in brackets.
    if (text.endsWith(']')) return Temporal.ZonedDateTime.from(text, how).epochMilliseconds
    return Temporal.PlainDateTime.from(text).toZonedDateTime(name, how).epochMilliseconds
  }

  return {
    show(at) {
      const ms = at === null ? NaN : Math.floor(Number(at))
      if (Number.isNaN(new Date(ms).getTime())) return '-'
      const moment = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(name)
      const local = moment.toPlainDateTime().toString({ smallestUnit: 'second' })
      return local + (name === 'UTC' ? 'Z' : moment.offset)
    },
    parse(text, { option, now, edge }) {
      try {
        const at = read(text, now, edge)
        if (at >= earliest && at <= latest) return at
        throw new RangeError('out of the years 1 to 9999')
      } catch {
        throw new UsageError(
          `${option}: a moment such as 2026-01-02T03:04:05Z or 2026-01-02T03:04 (in ${name}), or how long ago, such as 6h; ` +
            `not "${shownText(text)}"`,
        )
      }
    },
  }
}
