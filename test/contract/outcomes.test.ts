// What is reported of retries, beside the platform's own books, under every reading of delivery: each that was taken has its outcome, and the right one.
import { describe, expect, test } from 'vitest'
import type { Outcome } from '../../src/reconcile/confirm/evidence.ts'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import { only } from './axes.ts'
import { expectedOutcomes, outcomesOf, startPlay, type PartialCell, type Play } from './cell.ts'
import { product } from './pairwise.ts'

const minute = 60_000
/** Longer than the longest backoff. */
const restMs = 12_000
const mostRounds = 8
const records = 24

interface Scenario {
  cell: PartialCell
  faults?: FaultRule[]
  env?: Readonly<Record<string, string>>
}

interface Books {
  /** By id: the outcomes that were reported, in their order. */
  told: ReadonlyMap<string, readonly Outcome[]>
  ids: readonly string[]
  play: Play
}

/** Failed records of two subscriptions. Every third fails once more, every eighth twice more. */
function plant({ clock, sandbox }: Play): string[] {
  const subscriptionIds = ['11111111-2222-4333-8444-555555555555', '99999999-2222-4333-8444-555555555555']
  const ids = Array.from({ length: records }, (_, index) =>
    sandbox.addWebhook({
      subscriptionId: subscriptionIds[index % 2] ?? '',
      eventInstant: clock.now() - 60 * minute - index * 7000,
      attempts: 1,
    }),
  )
  for (const [index, id] of ids.entries()) {
    if (index % 3 === 0) sandbox.receiver.fail({ webhookIds: [id], status: 503, count: 1 })
    if (index % 8 === 0) sandbox.receiver.fail({ webhookIds: [id], connection: 'reset', count: 2 })
  }
  return ids
}

async function recover(scenario: Scenario, check: (books: Books) => void): Promise<void> {
  const { cell, env = {} } = scenario
  await using play = await startPlay(cell, { env })
  const { daemon, sandbox } = play
  const ids = plant(play)
  sandbox.faults.set(...(scenario.faults ?? []))
  for (let turn = 0; turn < mostRounds && sandbox.counts().successful < records; turn += 1) {
    await play.daemon.round()
    // The round is over: nothing is left open.
    expect(daemon.reconciler.outcomes.pending().size).toBe(0)
    await play.clock.advance(restMs)
  }
  expect(play.lies).toEqual([])
  expect(sandbox.counts()).toMatchObject({ successful: records, failed: 0, processing: 0 })
  expect(sandbox.receiver.counts()).toMatchObject({ webhooks: records, repeated: 0 })
  check({ told: outcomesOf(play), ids, play })
}

/** What was reported is right, and some did fail again, so that there was something to get wrong. */
function expectEqual({ ids, play: { sandbox }, told }: Books): void {
  expect(ids.map((id) => told.get(id))).toEqual(ids.map((id) => expectedOutcomes(sandbox, id)))
  expect(sandbox.stats.deliveries.failed).toBeGreaterThanOrEqual(records / 3)
}

test('records without an event id, many in one second, behind short pages and no totals', async () => {
  await using play = await startPlay({ delivery: 'async', totals: 'absent', pages: 'of 7' })
  const { clock, daemon, sandbox } = play
  const at = Math.floor(clock.now() / 1000) * 1000 - 60 * minute
  for (let index = 0; index < 20; index += 1) sandbox.addWebhook({ eventInstant: at + index, status: 'successful' })
  const ids = Array.from({ length: 10 }, (_, index) =>
    sandbox.addWebhook({ eventInstant: at + 50 * index, wire: { eventId: undefined, subscriptionId: null } }),
  )
  await play.daemon.round()
  expect(ids.map((id) => sandbox.record(id)?.status)).toEqual(ids.map(() => 'successful'))
  const recovered = daemon.facts.flatMap((fact) =>
    fact.type === 'outcome' && fact.outcome === 'recovered' ? [fact.webhookId] : [],
  )
  expect(recovered.sort()).toEqual([...ids].sort())
})

