// The whole job under every pair of readings: what is ours is delivered once, what is not ours is never touched.
import { describe, expect, test } from 'vitest'
import { axes } from './axes.ts'
import { expectRecovered } from './cell.ts'
import { pairwise } from './pairwise.ts'

const cells = pairwise(axes)

describe('every pair of readings', () => {
  test.each(cells.map((cell, index) => [index, cell] as const))('%i: %j', async (_, cell) => {
    await expectRecovered(cell)
  })

  test('is in some cell, and the cells are few', () => {
    for (const [axis, values] of Object.entries(axes)) {
      for (const [other, others] of Object.entries(axes)) {
        const seen = new Set(
          cells.map((cell) => JSON.stringify([axis, other].map((name) => cell[name as keyof typeof cell]))),
        )
        expect(seen.size, `${axis} x ${other}`).toBe(axis === other ? values.length : values.length * others.length)
      }
    }
    expect(cells.length).toBeLessThan(150)
  })
})
