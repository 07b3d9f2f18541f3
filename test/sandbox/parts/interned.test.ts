// Values held once: equal ones share a number, and what nobody holds is forgotten.
import { expect, test } from 'vitest'
import { createInterned } from '../../../sandbox/interned.ts'

test('equal values share a number; released ones are forgotten and their number used again', () => {
  const interned = createInterned<{ text: string }>((value) => value.text)
  const a = interned.hold({ text: 'a' })
  expect(interned.hold({ text: 'a' })).toBe(a)
  const b = interned.hold({ text: 'b' })
  expect(interned.size).toBe(2)

  interned.release(a)
  expect(interned.at(a).text).toBe('a')
  interned.release(a)
  expect(() => interned.at(a)).toThrow(RangeError)
  expect(interned.size).toBe(1)

  const c = interned.hold({ text: 'c' })
  expect(c).toBe(a)
  expect(interned.at(c).text).toBe('c')
  expect(interned.at(b).text).toBe('b')
})

test('a value that was forgotten and comes back at once gets a living number', () => {
  const interned = createInterned<{ text: string }>((value) => value.text)
  const value = { text: 'same object' }
  interned.release(interned.hold(value))
  expect(interned.at(interned.hold(value))).toBe(value)
})
