// Zone-less date-times of the platform: parsing, writing, and their relation to instants in `platform.timeZone`.

/**
 * A zone-less date-time as a number: the milliseconds since 1970-01-01T00:00 on the platform's wall clock.
 * Differences of local times are wall-clock differences; only a TimeZone knows which instant one is.
 */
export type LocalMs = number

/** An IANA time zone that knows how its wall clock relates to instants. */
export interface TimeZone {
  readonly name: string
  /** Reading of the wall clock at an instant (epoch ms). */
  toLocal(instantMs: number): LocalMs
  /**
   * The instants (epoch ms) at which the wall clock reads `local`: the earlier and the later one, equal when there is
   * one only. A reading that daylight saving skips counts as if the clock had not yet been moved.
   */
  toInstants(local: LocalMs): readonly [earlier: number, later: number]
  /** The next change of the offset after an instant (epoch ms), undefined when none is known. */
  nextTransition(instantMs: number): number | undefined
}

interface OffsetSpan {
  from: number
  to: number
  offsetMs: number
}

const dayMs = 86_400_000
/** Number of cached spans of equal offset; a window of a year needs three. */
const maxSpans = 64

/** @throws RangeError when Temporal does not know the zone. */
export function createTimeZone(timeZone: string): TimeZone {
  const name = Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(timeZone).timeZoneId
  const spans: OffsetSpan[] = []
  /** Most times lie in the same span as the one before. */
  let last: OffsetSpan | undefined

  function spanAt(instantMs: number): OffsetSpan {
    if (last === undefined || instantMs < last.from || instantMs >= last.to) last = findSpan(instantMs)
    return last
  }

  function findSpan(instantMs: number): OffsetSpan {
    const known = spans.find((span) => span.from <= instantMs && instantMs < span.to)
    if (known !== undefined) return known
    const at = Temporal.Instant.fromEpochMilliseconds(Math.floor(instantMs)).toZonedDateTimeISO(name)
    const previous = at.add({ milliseconds: 1 }).getTimeZoneTransition('previous')
    const next = at.getTimeZoneTransition('next')
    const span = {
      from: previous?.epochMilliseconds ?? -Infinity,
      to: next?.epochMilliseconds ?? Infinity,
      offsetMs: at.offsetNanoseconds / 1e6,
    }
    if (spans.length >= maxSpans) spans.shift()
    spans.push(span)
    return span
  }

  return {
    name,
    toLocal: (instantMs) => instantMs + spanAt(instantMs).offsetMs,
    toInstants(local) {
      const before = spanAt(local - dayMs).offsetMs
      const after = spanAt(local + dayMs).offsetMs
      if (before === after) return [local - before, local - before]
      const readings = [local - before, local - after].filter((instant) => instant + spanAt(instant).offsetMs === local)
      const earlier = readings[0] ?? local - before
      const later = readings[1] ?? earlier
      return earlier <= later ? [earlier, later] : [later, earlier]
    },
    nextTransition(instantMs) {
      const end = spanAt(instantMs).to
      return end === Infinity ? undefined : end
    },
  }
}

/** Behind the time of day, and before any `[zone]`, there is a `Z`, `+` or `-`. */
const namesOffset = /^[^t ]*[t ][^[]*[z+-]/i

/** Years have four digits; others are beyond the range of an instant. */
const earliestLocal: LocalMs = -62_135_596_800_000
const latestLocal: LocalMs = 253_402_300_799_999

/**
 * The platform's usual form, without the 29th of a February: Temporal knows whether there is one. Date.parse reads years
 * before 1000 differently.
 */
const usual =
  /^[1-9]\d{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?$/

/** Reads the usual form, ten times as fast as Temporal; undefined for any other form. Digits below milliseconds are cut off. */
function readUsual(text: string): LocalMs | undefined {
  return usual.test(text) ? Date.parse(`${text.slice(0, 23)}Z`) : undefined
}

/** @throws RangeError for a text that is no date-time. */
function readDateTime(text: string, zone: TimeZone): LocalMs {
  if (namesOffset.test(text)) return zone.toLocal(Temporal.Instant.from(text).epochMilliseconds)
  return Temporal.PlainDateTime.from(text).toZonedDateTime('UTC').epochMilliseconds
}

/**
 * Reads `eventDateTime` and `lastAttemptDateTime` (docs/platform-api.md "Webhook record"): ISO 8601, local, with or without fractions.
 * A text with an offset, which the specification doesn't have, is read with that offset.
 * Returns undefined for any other text, and outside of the years 1 to 9999.
 */
export function parseLocal(text: unknown, zone: TimeZone): LocalMs | undefined {
  if (typeof text !== 'string' || text.length < 10 || text.length > 64) return undefined
  try {
    const local = readUsual(text) ?? readDateTime(text, zone)
    return local >= earliestLocal && local <= latestLocal ? local : undefined
  } catch {
    return undefined
  }
}

/** Writes whole local seconds as the list parameters want them: `YYYY-MM-DDThh:mm:ss`. */
export function formatLocalSecond(localSecond: number): string {
  return new Date(localSecond * 1000).toISOString().slice(0, 19)
}

/** The reading of an ambiguous local time that is the later one, unless that lies after `now`. All in epoch ms. */
export function laterReadingNotAfter(zone: TimeZone, local: LocalMs, now: number): number {
  const [earlier, later] = zone.toInstants(local)
  return later <= now ? later : earlier
}

/** Clocks, and the time that a delivery takes, explain less. */
const maxOffsetMs = 600_000

/** True when attempts are shown so far outside the time in which they were made that `platform.timeZone` must be wrong. */
export function isZoneWrong(offsetMs: number | undefined): boolean {
  return Math.abs(offsetMs ?? 0) > maxOffsetMs
}