describe('answers are lost, and the retries were taken', () => {
  const lost: [string, FaultRule['fault']][] = [
    ['reset', { kind: 'reset', when: 'after' }],
    ['500', { kind: 'status', status: 500, applied: true, body: 'html' }],
    ['cut', { kind: 'cut' }],
  ]
  const some = lost.flatMap(([name, fault]) => product(only('delivery')).map((cell) => ({ name, fault, ...cell })))

  test.each(some)('$name, $delivery', async ({ fault, delivery }) => {
    await recover({ cell: { delivery }, faults: [{ operation: 'retry', fault, probability: 0.5 }] }, (books) => {
      expectEqual(books)
      const { facts } = books.play.daemon
      const unanswered = facts.filter((fact) => fact.type === 'retry' && fact.answer.lost === true)
      expect(unanswered.length).toBeGreaterThan(3)
    })
  })
})

describe('answers are lost, and the retries were not taken', () => {
  test.each(product(only('delivery')))('$delivery: not known, then it is tried again', async ({ delivery }) => {
    const faults: FaultRule[] = [{ operation: 'retry', fault: { kind: 'reset', when: 'before' }, count: 5 }]
    // As long is a retry looked for that seems not to have been taken.
    const env = { RECONCILER_CIRCUIT_PROBE_TIMEOUT: '1s' }
    await recover({ cell: { delivery }, faults, env }, ({ ids, play, told }) => {
      const all = [...told.values()].flat()
      const count = (outcome: Outcome): number => all.filter((other) => other === outcome).length
      expect(count('unknown')).toBe(5)
      expect(count('recovered')).toBe(records)
      expect(count('failed-again')).toBe(play.sandbox.stats.deliveries.failed)
      expect(ids.map((id) => told.get(id)?.at(-1))).toEqual(ids.map(() => 'recovered'))
    })
  })
})

describe('a receiver that is down', () => {
  test.each(product(only('delivery')))(
    '$delivery: nine deliveries into each subscription, both circuits open, the round ends; then all recover',
    async ({ delivery }) => {
      await using play = await startPlay({ delivery })
      const { daemon, sandbox } = play
      plant(play)
      sandbox.receiver.heal()
      sandbox.receiver.down()
      await play.daemon.round()
      const { received } = sandbox.receiver.counts()
      expect(received).toBe(2 * 9)
      const opened = daemon.facts.filter((fact) => fact.type === 'circuit' && fact.to === 'open')
      expect(opened).toMatchObject([
        { failedAgain: 9, judged: 9 },
        { failedAgain: 9, judged: 9 },
      ])
      expect(daemon.reconciler.circuits.views(play.clock.monotonic())).toMatchObject([
        { state: 'open', outstanding: 0 },
        { state: 'open', outstanding: 0 },
      ])
      expect(daemon.reconciler.outcomes.pending().size).toBe(0)

      sandbox.receiver.up()
      // The pause of 30 s goes by.
      await play.clock.advance(31_000)
      await play.daemon.round()
      expect(sandbox.counts()).toMatchObject({ successful: records, failed: 0 })
      expect(sandbox.receiver.counts()).toMatchObject({ received: received + records, webhooks: records, repeated: 0 })
      expect(play.lies).toEqual([])
    },
  )

  test('one that goes on to be down is asked by one probe at a time', async () => {
    await using play = await startPlay({ delivery: 'async' })
    const { sandbox } = play
    plant(play)
    sandbox.receiver.heal()
    sandbox.receiver.down()
    await play.daemon.round()
    const { received } = sandbox.receiver.counts()
    for (let turn = 0; turn < 4; turn += 1) {
      // Longer than the pauses: 30 s, a minute, two, four.
      await play.clock.advance(5 * minute)
      await play.daemon.round()
    }
    expect(sandbox.receiver.counts().received).toBe(received + 2 * 4)
  })
})
