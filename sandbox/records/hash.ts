// Seeded pseudo-randomness: the same seed always creates the same platform. Not for cryptography.

/** Scrambles 32 bits; a bijection. (The finalizer of MurmurHash3.) */
export function mix(word: number): number {
  let h = word
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** One 32-bit hash of up to four numbers (their low 32 bits). */
export function hash(a: number, b: number, c = 0, d = 0): number {
  let h = mix(a ^ 0x9e3779b9)
  h = mix(h + b)
  h = mix(h + Math.imul(c, 0x85ebca6b) + 0x7f4a7c15)
  return mix(h + Math.imul(d, 0xc2b2ae35) + 0x1b873593)
}

/** A sequence of pseudo-random values. */
export interface Sequence {
  /** 32 random bits. */
  word: () => number
  /** Uniform in [0, 1). */
  next: () => number
  /** Uniform integer in [0, below). */
  below(limit: number): number
  /** True with this probability. */
  chance(probability: number): boolean
  pick<const L extends readonly [unknown, ...unknown[]]>(values: L): L[number]
  uuid(): string
  /** This many decimal digits. */
  digits(count: number): string
}

/** The sequence of this seed (SplitMix32). */
export function createSequence(seed: number): Sequence {
  let state = seed | 0
  function word(): number {
    state = (state + 0x9e3779b9) | 0
    return mix(state)
  }
  const next = (): number => word() / 2 ** 32
  const below = (limit: number): number => Math.floor(next() * limit)
  return {
    word,
    next,
    below,
    chance: (probability) => next() < probability,
    pick: (values) => values[below(values.length)],
    uuid: () => uuidOf(word(), word(), word(), word()),
    digits: (count) => {
      let text = ''
      while (text.length < count) text += String(word() % 1_000_000).padStart(6, '0')
      return text.slice(0, count)
    },
  }
}

const hexOf: readonly string[] = Array.from({ length: 65_536 }, (_, half) => half.toString(16).padStart(4, '0'))

function hexAt(half: number): string {
  return hexOf[half & 0xffff] ?? ''
}

/** A version 4 UUID of these words; version and variant replace 6 bits of the second and third. */
export function uuidOf(a: number, b: number, c: number, d: number): string {
  const version = (b & 0x0fff) | 0x4000
  const variant = ((c >>> 16) & 0x3fff) | 0x8000
  return `${hexAt(a >>> 16)}${hexAt(a)}-${hexAt(b >>> 16)}-${hexAt(version)}-${hexAt(variant)}-${hexAt(c)}${hexAt(d >>> 16)}${hexAt(d)}`
}
