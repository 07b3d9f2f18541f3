// Zones, daylight saving and a wrong host clock, crossed with the bounds in full: the very first sweep sees the whole window.
import { describe, expect, test } from 'vitest'
import { readingsOf } from '../../sandbox/options.ts'
import { aspectOf, axes, only, type Aspect } from './axes.ts'
import { isBlurred, startDaemon, startAspect } from './cell.ts'
import { product } from './pairwise.ts'
import { populate, windowMs } from './population.ts'

/** What the first sweep of a new daemon gets wrong. */
async function firstSweep(aspect: Aspect): Promise<string[]> {
  const { place } = aspect
  await using platform = await startAspect({ ...aspect, readings: readingsOf(aspect.readings ?? {}) })
  const { clock, run } = platform
  const blurred = place !== undefined && isBlurred(place)
  const planted = await populate(platform, { selects: () => true, blurred })
  await using daemon = await startDaemon(platform, aspect)

  const { result, failure } = await run(daemon.reconciler.sweeper.make('full', new AbortController().signal))

  const { backlog, client } = daemon.reconciler
  const seen = new Set([...backlog.entries()].map(({ id }) => id))
  const hostErrorMs = Math.abs(client.now() - clock.now())
  return [
    ...(result === 'complete' ? [] : [`${result}: ${failure?.message ?? 'not seen whole'}`]),
    ...(hostErrorMs < 2000 ? [] : [`the time is known to ${hostErrorMs} ms only`]),
    ...planted.filter(({ id, fate }) => fate === 'recovered' && !seen.has(id)).map(({ why }) => `missed: ${why}`),
    ...planted
      .filter(({ id, at, fate }) => fate === 'untouched' && seen.has(id) && !isInside(at, clock.now()))
      .map(({ why }) => `not of the window: ${why}`),
  ]
}

function isInside(at: number, now: number): boolean {
  return at >= now - windowMs.lookback && at <= now - windowMs.settle
}

describe.each(only('place').place)('%s', (place) => {
  test.each(axes.host)('host clock: %s', async (host) => {
    const wrong: unknown[] = []
    for (const cell of product(only('bounds'))) {
      const problems = await firstSweep(aspectOf({ place, host, ...cell }))
      if (problems.length > 0) wrong.push({ ...cell, problems })
    }
    expect(wrong).toEqual([])
  })
})
