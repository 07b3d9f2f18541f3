// Rows that the daemon can't read: it recovers the rest, retries none of them, and counts them.
import { expect, test } from 'vitest'
import type { ReadingsInput } from '../../sandbox/options.ts'
import type { UnreadableRow } from '../../src/platform/record.ts'
import { beginDay } from '../support/daemon.ts'
import { beginPlay, recoverAll } from './cell.ts'

const hourMs = 3_600_000
const failedRecords = 30

const forms: [ReadingsInput, UnreadableRow['field']][] = [
  ...(['ulid', 'number'] as const).map((ids): [ReadingsInput, UnreadableRow['field']] => [{ ids }, 'id']),
  ...(['array', 'epoch', 'rfc1123', 'german', 'week'] as const).map(
    (times): [ReadingsInput, UnreadableRow['field']] => [{ times }, 'eventDateTime'],
  ),
]

test.each(forms)('%j: all rows are counted as unreadable, and none is retried', async (readings, field) => {
  await using day = await beginDay(readings)
  day.seed(failedRecords, [4, 2])
  const daemon = await day.start()
  const reports = daemon.facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report] : []))
  expect(reports[0]).toMatchObject({ result: 'complete', listed: 0, unreadable: failedRecords })
  expect(daemon.ops().status().unreadable).toEqual({ rows: failedRecords, field })
  expect(day.sandbox.stats.requests.retry).toEqual({})
})

test('some rows among others: the others are recovered, and each sweep lists all', async () => {
  await using play = await beginPlay({})
  const { clock, sandbox } = play
  const odd = [{ id: '../../admin' }, { id: 12 }, { eventDateTime: undefined }, { status: 'expired' }, { status: null }]
  for (const wire of odd) sandbox.addWebhook({ eventInstant: clock.now() - 3 * hourMs, wire })
  const { violations, missing, sweeps } = await recoverAll(play)
  expect({ violations, missing }).toEqual({ violations: [], missing: [] })
  expect(new Set(sweeps)).toEqual(new Set(['complete']))
})

test('the form changes while outcomes are awaited: they stay unknown, and it is said why', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 5000 } })
  const { sandbox } = day
  const ids = day.seed(3, [2, 1])
  const daemon = await day.start({ RECONCILER_OUTCOME_GIVE_UP_AFTER: '2m' }, ({ method }) => {
    if (method === 'PATCH') sandbox.read({ times: 'array' })
    return undefined
  })
  expect(daemon.ops().status().unreadable).toEqual({ rows: ids.length, field: 'eventDateTime' })
  await daemon.goOn(2)
  const outcomes = daemon.facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.outcome] : []))
  expect(outcomes).toEqual(ids.map(() => 'unknown'))
})

test('failed events that lie ahead of the clock are counted apart, and not retried before their time', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  for (const ms of [-3 * hourMs, 60_000, 2 * hourMs, Date.UTC(9999, 0, 1) - clock.now()])
    sandbox.addWebhook({ eventInstant: clock.now() + ms })
  const daemon = await day.start()
  expect(sandbox.stats.requests.retry).toEqual({ 200: 1 })
  expect(daemon.ops().status().aheadOfClock).toBe(2)
})
