// Samples of the daemon's metrics, read from the text that Prometheus would read.

/** Samples by name with labels, as they stand in the text: `name{label="value"}`. */
export type Samples = ReadonlyMap<string, number>

export function parseSamples(text: string): Samples {
  const samples = new Map<string, number>()
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const space = line.lastIndexOf(' ')
    samples.set(line.slice(0, space), Number(line.slice(space + 1)))
  }
  return samples
}

/** Sum of a metric's series whose labels contain all the given ones; NaN when there is none. */
export function sumOf(samples: Samples, name: string, labels: Readonly<Record<string, string>> = {}): number {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  const isIt = (series: string): boolean => series === name || series.startsWith(`${name}{`)
  const values = [...samples]
    .filter(([series]) => isIt(series) && wanted.every((pair) => series.includes(pair)))
    .map(([, value]) => value)
  return values.length === 0 ? NaN : values.reduce((sum, value) => sum + value)
}
