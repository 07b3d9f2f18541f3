// Ids with their times: remembered long enough, and forgotten by themselves.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createRecent } from '../../../src/reconcile/recent.ts'

test('what happened at or after a moment, and nothing else', () => {
  const recent = createRecent(1000)
  recent.add('a', 500)
  expect(recent.has('a', 499)).toBe(true)
  expect(recent.has('a', 500)).toBe(true)
  expect(recent.has('a', 501)).toBe(false)
  expect(recent.has('b', 0)).toBe(false)
})

test('of what happened twice the later time counts', () => {
  const recent = createRecent(1000)
  recent.add('a', 100)
  recent.add('b', 200)
  recent.add('a', 900)
  recent.add('c', 1300)
  expect(recent.has('a', 900)).toBe(true)
  expect(recent.has('b', 0)).toBe(false)
  expect(recent.size()).toBe(2)
})

test('however much comes: remembered for its time, and no more than came in that time', () => {
  const step = fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), ms: fc.nat(700) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
      const recent = createRecent(1000)
      const last = new Map<string, number>()
      let now = 0
      for (const { id, ms } of steps) {
        now += ms
        recent.add(id, now)
        last.set(id, now)
        const young = [...last].filter(([, at]) => at >= now - 1000)
        for (const [other, at] of young) expect(recent.has(other, at)).toBe(true)
        expect(recent.size()).toBe(young.length)
      }
    }),
  )
})

test('a hundred thousand in one moment, then one much later: none of them is left', () => {
  const recent = createRecent(1000)
  for (let number = 0; number < 100_000; number += 1) recent.add(String(number), 0)
  expect(recent.size()).toBe(100_000)
  recent.add('last', 1001)
  expect(recent.size()).toBe(1)
})
