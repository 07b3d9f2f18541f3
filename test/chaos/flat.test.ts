// The verdict of a soak run: what counts as growth, and what as noise.
import { expect, test } from 'vitest'
import { trendsOf, type SoakSample } from './flat.ts'

const sample = (part: Partial<SoakSample> = {}): SoakSample => ({ rssMiB: 100, descriptors: 20, timers: 10, ...part })

function growing(samples: readonly SoakSample[]): string[] {
  return trendsOf(samples).flatMap(({ isFlat, name }) => (isFlat ? [] : [name]))
}

/** 30 samples, of which the last third has these values. */
function endingIn(part: Partial<SoakSample>): SoakSample[] {
  return Array.from({ length: 30 }, (_, index) => sample(index < 20 ? {} : part))
}

test.each<[Partial<SoakSample>, string[]]>([
  [{}, []],
  [{ rssMiB: 114.9 }, []],
  [{ rssMiB: 115.1 }, ['rssMiB']],
  [{ rssMiB: 50, descriptors: 5, timers: 0 }, []],
  [{ descriptors: 33 }, []],
  [{ descriptors: 34 }, ['descriptors']],
  [{ timers: 21 }, []],
  [{ timers: 22 }, ['timers']],
])('the last third has %j: grown %j', (part, grown) => {
  expect(growing(endingIn(part))).toEqual(grown)
})

test('one peak is no growth', () => {
  expect(growing([...endingIn({}), sample({ rssMiB: 1000, descriptors: 1000, timers: 1000 })])).toEqual([])
})

test('a NaN is not flat', () => {
  expect(growing(endingIn({ timers: NaN }))).toEqual(['timers'])
})

test('too few samples are refused', () => {
  expect(() => trendsOf(Array.from({ length: 5 }, () => sample()))).toThrow(RangeError)
})
