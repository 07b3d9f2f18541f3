// Draws from one seed: the same seed always gives the same.
import { createSequence, hash, type Sequence } from '../../sandbox/records/hash.ts'

export const secondMs = 1000
export const minuteMs = 60_000
export const hourMs = 3_600_000
export const dayMs = 24 * hourMs

export interface Draw extends Sequence {
  /** Uniform between the two, whole. */
  within(least: number, most: number): number
}

/** @param stream Another name, another stream of the same seed. */
export function drawOf(seed: number, stream = ''): Draw {
  // Seeds next to each other give nothing alike.
  const own = [...stream].reduce((sum, letter) => hash(sum, letter.charCodeAt(0)), 0)
  const sequence = createSequence(Math.imul(seed, 0x9e3779b1) ^ own)
  return { ...sequence, within: (least, most) => least + Math.floor(sequence.next() * (most - least + 1)) }
}

/** More for the smaller values. */
export function few(draw: Draw, most: number): number {
  return Math.floor(draw.next() ** 2 * (most + 1))
}
