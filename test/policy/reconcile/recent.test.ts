// Ids with their times: remembered as long as a listing is under way that may be older.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createRecent } from '../../../src/reconcile/retry/recent.ts'

test('what happened at or after a moment, and nothing else', () => {
  const recent = createRecent()
  recent.open(400)
  recent.add('a', 500)
  expect(recent.has('a', 499)).toBe(true)
  expect(recent.has('a', 500)).toBe(true)
  expect(recent.has('a', 501)).toBe(false)
  expect(recent.has('b', 0)).toBe(false)
})

test('of what happened twice the later time counts', () => {
  const recent = createRecent()
  recent.open(0)
  recent.add('a', 100)
  recent.add('a', 900)
  expect(recent.has('a', 900)).toBe(true)
  expect(recent.size()).toBe(1)
})

test('nothing is remembered while no listing is under way', () => {
  const recent = createRecent()
  recent.add('a', 100)
  const close = recent.open(200)
  recent.add('b', 300)
  expect([recent.has('a', 0), recent.has('b', 0)]).toEqual([false, true])
  close()
  close()
  recent.add('c', 400)
  expect(recent.size()).toBe(0)
})

test('however many listings there are: all since the oldest of them began, and no more', () => {
  const step = fc.record({
    id: fc.constantFrom('a', 'b', 'c', 'd'),
    act: fc.constantFrom('add', 'open', 'close'),
    ms: fc.nat(700),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
      const recent = createRecent()
      const open: { since: number; close: () => void }[] = []
      const last = new Map<string, number>()
      let now = 0
      for (const { act, id, ms } of steps) {
        now += ms
        if (act === 'open') open.push({ since: now, close: recent.open(now) })
        if (act === 'close') open.splice(ms % (open.length + 1), 1)[0]?.close()
        if (act === 'add') recent.add(id, now)
        if (act === 'add' && open.length > 0) last.set(id, now)
        const since = Math.min(...open.map((one) => one.since))
        const young = [...last].filter(([, at]) => at >= since)
        for (const [other, at] of young) expect(recent.has(other, at)).toBe(true)
        expect(recent.size()).toBeLessThanOrEqual(last.size)
        if (act === 'close') expect(recent.size()).toBe(young.length)
      }
    }),
  )
})
