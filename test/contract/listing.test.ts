// Readings of the list, zones and clocks, crossed further than by pairs: the first sweep sees each failed record of the window, nothing else, and touches nothing.
import { expect, test } from 'vitest'
import { aspectOf, axes, only, type AxisName } from './axes.ts'
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

/** Each cell with one value more of an axis, in turn. */
function taking<Of extends AxisName>(axis: Of, cells: readonly PartialCell[]): PartialCell[] {
  const values = axes[axis]
  return cells.map((cell, index) => ({ ...cell, [axis]: values[index % values.length] }))
}

type Cross = readonly [outer: PartialCell, inner: readonly PartialCell[]]

test.each<Cross>([
  ...product(only('bounds')).map((cell): Cross => [cell, taking('order', product(only('totals')))]),
  ...product({ ...only('order'), ignores: ['nothing', 'status', 'page.size'] }).map((cell): Cross => [
    cell,
    taking('pages', product(only('totals'))),
  ]),
  ...product(only('place')).map((cell): Cross => [cell, taking('host', product(only('bounds')))]),
])('%j', async (outer, inner) => {
  const wrong: unknown[] = []
  for (const cell of inner) {
    const problems = await firstSweep({ ...outer, ...cell })
    if (problems.length > 0) wrong.push({ ...cell, problems })
  }
  expect(wrong).toEqual([])
})
