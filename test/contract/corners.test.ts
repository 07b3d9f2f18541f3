// Corners of the matrix that no cross reaches: no time at all, two lies at once, retries that are lost, a platform that retries by itself.
import { describe, expect, test } from 'vitest'
import { echoing, only, type Aspect } from './axes.ts'
import { beginDay } from '../support/daemon.ts'
import { recoverAll } from './cell.ts'
import { beginPlay } from './population.ts'
import { product } from './pairwise.ts'

test('no Date header, and a host five minutes ahead: no token, so nothing is touched, and it says so', async () => {
  await using play = await beginPlay({}, { hostAheadMs: 300_000, readings: { dateHeader: false } })
  const { violations, missing, sweeps, facts } = await recoverAll(play)
  expect(violations).toEqual(['0 tokens issued'])
  expect(missing.length).toBeGreaterThan(100)
  expect(new Set(sweeps)).toEqual(new Set(['failed']))
  const failures = facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report.failure] : []))
  expect(failures[0]).toMatchObject({ stage: 'token', rejected: true })
  expect(play.sandbox.stats.requests.list).toEqual({})
})

// Two lies at once can't be found out; but each sweep must bring it further.
test.each(['low', 'high', 'zero', 'page'] as const)(
  'a page size that is only echoed, and totals that lie too (%s): each sweep recovers more',
  async (totals) => {
    await using play = await beginPlay({ totals }, { readings: echoing })
    const { violations, missing, sweeps } = await recoverAll(play)
    expect(violations).toEqual([])
    expect(missing.length).toBeLessThan(129 - 7 * sweeps.length)
  },
)

test.each(product(only('delivery')))(
  'retries that were not taken, and not answered: their outcome is unknown, then they are tried again, $delivery',
  async ({ delivery }) => {
    const fault = { kind: 'reset', when: 'before' } as const
    await using play = await beginPlay(
      { delivery },
      { readings: { faults: [{ operation: 'retry', fault, count: 5, skip: 60 }] } },
    )
    const { facts, missing, violations } = await recoverAll(play)
    expect(missing).toEqual([])
    const unknowns = facts.filter((fact) => fact.type === 'outcome' && fact.outcome === 'unknown').length
    expect(unknowns).toBeGreaterThanOrEqual(2)
    const unknown = /: reported as unknown,((?:failed-again,)*recovered), not \1$/
    expect(violations).toEqual(Array(unknowns).fill(expect.stringMatching(unknown)))
  },
)

describe('a platform that retries by itself', () => {
  test.each(['processing', 'failed'] as const)(
    'records are %s in between: nothing is delivered twice',
    async (status) => {
      await using day = await beginDay({ automaticRetries: { delaysMs: [20_000, 20_000, 20_000], status } })
      const { clock, sandbox } = day
      sandbox.receiver.fail({ status: 503, count: 40 })
      const ids = Array.from({ length: 20 }, (_, index) =>
        sandbox.emit({ eventInstant: clock.now() - (index + 2) * 60_000 }),
      )
      const daemon = await day.start({ RECONCILER_RETRY_BACKOFF_INITIAL: '1s' })
      await daemon.goOn(3)
      expect(sandbox.stats.retries.accepted > 0).toBe(status === 'failed')
      expect(ids.map((id) => sandbox.record(id)?.status)).toEqual(ids.map(() => 'successful'))
      expect(ids.map((id) => sandbox.receiver.deliveries(id))).toEqual(ids.map(() => 1))
    },
  )
})

// A verdict that is always good would let everything pass: each of these daemons does something wrong on purpose.
describe('the verdict finds out', () => {
  test.each<[string, Aspect, { missing?: string; violation?: string }]>([
    [
      'a daemon that takes the zone for another',
      { env: { RECONCILER_PLATFORM_TIME_ZONE: 'America/Los_Angeles' } },
      { missing: 'spread over the window', violation: 'long before the window: was asked for, but is not ours' },
    ],
    [
      'a daemon that does not wait until events have settled',
      { env: { RECONCILER_WINDOW_SETTLE: '0s' } },
      { violation: 'has just happened: was asked for, but is not ours' },
    ],
    [
      'a daemon that knows no limit',
      { env: { RECONCILER_RETRY_MAX_ATTEMPTS: '10000' } },
      { violation: 'is at the limit: accepted 1 times, not 0' },
    ],
    [
      'a daemon that does not back off',
      { env: { RECONCILER_RETRY_BACKOFF_INITIAL: '100ms', RECONCILER_RETRY_BACKOFF_MAX: '100ms' } },
      { violation: expect.stringMatching(/^was attempted just now: \d+ ms too early$/) as string },
    ],
    [
      'a daemon that passes most types over',
      { env: { RECONCILER_SELECT_SUBSCRIPTION_IDS: '00000000-0000-4000-8000-000000000000' } },
      { missing: 'many in one second: 0' },
    ],
  ])('%s', async (_, aspect, { missing, violation }) => {
    await using play = await beginPlay({}, aspect)
    const verdict = await recoverAll(play)
    if (missing !== undefined) expect(verdict.missing).toContain(missing)
    if (violation !== undefined) expect(verdict.violations).toContainEqual(violation)
  })
})
