// Zone-less date-times of the platform: parsing, formatting, and conversion to instants in `platform.timeZone`.

/**
 * A zone-less date-time as a number: milliseconds since 1970-01-01T00:00 on the platform's wall clock. Differences of local
 * times are wall-clock differences; only a TimeZone maps one to an instant.
 */
export type LocalMs = number

/** An IANA time zone that maps its wall clock to instants. */
export interface TimeZone {
  /** The wall clock at an instant (epoch ms). */
  toLocal(instantMs: number): LocalMs
  /**
   * The instants (epoch ms) at which the wall clock shows `local`: the earlier and the later one, equal if there is only one. A
   * time that daylight saving skips counts as if the clock had not moved yet.
   */
  toInstants(local: LocalMs): readonly [earlier: number, later: number]
  /** The next change of the offset after an instant (epoch ms), undefined if none is known. */
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

/** @throws RangeError if Temporal does not know the zone. */
export function createTimeZone(timeZone: string): TimeZone {
  const name = Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(timeZone).timeZoneId
  const spans: OffsetSpan[] = []
  /** Most times lie in the span of the one before. */
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

/** After the time of day, and before any `[zone]`, there is a `Z`, `+` or `-`. */
const namesOffset = /^[^t ]*[t ][^[]*[z+-]/i

/** Years have four digits; others exceed the range of an instant. */
const earliestLocal: LocalMs = -62_135_596_800_000
const latestLocal: LocalMs = 253_402_300_799_999

/**
 * The platform's usual form, except 29 February, which Temporal checks. Date.parse reads years before 1000 differently.
 */
const usual =
  /^[1-9]\d{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?$/

/** Reads the usual form, ten times as fast as Temporal; undefined for any other. Digits below milliseconds are ignored. */
function readUsual(text: string): LocalMs | undefined {
  return usual.test(text) ? Date.parse(`${text.slice(0, 23)}Z`) : undefined
}

/** @throws RangeError for a text that is no date-time. */
function readDateTime(text: string, zone: TimeZone): LocalMs {
  if (namesOffset.test(text)) return zone.toLocal(Temporal.Instant.from(text).epochMilliseconds)
  return Temporal.PlainDateTime.from(text).toZonedDateTime('UTC').epochMilliseconds
}

/**
 * Reads `eventDateTime` and `lastAttemptDateTime` (docs/platform-api.md "Webhook record"): ISO 8601, local, with or without
 * fractions. An offset, which the specification lacks, is respected. Undefined for any other text, and outside the years 1 to
 * 9999.
 */
export function parseLocal(text: unknown, zone: TimeZone): LocalMs | undefined {
  if (typeof text !== 'string' || text.length > 64) return undefined
  try {
    const local = readUsual(text) ?? readDateTime(text, zone)
    return local >= earliestLocal && local <= latestLocal ? local : undefined
  } catch {
    return undefined
  }
}

/** Formats whole local seconds for list parameters: `YYYY-MM-DDThh:mm:ss`. */
export function formatLocalSecond(localSecond: number): string {
  return new Date(localSecond * 1000).toISOString().slice(0, 19)
}

/** The later instant of an ambiguous local time, unless it is after `now`. All in epoch ms. */
export function laterReadingNotAfter(zone: TimeZone, local: LocalMs, now: number): number {
  const [earlier, later] = zone.toInstants(local)
  return later <= now ? later : earlier
}

/** Clock differences and delivery times are smaller. */
const maxOffsetMs = 600_000

/** True if attempts are so far outside the time of their retries that `platform.timeZone` must be wrong. */
export function isZoneWrong(offsetMs: number | undefined): boolean {
  return Math.abs(offsetMs ?? 0) > maxOffsetMs
}
