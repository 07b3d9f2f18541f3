// The demo's verdict: equal books only when both sides say the same, nothing was touched twice and nothing is left.
import { expect, test } from 'vitest'
import { compareBooks, type Books } from '../../src/demo/books.ts'

const good: Books = {
  daemon: { accepted: 451, calls: 463, open: 0 },
  platform: { successful: 451, calls: 463, touchedTwice: 0 },
  atLimit: 25,
  byOthers: 12,
  seconds: 7,
}

test('equal books', () => {
  const { text, equal } = compareBooks(good)
  expect(equal).toBe(true)
  expect(text).toContain('daemon: 451 accepted · platform: 451 successful · EQUAL\n')
  expect(text).toContain('463, 1.03 per recovered record')
})

test.each<[string, Partial<Books>, RegExp]>([
  ['the platform has delivered fewer', { platform: { ...good.platform, successful: 450 } }, / · NOT EQUAL\n/],
  ['the platform has delivered more', { platform: { ...good.platform, successful: 452 } }, / · NOT EQUAL\n/],
  ['a record was retried twice', { platform: { ...good.platform, touchedTwice: 1 } }, /touched twice: 1 /],
  ['a record is still open', { daemon: { ...good.daemon, open: 3 } }, /still open: 3\n/],
])('no equal books when %s', (_, changes, line) => {
  const { text, equal } = compareBooks({ ...good, ...changes })
  expect(equal).toBe(false)
  expect(text).toMatch(line)
})
