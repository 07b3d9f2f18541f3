// The keys that the receiver has processed, and which of them the platform has: hashes in typed arrays, so that millions take little memory.
import { hash } from 'node:crypto'

export interface Ledger {
  /** Number of processed keys, and the first one; '' without any. */
  readonly lines: number
  readonly sample: string
  has(key: string): boolean
  /** Notes that the platform has this key for this event. True if the receiver has processed it. */
  note(key: string, eventId: string): boolean
  /** True for a noted processed key. */
  isNoted(key: string): boolean
  /** Number of processed keys that were not noted. */
  unknown(): number
  /** Number of keys noted for several events. */
  severalEvents(): number
}

/** 52 bits of a hash: among a million keys, a lost record collides once in four billion times. */
const hexDigits = 13

/** Never 0. Hexadecimal text leaves less garbage than a Buffer. */
function hashOf(text: string): number {
  return Number.parseInt(hash('sha256', text, 'hex').slice(0, hexDigits), 16) + 1
}

/** The first index of a value among sorted ones; undefined if absent. */
function placeOf(sorted: Float64Array, value: number): number | undefined {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] ?? 0) < value) low = middle + 1
    else high = middle
  }
  return sorted[low] === value ? low : undefined
}

/** Reads all processed keys. Rejects like the input. */
export async function readLedger(keys: AsyncIterable<string>): Promise<Ledger> {
  const hashes: number[] = []
  let sample = ''
  for await (const key of keys) {
    if (hashes.length === 0) sample = key
    hashes.push(hashOf(key))
  }
  const processed = Float64Array.from(hashes).sort()
  /** The last event of each key, to notice another one; 0 without any. */
  const events = new Float64Array(processed.length)
  /** The last events of unprocessed keys. */
  const others = new Map<number, number>()
  const several = new Set<number>()

  return {
    lines: hashes.length,
    sample,
    has: (key) => placeOf(processed, hashOf(key)) !== undefined,
    note(key, eventId) {
      const [keyHash, event] = [hashOf(key), hashOf(eventId)]
      const place = placeOf(processed, keyHash)
      const known = (place === undefined ? others.get(keyHash) : events[place]) ?? 0
      if (known !== 0 && known !== event) several.add(keyHash)
      if (place === undefined) others.set(keyHash, event)
      else events[place] = event
      return place !== undefined
    },
    isNoted(key) {
      const place = placeOf(processed, hashOf(key))
      return place !== undefined && events[place] !== 0
    },
    unknown: () =>
      events.reduce((sum, event, place) => {
        const isRepeated = processed[place] === processed[place - 1]
        return event === 0 && !isRepeated ? sum + 1 : sum
      }, 0),
    severalEvents: () => several.size,
  }
}
