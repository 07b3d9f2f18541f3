// With any trouble of instances, clocks and answers: never two that lead at one moment, and one again when all is well.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLeaseStore, leadersOf, noFaults, startInstance, timings } from '../../support/lease-store.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const faultKinds = [
  ...['freeze', 'cut', 'lost-answers', 'stored', 'unstored', 'slow'],
  ...['forbidden', 'server-error', 'restart', 'stop'],
] as const

const incident = fc.record({
  atMs: fc.nat(120_000),
  lastsMs: fc.nat(40_000),
  who: fc.nat(4),
  kind: fc.constantFrom(...faultKinds),
  wayMs: fc.tuple(fc.nat(12_000), fc.nat(4000)),
})
const scenario = fc.record({
  /** Clocks that differ by up to 1 % from true time. */
  rates: fc.array(
    fc.integer({ min: -100, max: 100 }).map((parts) => 1 + parts / 10_000),
    {
      minLength: 2,
      maxLength: 5,
    },
  ),
  wayMs: fc.tuple(fc.nat(1500), fc.nat(1500)),
  incidents: fc.array(incident, { maxLength: 12 }),
})
const stepMs = 1000

test('at most one leads at any moment, and exactly one when the trouble is over', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ incidents, rates, wayMs }) => {
      const clock = createVirtualClock()
      const store = createLeaseStore()
      let starts = 0
      let most = 0
      // A lead begins with an event, so nothing between two steps is missed.
      const count = (): void => {
        most = Math.max(most, leadersOf(instances).length)
      }
      const start = (rate: number): ReturnType<typeof startInstance> => {
        const started = startInstance({ identity: `one_${(starts += 1)}`, store, clock, rate, onEvent: count })
        started.faults = { ...noFaults, wayMs }
        return started
      }
      const instances: ReturnType<typeof startInstance>[] = []
      for (const rate of rates) instances.push(start(rate))
      const from = clock.monotonic()
      const passed = (): number => clock.monotonic() - from
      for (const { atMs, kind, lastsMs, wayMs: slow, who } of incidents.toSorted((a, b) => a.atMs - b.atMs)) {
        const index = who % instances.length
        const meant = instances[index]
        while (passed() < atMs) {
          await clock.advance(stepMs)
          count()
        }
        if (meant === undefined) continue
        const faulty = { cut: { cut: true }, 'lost-answers': { loseAnswers: true }, slow: { wayMs: slow } }
        if (kind === 'restart' || kind === 'stop') {
          if (kind === 'restart') meant.kill()
          else void meant.stop()
          meant.thaw()
          instances[index] = start(rates[index] ?? 1)
          continue
        }
        if (kind === 'freeze') meant.freeze()
        else if (kind === 'forbidden' || kind === 'server-error') meant.faults = { ...noFaults, refused: kind }
        else if (kind === 'stored' || kind === 'unstored') meant.faults = { ...noFaults, wayMs, writesFail: kind }
        else meant.faults = { ...noFaults, wayMs, ...faulty[kind] }
        void clock.sleep(lastsMs).then(() => {
          meant.thaw()
          meant.faults = { ...noFaults, wayMs }
        })
      }
      const quietAt = 160_000 + 3 * timings.leaseDurationMs
      while (passed() < quietAt) {
        await clock.advance(stepMs)
        count()
      }
      expect(most).toBe(1)
      expect(leadersOf(instances)).toHaveLength(1)
      for (const instance of instances) instance.kill()
    }),
    { numRuns: 40 },
  )
})
