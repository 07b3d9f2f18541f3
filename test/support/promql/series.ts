// Samples of series over time, as Prometheus keeps them: the last one within five minutes counts, unless the series has ended since.

export type Labels = Readonly<Record<string, string>>

export interface Sample {
  labels: Labels
  value: number
}

export interface Point {
  at: number
  value: number
}

export interface Points {
  labels: Labels
  /** Oldest first. */
  points: readonly Point[]
}

/** True for series that a selector means. */
export type Matcher = (labels: Labels) => boolean

export interface SeriesStore {
  /** What a target or a rule has at one moment, later than all before: a series that it had and has no more has ended. */
  add(source: string, at: number, samples: Iterable<Sample>): void
  /** Series of a name, each with its samples of a span, both ends included. */
  between(name: string, isMeant: Matcher, from: number, to: number): Points[]
  /** The last sample of each series of a name; none of a series that has ended. */
  lastOf(name: string, isMeant: Matcher, at: number): Sample[]
}

interface Series {
  labels: Labels
  /** Without a value it has ended. */
  points: { at: number; value: number | undefined }[]
}

export const nameLabel = '__name__'
const lookbackMs = 300_000

/** Equal for the same labels in any order. */
export function keyOf(labels: Labels, isMeant: (label: string) => boolean = () => true): string {
  const pairs = Object.entries(labels).filter(([label]) => isMeant(label))
  return JSON.stringify(pairs.sort(([a], [b]) => (a < b ? -1 : 1)))
}

export function createSeriesStore(): SeriesStore {
  /** By name, then by labels. */
  const all = new Map<string, Map<string, Series>>()
  /** By source: what it had last. */
  const current = new Map<string, ReadonlySet<Series>>()
  /** Of labels that come again as the same object. */
  const seriesOf = new WeakMap<Labels, Series>()

  function find(labels: Labels): Series {
    const ofName = all.getOrInsertComputed(labels[nameLabel] ?? '', () => new Map<string, Series>())
    return ofName.getOrInsertComputed(keyOf(labels), () => ({ labels, points: [] }))
  }

  function meant(name: string, isMeant: Matcher): Series[] {
    return [...(all.get(name)?.values() ?? [])].filter(({ labels }) => isMeant(labels))
  }

  return {
    add(source, at, samples) {
      const seen = new Set<Series>()
      for (const { labels, value } of samples) {
        const series = seriesOf.getOrInsertComputed(labels, find)
        series.points.push({ at, value })
        seen.add(series)
      }
      for (const series of current.get(source) ?? [])
        if (!seen.has(series)) series.points.push({ at, value: undefined })
      current.set(source, seen)
    },
    between(name, isMeant, from, to) {
      return meant(name, isMeant).flatMap(({ labels, points }) => {
        const first = points.findLastIndex(({ at }) => at < from) + 1
        const found = points.slice(first).filter((point): point is Point => point.value !== undefined && point.at <= to)
        return found.length === 0 ? [] : [{ labels, points: found }]
      })
    },
    lastOf(name, isMeant, now) {
      return meant(name, isMeant).flatMap(({ labels, points }) => {
        const { at, value } = points.findLast((point) => point.at <= now) ?? { at: -Infinity, value: undefined }
        return value === undefined || at < now - lookbackMs ? [] : [{ labels, value }]
      })
    },
  }
}
