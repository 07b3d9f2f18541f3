// What is reported of retries whose answers are lost, under every reading of delivery, beside the platform's own books.
import { describe, expect, test } from 'vitest'
import type { Fault } from '../../sandbox/api/faults.ts'
import { only } from './axes.ts'
import { beginDay } from '../support/daemon.ts'
import { beginPlay, recoverAll } from './cell.ts'
import { product } from './pairwise.ts'

const minute = 60_000
const deliveries = product(only('delivery'))

test('records without an event id, many in one second, behind short pages and no totals', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 2 }, totals: 'absent', maxPageSize: 7 })
  const { clock, sandbox } = day
  const at = Math.floor(clock.now() / 1000) * 1000 - 60 * minute
  for (let index = 0; index < 20; index += 1) sandbox.addWebhook({ eventInstant: at + index, status: 'successful' })
  const ids = Array.from({ length: 10 }, (_, index) =>
    sandbox.addWebhook({ eventInstant: at + 50 * index, wire: { eventId: undefined, subscriptionId: null } }),
  )
  const daemon = await day.start()
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
      await using play = await beginPlay({ delivery })
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
      await using play = await beginPlay({ delivery })
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
