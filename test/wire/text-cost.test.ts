// Texts of a hostile platform: redaction costs no more than in proportion to their length.
import { expect, test } from 'vitest'
import { redact } from '../../src/runtime/redact.ts'

/** The clock of CPU time may tick only every few milliseconds: work is repeated until it takes this long. */
const measurableMs = 8

/** CPU time of this thread, in ms: other work on the machine does not count. */
function threadMs(work: () => void, repeats: number): number {
  const before = process.threadCpuUsage()
  for (let turn = 0; turn < repeats; turn += 1) work()
  const { system, user } = process.threadCpuUsage(before)
  return (system + user) / 1000
}

/** CPU time of redacting a text once: never 0, as a measurement that is shorter than a tick can be. */
function costOf(text: string): number {
  const work = (): unknown => redact(text)
  work()
  for (let repeats = 1; ; repeats *= 2) {
    // The least of five: a collection of garbage, or a compilation, may fall into one of them.
    const least = Math.min(...Array.from({ length: 5 }, () => threadMs(work, repeats)))
    if (least >= measurableMs) return least / repeats
  }
}

test.each<[string, (count: number) => string]>([
  ['begin marks', (count) => '-----BEGIN A-----'.repeat(count)],
  ['starts of IBANs', (count) => 'DE89 '.repeat(count)],
  ['starts of URLs', (count) => 'https://'.repeat(count)],
  ['starts of tokens', (count) => 'eyJ'.repeat(5 * count)],
  ['spaces', (count) => `Bearer${' '.repeat(20 * count)}"`],
  ['names', (count) => 'authorization: '.repeat(count)],
  ['backslashes', (count) => `password${'\\'.repeat(10 * count)}`],
])('%s, eight times as many', (_, textOf) => {
  // The square would be 64.
  expect(costOf(textOf(1600)) / costOf(textOf(200))).toBeLessThan(24)
})
