// Every reading of the list, crossed in full: one sweep sees each failed record of the window, and nothing else.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readingsOf } from '../../sandbox/options.ts'
import type { Stage } from '../support/stage.ts'
import { aspectOf, only } from './axes.ts'
import { startDaemon, startAspect, type PartialCell } from './cell.ts'
import { product } from './pairwise.ts'
import { populate, type Planted } from './population.ts'

let platform: Stage
let planted: Planted[]

// Time goes on: a population of its own for each test, so that nothing leaves the window meanwhile.
beforeEach(async () => {
  const plain = aspectOf({})
  platform = await startAspect(plain)
  planted = await populate(platform, { selects: () => true, blurred: false })
})

afterEach(async () => {
  const { retry, other } = platform.sandbox.stats.requests
  await platform[Symbol.asyncDispose]()
  expect({ retry, other }, 'looking touches nothing').toEqual({ retry: {}, other: {} })
})

/** What one sweep sees under these readings, and what it should not have missed or seen. */
async function look(
  cell: PartialCell,
): Promise<{ cell: PartialCell; result: string; missed: string[]; alien: string[] }> {
  const aspect = aspectOf(cell)
  platform.sandbox.read(readingsOf(aspect.readings ?? {}))
  await using daemon = await startDaemon(platform, aspect)
  const { result } = await platform.run(daemon.reconciler.sweeper.make('full', new AbortController().signal))
  const seen = new Set([...daemon.reconciler.backlog.entries()].map(({ id }) => id.toLowerCase()))
  const ours = planted.filter(({ fate }) => fate !== 'untouched')
  const exhausted = planted.filter(({ why }) => why.endsWith('the limit'))
  const known = new Set([...ours, ...exhausted].map(({ id }) => id.toLowerCase()))
  // The edges have a test of their own.
  const mayMiss = new Set(['not settled when it began', 'just inside the old edge'])
  return {
    cell,
    result,
    missed: ours.filter(({ id, why }) => !mayMiss.has(why) && !seen.has(id.toLowerCase())).map(({ why }) => why),
    alien: [...seen].filter((id) => !known.has(id)),
  }
}

/** Totals that say more than there is leave a slice in doubt, and so do those that change from page to page. */
const honest = new Set(['exact', 'absent', 'low', 'zero'])

async function expectAllSeen(cells: readonly PartialCell[]): Promise<void> {
  const wrong = []
  for (const cell of cells) {
    const seen = await look(cell)
    const inDoubt = seen.result !== 'complete' && honest.has(cell.totals ?? '')
    if (inDoubt || seen.missed.length + seen.alien.length > 0) wrong.push(seen)
  }
  expect(wrong).toEqual([])
}

const totalsAndPages = product(only('totals', 'pages'))

describe('order x bounds x totals x pages', () => {
  test.each(product(only('order', 'bounds')))('$order, $bounds', async (outer) => {
    await expectAllSeen(totalsAndPages.map((inner) => ({ ...outer, ...inner })))
  })
})

describe('order x ignored parameters x totals x pages', () => {
  test.each(product({ ...only('order'), ignores: ['status', 'page.size'] }))('$order, $ignores', async (outer) => {
    await expectAllSeen(totalsAndPages.map((inner) => ({ ...outer, ...inner })))
  })
})
