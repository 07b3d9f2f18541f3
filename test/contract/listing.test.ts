// Readings of the list, zones and clocks, crossed in full: the first sweep sees each failed record of the window, nothing else, and touches nothing.
import { expect, test } from 'vitest'
import { aspectOf, only } from './axes.ts'
import { doubtful, isBlurred, startAspect, startDaemon, type PartialCell } from './cell.ts'
import { product } from './pairwise.ts'
import { populate } from './population.ts'

/** What the first sweep of a new daemon gets wrong under these readings. */
async function firstSweep(cell: PartialCell): Promise<string[]> {
  const aspect = aspectOf(cell)
  await using platform = await startAspect(aspect)
  const { clock, sandbox } = platform
  const blurred = aspect.place !== undefined && isBlurred(aspect.place)
  const planted = await populate(platform, { selects: () => true, blurred })
  await using daemon = startDaemon(platform, aspect)

  const { result, failure } = await clock.run(daemon.reconciler.sweeper.make('full', new AbortController().signal))

  const { backlog, client } = daemon.reconciler
  const seen = new Set([...backlog.entries()].map(({ id }) => id))
  const hostErrorMs = Math.abs(client.now() - clock.now())
  const inDoubt = result !== 'complete' && !doubtful.has(cell.totals ?? '')
  const { retry, other } = sandbox.stats.requests
  return [
    ...(inDoubt ? [`${result}: ${failure?.message ?? 'not seen whole'}`] : []),
    ...(hostErrorMs < 2000 ? [] : [`the time is known to ${hostErrorMs} ms only`]),
    ...planted.filter(({ id, fate }) => fate === 'recovered' && !seen.has(id)).map(({ why }) => `missed: ${why}`),
    ...planted
      .filter(({ id, fate, why }) => fate === 'untouched' && seen.has(id) && !why.endsWith('the limit'))
      .map(({ why }) => `not ours: ${why}`),
    ...Object.keys({ ...retry, ...other }).map((status) => `touched: ${status}`),
  ]
}

const totalsAndPages = product(only('totals', 'pages'))
const bounds = product(only('bounds'))

type Cross = readonly [outer: PartialCell, inner: readonly PartialCell[]]

test.each<Cross>([
  ...product(only('order', 'bounds')).map((cell): Cross => [cell, totalsAndPages]),
  ...product({ ...only('order'), ignores: ['status', 'page.size'] }).map((cell): Cross => [cell, totalsAndPages]),
  ...product(only('place', 'host')).map((cell): Cross => [cell, bounds]),
])('%j', async (outer, inner) => {
  const wrong: unknown[] = []
  for (const cell of inner) {
    const problems = await firstSweep({ ...outer, ...cell })
    if (problems.length > 0) wrong.push({ ...cell, problems })
  }
  expect(wrong).toEqual([])
})
