// Which records a retry job finds, and what it says of those that it may have missed.
import { expect, test } from 'vitest'
import { exitCodeOf } from '../../src/cli/retry.ts'
import { beginDay, minuteMs } from '../support/daemon.ts'
import { balanced, startJob } from '../support/jobs.ts'

test('a span that begins before the window is listed, and sent; rows that cannot be read are said', async () => {
  await using day = await beginDay()
  day.seed(30, [300, 12], { attempts: 30 })
  const daemon = await day.start()
  const id = await startJob(daemon, { selection: { since: '20d' }, exhausted: true })
  await daemon.goOn(3)
  const job = await daemon.job('GET', `/${id}`)
  balanced(job)
  const listing = { source: 'platform', incomplete: null }
  expect(job).toMatchObject({ state: 'ended', listing, sums: { found: 30, recovered: 30 } })
  day.seed(3, [300, 200], { attempts: 30 })
  day.sandbox.read({ times: 'array' })
  const blind = await startJob(daemon, { selection: { since: '20d' }, exhausted: true })
  await daemon.goOn(1)
  expect((await daemon.job('GET', `/${blind}`)).listing.incomplete).toContain('3 rows could not be read')
})

test.each([true, false])(
  'a job that ends during its search has not found all, though what it found has arrived; dry run: %j',
  async (dryRun) => {
    await using day = await beginDay()
    day.seed(5, [14, 12], { attempts: 30 })
    day.seed(5, [300, 250], { attempts: 30 })
    const list = Promise.withResolvers<undefined>()
    const daemon = await day.start({}, ({ url }) => (url.search.includes('From=2025') ? list.promise : undefined))
    const id = await startJob(daemon, { selection: { since: '20d' }, exhausted: true, dryRun })
    await daemon.goOn(2)
    const job = await daemon.job('DELETE', `/${id}`)
    balanced(job)
    expect(job).toMatchObject({ stoppedBy: 'cancelled', sums: { asked: 5, [dryRun ? 'left' : 'recovered']: 5 } })
    expect([job.listing.incomplete, exitCodeOf(job, dryRun)]).toEqual([expect.stringContaining('ended before'), 1])
    list.resolve(undefined)
  },
)

test('while the list fails, a job says as records does that newer failures are not known', async () => {
  await using day = await beginDay()
  day.seed(5, [14, 12], { attempts: 30 })
  let isFailing = false
  const daemon = await day.start({}, ({ url }) =>
    isFailing && url.search.includes('status=failed') ? { status: 500 } : undefined,
  )
  isFailing = true
  day.seed(5, [0.3, 0.2], { attempts: 30 })
  await daemon.goOn(20)
  const jobs = [
    await startJob(daemon, { selection: { since: '1d' }, exhausted: true }),
    await startJob(daemon, { selection: { since: '30m' }, dryRun: true }),
  ]
  await daemon.goOn(2)
  const { incomplete } = await daemon.records('since=1d')
  expect(incomplete).toBe('The last sweep failed: newer failures are not known.')
  for (const [index, id] of jobs.entries()) {
    const job = await daemon.job('GET', `/${id}`)
    expect(job).toMatchObject({ state: 'ended', listing: { incomplete }, sums: { found: index === 0 ? 5 : 0 } })
    expect(exitCodeOf(job, index > 0)).toBe(1)
  }
})

test("failed records of events ahead of the platform's clock: no list up to now is all, for records and jobs", async () => {
  await using day = await beginDay({ timeZone: 'Europe/Berlin' })
  for (const minutes of [5, 10]) day.sandbox.addWebhook({ eventInstant: day.clock.now() - minutes * minuteMs })
  const daemon = await day.start({ RECONCILER_PLATFORM_TIME_ZONE: 'UTC' })
  await daemon.goOn(1)
  expect(daemon.ops().status().aheadOfClock).toBe(2)
  const incomplete = "Up to 2 more are of events ahead of the platform's clock, and only counted."
  for (const [since, lacks] of [
    ['6h', incomplete],
    ['14d', incomplete],
    ['6h&until=1m', null],
    ['6h&decision=due', null],
  ] as const)
    expect([since, await daemon.records(`since=${since}`)]).toMatchObject([since, { count: 0, incomplete: lacks }])
  const id = await startJob(daemon, { selection: { since: '6h' } })
  await daemon.goOn(1)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({ state: 'ended', listing: { incomplete } })
})

test('long after the last sweep, records and jobs say that newer failures are not known', async () => {
  await using day = await beginDay()
  const daemon = await day.start()
  await day.clock.advance(4 * minuteMs)
  expect(await daemon.records('')).toMatchObject({ incomplete: null })
  await day.clock.advance(2 * minuteMs)
  const { incomplete } = await daemon.records('')
  expect(incomplete).toMatch(/^No sweep has ended since 2026-01-15T12:00:.*: newer failures are not known\.$/)
  const id = await startJob(daemon, { selection: { since: '6h' } })
  await day.clock.advance(1000)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({ state: 'ended', listing: { incomplete } })
})
