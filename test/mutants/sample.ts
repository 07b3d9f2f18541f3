// Draws a sample of the mutants by a seed, such as the hash of a commit: the same for the same seed, and bounded in time.
import { createHash } from 'node:crypto'
import type { Mutant } from './mutant.ts'
import type { Records } from './record.ts'

export interface SampleOptions {
  seed: string
  /** Seconds of work that the sample may take, of all workers together. */
  budgetSeconds: number
  records: Records
}

/** Starting the test runner and mending the source, on top of what the record says. */
const overheadSeconds = 3

function rankOf(id: string, seed: string): string {
  return createHash('sha256').update(`${seed} ${id}`).digest('hex')
}

/**
 * Mutants that are recorded as caught, in an order that only the seed decides, as many as fit into the budget by what
 * the record says of them. One that survives can't fail, so it is never drawn.
 */
export function drawSample(mutants: readonly Mutant[], { budgetSeconds, records, seed }: SampleOptions): Mutant[] {
  let left = budgetSeconds
  return mutants
    .map((mutant) => ({ mutant, known: records[mutant.id], rank: rankOf(mutant.id, seed) }))
    .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    .filter(({ known }) => {
      if (known === undefined || known.layer === null) return false
      const cost = known.seconds + overheadSeconds
      if (cost > left) return false
      left -= cost
      return true
    })
    .map(({ mutant }) => mutant)
}
