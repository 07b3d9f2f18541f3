// Reads what the daemon shows of itself: its metrics as Prometheus would, from the text, and its status.
import { request } from 'undici'
import type { StatusDocument } from '../../src/ops/status-document.ts'

/** Samples by name with labels, as they stand in the text: `name{label="value"}`. */
export type Samples = ReadonlyMap<string, number>

const timeoutMs = 2000

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

/** The body of a 200; undefined while nobody answers. */
async function read(url: string): Promise<string | undefined> {
  try {
    const { statusCode, body } = await request(url, { headersTimeout: timeoutMs, bodyTimeout: timeoutMs })
    const text = await body.text()
    return statusCode === 200 ? text : undefined
  } catch {
    return undefined
  }
}

/** One scrape; undefined while nobody answers. */
export async function scrape(url: string): Promise<Samples | undefined> {
  const text = await read(url)
  return text === undefined ? undefined : parseSamples(text)
}

/** The daemon's own document: nothing else answers there. Undefined while nobody does. */
export async function readStatus(url: string): Promise<StatusDocument | undefined> {
  const text = await read(url)
  return text === undefined ? undefined : (JSON.parse(text) as StatusDocument)
}
