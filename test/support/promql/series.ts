// Samples of series over time, as Prometheus keeps them: the last one within five minutes counts, unless the series has ended since.

export type Labels = Readonly<Record<string, string>>

export interface Sample {
  labels: Labels
  value: number
  /** Of the sample, epoch ms. */
  at: number
}

export interface Points {
  labels: Labels
  /** Oldest first. */
  points: readonly { at: number; value: number }[]
}

export interface SeriesStore {
  /** What a target or a rule has at one moment, later than all before: a series that it had and has no more has ended. */
  add(source: string, at: number, samples: Iterable<Omit<Sample, 'at'>>): void
  /** Series of a name, each with its samples of a span, both ends included. */
  between(name: string, from: number, to: number): Points[]
  /** The last sample of each series of a name; none of a series that has ended. */
  lastOf(name: string, at: number): Sample[]
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

  return {
    add(source, at, samples) {
      const seen = new Set<Series>()
      for (const { labels, value } of samples) {
        const ofName = all.getOrInsertComputed(labels[nameLabel] ?? '', () => new Map<string, Series>())
        const series = ofName.getOrInsertComputed(keyOf(labels), () => ({ labels, points: [] }))
        series.points.push({ at, value })
        seen.add(series)
      }
      for (const series of current.get(source) ?? [])
        if (!seen.has(series)) series.points.push({ at, value: undefined })
      current.set(source, seen)
    },
    between(name, from, to) {
      return [...(all.get(name)?.values() ?? [])].flatMap(({ labels, points }) => {
        const within = points.slice(points.findLastIndex((point) => point.at < from) + 1)
        const found = within.flatMap(({ at, value }) => (value === undefined || at > to ? [] : [{ at, value }]))
        return found.length === 0 ? [] : [{ labels, points: found }]
      })
    },
    lastOf(name, now) {
      return [...(all.get(name)?.values() ?? [])].flatMap(({ labels, points }) => {
        const { at, value } = points.findLast((point) => point.at <= now) ?? { at: -Infinity, value: undefined }
        return value === undefined || at < now - lookbackMs ? [] : [{ labels, value, at }]
      })
    },
  }
}
