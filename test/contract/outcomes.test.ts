// What is reported of retries whose answers are lost, and of a dead receiver, under every reading of delivery, beside the platform's own books.
import { describe, expect, test } from 'vitest'
import type { Fault } from '../../sandbox/api/faults.ts'
import { only } from './axes.ts'
import { recoverAll, startPlay } from './cell.ts'
import { product } from './pairwise.ts'

const minute = 60_000
const deliveries = product(only('delivery'))

test('records without an event id, many in one second, behind short pages and no totals', async () => {
  await using play = await startPlay({ delivery: 'async', totals: 'absent', pages: 'of 7' })
  const { clock, daemon, sandbox } = play
  const at = Math.floor(clock.now() / 1000) * 1000 - 60 * minute
  for (let index = 0; index < 20; index += 1) sandbox.addWebhook({ eventInstant: at + index, status: 'successful' })
  const ids = Array.from({ length: 10 }, (_, index) =>
    sandbox.addWebhook({ eventInstant: at + 50 * index, wire: { eventId: undefined, subscriptionId: null } }),
  )
  await daemon.round()
  expect(ids.map((id) => sandbox.record(id)?.status)).toEqual(ids.map(() => 'successful'))
  const recovered = daemon.facts.flatMap((fact) =>
    fact.type === 'outcome' && fact.outcome === 'recovered' ? [fact.webhookId] : [],
  )
  expect(recovered.sort()).toEqual([...ids].sort())
})

describe('answers are lost', () => {
  const lost: [string, Fault][] = [
    ['reset', { kind: 'reset', when: 'after' }],
    ['500', { kind: 'status', status: 500, applied: true, body: 'html' }],
    ['cut', { kind: 'cut' }],
    ['over 8 MiB', { kind: 'huge-body', mebibytes: 9 }],
  ]

  /** Whose retry a record's was is not known when the refusal of ours was lost. */
  const isOwn = (text: string): boolean => text !== 'is retried by another client: reported as recovered, not '

  test.each(lost.flatMap(([name, fault]) => deliveries.map((cell) => ({ name, fault, ...cell }))))(
    'and the retries were taken: $name, $delivery',
    async ({ fault, delivery }) => {
      await using play = await startPlay({ delivery })
      play.sandbox.faults.set({ operation: 'retry', fault, probability: 0.5 })
      const { facts, missing, violations } = await recoverAll(play)
      const own = violations.filter(isOwn)
      expect({ missing, own }).toEqual({ missing: [], own: [] })
      const unanswered = facts.filter((fact) => fact.type === 'retry' && fact.response.lost === true)
      expect(unanswered.length).toBeGreaterThan(3)
    },
  )

  test.each(deliveries)(
    'and the retries were not taken: not known, then tried again, $delivery',
    async ({ delivery }) => {
      await using play = await startPlay({ delivery })
      play.sandbox.faults.set({ operation: 'retry', fault: { kind: 'reset', when: 'before' }, count: 5, skip: 60 })
      const { facts, missing, violations } = await recoverAll(play)
      expect(missing).toEqual([])
      const unknowns = facts.filter((fact) => fact.type === 'outcome' && fact.outcome === 'unknown').length
      expect(unknowns).toBeGreaterThanOrEqual(2)
      const unknown = /: reported as unknown,((?:failed-again,)*recovered), not \1$/
      expect(violations.filter(isOwn)).toEqual(Array(unknowns).fill(expect.stringMatching(unknown)))
    },
  )
})

test.each(deliveries)(
  'a dead receiver gets nine deliveries of each subscription, then three probes a cooldown, until all recover: $delivery',
  async ({ delivery }) => {
    await using play = await startPlay({ delivery })
    const { clock, daemon, sandbox } = play
    const [records, now] = [24, clock.now()]
    sandbox.seed({ count: records, from: now - 90 * minute, to: now - 60 * minute, attempts: 1, subscriptions: 2 })
    sandbox.receiver.down()
    await daemon.round()
    expect(sandbox.receiver.counts().received).toBe(2 * 9)
    const opened = daemon.facts.filter((fact) => fact.type === 'circuit' && fact.to === 'open')
    const nine = { failedAgain: 9, judged: 9 }
    expect(opened).toMatchObject([nine, nine])
    const open = { state: 'open', outstanding: 0 }
    expect(daemon.reconciler.subscriptions.views(clock.monotonic())).toMatchObject([open, open])
    expect(daemon.reconciler.outcomes.pending().size).toBe(0)
    for (let turn = 0; turn < 4; turn += 1) {
      // Longer than the pauses: 30 s, a minute, two, four.
      await clock.advance(5 * minute)
      await daemon.round()
    }
    const { received } = sandbox.receiver.counts()
    expect(received).toBe(2 * (9 + 3 * 4))

    sandbox.receiver.up()
    await clock.advance(10 * minute)
    await daemon.round()
    expect(sandbox.counts()).toMatchObject({ successful: records, failed: 0 })
    expect(sandbox.receiver.counts()).toMatchObject({ received: received + records, webhooks: records, repeated: 0 })
    expect(play.lies).toEqual([])
  },
)
