// The verdict of a soak run: what counts as growth, and what as noise.
import { expect, test } from 'vitest'
import { trendsOf, type SoakSample } from './flat.ts'

const quiet: SoakSample = { rssMiB: 100, descriptors: 20, timers: 10 }

test.each<[part: Partial<SoakSample>, of: number, grown: string[]]>([
  [{ rssMiB: 114.9, descriptors: 33, timers: 21 }, 10, []],
  [{ rssMiB: 115.1 }, 10, ['rssMiB']],
  [{ descriptors: 34 }, 10, ['descriptors']],
  [{ timers: 22 }, 10, ['timers']],
  [{ timers: NaN }, 10, ['timers']],
  [{ rssMiB: 50, descriptors: 5, timers: 0 }, 10, []],
  // One peak.
  [{ rssMiB: 1000, descriptors: 1000, timers: 1000 }, 1, []],
])('with %j in the last %d of 30 samples %j has grown', (part, last, grown) => {
  const samples = Array.from({ length: 30 }, (_, index) => ({ ...quiet, ...(index >= 30 - last ? part : {}) }))
  expect(trendsOf(samples).flatMap(({ isFlat, name }) => (isFlat ? [] : [name]))).toEqual(grown)
})

test('too few samples are refused', () => {
  expect(() => trendsOf(Array<SoakSample>(5).fill(quiet))).toThrow(RangeError)
})
