// Rows that the daemon can't read: it recovers the rest, retries none of them, and counts them.
import { expect, test } from 'vitest'
import type { ReadingsInput } from '../../sandbox/options.ts'
import type { UnreadableRow } from '../../src/platform/record.ts'
import { finish } from '../../src/runtime/steps.ts'
import { recoverAll, startPlay } from './cell.ts'
import { startDaemon, startStage } from './stage.ts'

const failedRecords = 30

const forms: [ReadingsInput, UnreadableRow['field']][] = [
  ...(['ulid', 'number'] as const).map((ids): [ReadingsInput, UnreadableRow['field']] => [{ ids }, 'id']),
  ...(['array', 'epoch', 'rfc1123', 'german', 'week'] as const).map(
    (times): [ReadingsInput, UnreadableRow['field']] => [{ times }, 'eventDateTime'],
  ),
]

test.each(forms)('%j: all rows are counted as unreadable, and none is retried', async (readings, field) => {
  await using stage = await startStage({ readings })
  const { clock, sandbox } = stage
  for (let index = 0; index < failedRecords; index += 1)
    sandbox.addWebhook({ eventInstant: clock.now() - 3_600_000 * 3 - index * 1000 })
  await using daemon = startDaemon(stage, {})
  const { sweep, retries } = await daemon.round()
  expect(sweep).toMatchObject({ result: 'complete', listed: 0, unreadable: failedRecords })
  expect(finish(daemon.reconciler.state()).unreadable).toEqual({ rows: failedRecords, field })
  expect(retries).toEqual({})
})

test('some rows among others: the others are recovered, and each sweep lists all', async () => {
  await using play = await startPlay({}, { hasUnreadable: true })
  const { violations, missing, sweeps } = await recoverAll(play)
  expect({ violations, missing }).toEqual({ violations: [], missing: [] })
  expect(new Set(sweeps)).toEqual(new Set(['complete']))
})

test('the form changes while outcomes are awaited: they stay unknown, and it is said why', async () => {
  const delivery = { mode: 'async', delayMs: 5000 } as const
  await using stage = await startStage({ readings: { delivery } })
  const { clock, sandbox } = stage
  const ids = [1, 2, 3].map((minutes) =>
    sandbox.addWebhook({ eventInstant: clock.now() - 3_600_000 - minutes * 60_000 }),
  )
  await using daemon = startDaemon(stage, { env: { RECONCILER_OUTCOME_GIVE_UP_AFTER: '2m' } }, (fact) => {
    if (fact.type === 'retry') sandbox.read({ times: 'array' })
    if (fact.type === 'unreadable') seen.push(finish(daemon.reconciler.state()).unreadable)
  })
  const seen: unknown[] = []
  const { outcomes } = await daemon.round()
  expect(outcomes).toEqual({ unknown: ids.length })
  expect(seen.at(-1)).toEqual({ rows: ids.length, field: 'eventDateTime' })
})

test('failed events that lie ahead of the clock are counted apart, and not retried before their time', async () => {
  await using stage = await startStage({})
  const { clock, sandbox } = stage
  for (const ms of [-3 * 3_600_000, 60_000, 2 * 3_600_000, Date.UTC(9999, 0, 1) - clock.now()])
    sandbox.addWebhook({ eventInstant: clock.now() + ms })
  await using daemon = startDaemon(stage, {})
  const { retries } = await daemon.round()
  expect(retries).toEqual({ accepted: 1 })
  expect(finish(daemon.reconciler.state()).aheadOfClock).toBe(2)
})
