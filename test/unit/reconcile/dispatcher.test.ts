// Which records the dispatcher does not pick, though they are due.
import { expect, test } from 'vitest'
import { due, learn, listingOf, testNow } from '../../support/backlog.ts'
import { reconcile } from '../../support/reconcile.ts'

const { signal } = new AbortController()

test('one that has left the list', async () => {
  await using world = reconcile()
  learn(world.backlog, listingOf([due()]), testNow)
  world.planner.changed(world.backlog.entries())
  expect(world.dispatcher.pick(signal)).toBeDefined()
  learn(world.backlog, listingOf([], { askedAt: 2000 }), testNow)
  expect(world.dispatcher.pick(signal)).toBeUndefined()
})

test('one of a span that is being listed, until the fence is taken down, which a sweep that is given up does, too', async () => {
  await using world = reconcile()
  const { backlog, clock, dispatcher, planner } = world
  learn(backlog, listingOf([due()]), testNow)
  planner.changed(backlog.entries())
  const [span, sweep] = [{ from: 0, to: testNow / 1000 }, new AbortController()]
  const fence = await dispatcher.fence(span, sweep.signal)
  expect(dispatcher.pick(signal)).toBeUndefined()
  fence.release()
  sweep.abort(new Error('given up'))
  await expect(dispatcher.fence(span, sweep.signal)).rejects.toThrow('given up')
  await clock.advance(5000)
  expect(dispatcher.pick(signal)).toBeDefined()
})
