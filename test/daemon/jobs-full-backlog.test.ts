// Retry jobs beside a full backlog: what it evicts is counted, and sent in the end, or named as left.
import { expect, test } from 'vitest'
import { beginDay, type Day, type RunningDaemon } from '../support/daemon.ts'

const seed = (day: Day, count: number): string[] => day.seed(count, [14, 12], { attempts: 30, subscriptions: 2 })

/** Records of before the window, and of others as many as the backlog holds or more. */
function seedBefore(day: Day, count: number, others: number): string[] {
  seed(day, others)
  return day.seed(count, [300, 200])
}

const start = async (daemon: RunningDaemon, body: object): Promise<string> => (await daemon.job('POST', '', body)).job

test('a job that fills the backlog counts what it evicts: that is still missing', async () => {
  await using day = await beginDay()
  const webhooks = seedBefore(day, 40, 60)
  const daemon = await day.start({ RECONCILER_BACKLOG_MAX_RECORDS: '60' })
  await start(daemon, { selection: { webhooks }, rate: 0.1 })
  await day.clock.advance(20_000)
  expect(await daemon.records('')).toMatchObject({ incomplete: '40 records are only counted (backlog.maxRecords).' })
})

test.each([undefined, 1])(
  'exhausted records that a full backlog only counts are sent when asked for, rate %s',
  async (rate) => {
    await using day = await beginDay()
    const webhooks = seed(day, 80)
    const daemon = await day.start({ RECONCILER_BACKLOG_MAX_RECORDS: '60' })
    const { records } = await daemon.records('limit=1000')
    const held = new Set(records.map(({ webhookId }) => webhookId))
    const selection = { webhooks: webhooks.filter((id) => !held.has(id)) }
    const id = await start(daemon, { selection, exhausted: true, rate })
    await daemon.goOn(2)
    expect(await daemon.job('GET', `/${id}`)).toMatchObject({ state: 'ended', sums: { found: 20, recovered: 20 } })
  },
)

test.each([undefined, 1, 20])('a job of more records than the backlog holds sends them all, rate %s', async (rate) => {
  await using day = await beginDay()
  seed(day, 80)
  const daemon = await day.start({ RECONCILER_BACKLOG_MAX_RECORDS: '60' })
  const id = await start(daemon, { selection: { since: '1d' }, exhausted: true, rate })
  await daemon.goOn(5)
  const listing = { incomplete: null }
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({
    state: 'ended',
    listing,
    sums: { found: 80, recovered: 80 },
  })
})

test('one that names more excluded records than the backlog holds says which were left', async () => {
  await using day = await beginDay()
  const webhooks = seed(day, 80)
  const select = { RECONCILER_SELECT_EVENT_TYPES: 'nothing-has-this-type' }
  const daemon = await day.start({ ...select, RECONCILER_BACKLOG_MAX_RECORDS: '60' })
  const id = await start(daemon, { selection: { webhooks }, exhausted: true })
  await daemon.goOn(5)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({ state: 'ended', sums: { recovered: 60, left: 20 } })
})

test('one that names more records of before the window than the backlog holds leaves the rest, though it stays full', async () => {
  await using day = await beginDay()
  const webhooks = seedBefore(day, 80, 80)
  const daemon = await day.start({ RECONCILER_BACKLOG_MAX_RECORDS: '60' })
  const id = await start(daemon, { selection: { webhooks } })
  await daemon.goOn(5)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({ state: 'ended', sums: { recovered: 60, left: 20 } })
})
