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

/** Sum of a metric's series whose labels contain all the given ones. */
export function sumOf(samples: Samples, name: string, labels: Readonly<Record<string, string>> = {}): number {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  let sum = 0
  for (const [series, value] of samples) {
    const isIt = series === name || series.startsWith(`${name}{`)
    if (isIt && wanted.every((pair) => series.includes(pair))) sum += value
  }
  return sum
}
