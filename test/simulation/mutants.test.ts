// The proof that the simulation can fail: daemons that are broken on purpose are caught, each by what it violates.
import { rm } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { copySource, mutants, mutate, runCopy } from './mutants.ts'

const longestMs = 120_000
const seeds = '150'

let folder = ''
beforeAll(async () => {
  folder = await copySource()
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

test('what is not broken is not caught', { timeout: longestMs }, async () => {
  const { exitCode, output } = await runCopy(folder, ['--seeds', '10'])
  expect(output).toMatch(/^10 seeds from 1: 0 failed;/m)
  expect(exitCode).toBe(0)
})

test.each(mutants)('a daemon that $name is caught ($invariant)', { timeout: longestMs }, async (mutant) => {
  const mend = await mutate(folder, mutant)
  try {
    const { exitCode, output } = await runCopy(folder, ['--seeds', seeds, '--until', mutant.invariant])
    expect(
      output
        .split('\n')
        .filter((line) => /^seed \d+: /.test(line))
        .at(-1),
    ).toContain(`"${mutant.invariant}"`)
    expect(exitCode).toBe(1)
  } finally {
    await mend()
  }
})

test('a mutant whose text is not there is told of', async () => {
  const [mutant] = mutants
  if (mutant === undefined) throw new Error('there are no mutants')
  await expect(mutate(folder, { ...mutant, find: 'no such text' })).rejects.toThrow(/no longer applies.*0 times/)
})
