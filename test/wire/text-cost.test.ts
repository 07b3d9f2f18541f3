// Texts of a hostile platform, and lines of a ledger: reading them costs no more than in proportion to their length.
import { expect, test } from 'vitest'
import { readKeys } from '../../src/reconcile/books/read-keys.ts'
import { redact } from '../../src/runtime/redact.ts'

/** The clock of CPU time may tick only every few milliseconds: work is repeated until it takes this long. */
const measurableMs = 8

/** CPU time of this thread, in ms: other work on the machine does not count. */
async function threadMs(work: () => unknown, repeats: number): Promise<number> {
  const before = process.threadCpuUsage()
  for (let turn = 0; turn < repeats; turn += 1) await work()
  const { system, user } = process.threadCpuUsage(before)
  return (system + user) / 1000
}

/** CPU time of the work: never 0, as a measurement that is shorter than a tick can be. */
async function costOf(work: () => unknown): Promise<number> {
  await work()
  for (let repeats = 1; ; repeats *= 2) {
    // The least of five: a collection of garbage, or a compilation, may fall into one of them.
    let least = Infinity
    for (let turn = 0; turn < 5; turn += 1) least = Math.min(least, await threadMs(work, repeats))
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
])('%s, eight times as many', async (_, textOf) => {
  const cost = (text: string): Promise<number> => costOf(() => redact(text))
  // The square would be 64.
  expect((await cost(textOf(1600))) / (await cost(textOf(200)))).toBeLessThan(24)
})

async function refuseLine(line: string): Promise<void> {
  async function* input(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(Buffer.from(`type,entityId\n${line}\n`))
  }
  await expect(readKeys(input(), 'entity').next()).rejects.toThrow('line 2')
}

test.each<[string, string]>([
  ['a padded column with a wrong quote', `a-b,${' '.repeat(200)}12" x"`],
  ['quotes without an end', `a-b,"${'""'.repeat(200)}x"y`],
])('%s, eight times as long', async (_, line) => {
  const longer = line.replace(/(?: {200}|"{400})/, (part) => part.repeat(8))
  const cost = (text: string): Promise<number> => costOf(() => refuseLine(text))
  expect((await cost(longer)) / (await cost(line))).toBeLessThan(24)
})
