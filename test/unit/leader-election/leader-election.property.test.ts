// With any trouble of instances, clocks and answers: never two that lead at one moment, and one again when all is well.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createScene, noFaults, timings, type CallFaults } from '../../support/lease-store.ts'

const kinds = [
  ...['freeze', 'cut', 'lost-answers', 'stored', 'unstored', 'slow'],
  ...['forbidden', 'server-error', 'restart', 'stop'],
] as const
type Kind = (typeof kinds)[number]

function faultsOf(kind: Kind, wayMs: CallFaults['wayMs'], slowMs: CallFaults['wayMs']): CallFaults {
  const usual = { ...noFaults, wayMs }
  if (kind === 'cut') return { ...usual, cut: true }
  if (kind === 'lost-answers') return { ...usual, loseAnswers: true }
  if (kind === 'slow') return { ...usual, wayMs: slowMs }
  if (kind === 'forbidden' || kind === 'server-error') return { ...usual, refused: kind }
  if (kind === 'stored' || kind === 'unstored') return { ...usual, writesFail: kind }
  return usual
}

const trouble = fc.record({
  atMs: fc.nat(120_000),
  lastsMs: fc.nat(40_000),
  who: fc.nat(4),
  kind: fc.constantFrom(...kinds),
  slowMs: fc.tuple(fc.nat(12_000), fc.nat(4000)),
})
/** Clocks that differ by up to 1 % from true time. */
const rate = fc.integer({ min: -100, max: 100 }).map((parts) => 1 + parts / 10_000)
const scenario = fc.record({
  rates: fc.array(rate, { minLength: 2, maxLength: 5 }),
  wayMs: fc.tuple(fc.nat(1500), fc.nat(1500)),
  troubles: fc.array(trouble, { maxLength: 12 }),
})
const stepMs = 1000

test('at most one leads at any moment, and exactly one when the trouble is over', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ troubles, rates, wayMs }) => {
      let most = 0
      // A lead begins with an event, so nothing between two steps is missed.
      using scene = createScene(({ leaders }) => {
        most = Math.max(most, leaders().length)
      })
      const { clock, instances } = scene
      const from = clock.monotonic()
      async function passUntil(atMs: number): Promise<void> {
        while (clock.monotonic() - from < atMs) {
          await clock.advance(stepMs)
          most = Math.max(most, scene.leaders().length)
        }
      }
      const running = rates.map((own) => Object.assign(scene.start(own), { faults: { ...noFaults, wayMs } }))
      for (const { atMs, kind, lastsMs, slowMs, who } of troubles.toSorted((a, b) => a.atMs - b.atMs)) {
        await passUntil(atMs)
        const index = who % running.length
        const one = running[index]
        if (one === undefined) continue
        if (kind === 'restart' || kind === 'stop') {
          if (kind === 'restart') one.kill()
          else void one.stop()
          one.thaw()
          running[index] = Object.assign(scene.start(rates[index]), { faults: { ...noFaults, wayMs } })
          continue
        }
        if (kind === 'freeze') one.freeze()
        else one.faults = faultsOf(kind, wayMs, slowMs)
        void clock.sleep(lastsMs).then(() => {
          one.thaw()
          one.faults = { ...noFaults, wayMs }
        })
      }
      await passUntil(160_000 + 3 * timings.leaseDurationMs)
      expect(most).toBe(1)
      expect(instances.filter(({ election }) => election.isLeading())).toHaveLength(1)
    }),
    { numRuns: 40 },
  )
})
