// The cover itself: a hole in it would be a reading that is not played.
import { expect, test } from 'vitest'
import { axes } from './axes.ts'
import { pairwise, product } from './pairwise.ts'

test('every pair of values of any two axes is in some cell', () => {
  const small = { a: ['1', '2', '3'], b: ['x', 'y'], c: ['p', 'q', 'r', 's'] } as const
  const cells = pairwise(small)
  const missing = product(small).filter(
    ({ a, b, c }) =>
      !cells.some((cell) => cell.a === a && cell.b === b) ||
      !cells.some((cell) => cell.b === b && cell.c === c) ||
      !cells.some((cell) => cell.a === a && cell.c === c),
  )
  expect(missing).toEqual([])
  expect(cells.length).toBeLessThan(product(small).length)
})

test('the matrix is covered by few cells, the same each time', () => {
  const cells = pairwise(axes)
  expect(cells).toEqual(pairwise(axes))
  for (const [axis, values] of Object.entries(axes)) {
    for (const [other, others] of Object.entries(axes)) {
      if (axis === other) continue
      const seen = new Set(
        cells.map((cell) => `${cell[axis as keyof typeof cell]} ${cell[other as keyof typeof cell]}`),
      )
      expect(seen.size, `${axis} x ${other}`).toBe(values.length * others.length)
    }
  }
  expect(cells.length).toBeLessThan(150)
})
