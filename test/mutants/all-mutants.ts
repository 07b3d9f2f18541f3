// All mutants, in the order in which they are tried and reported.
import { boundaryMutants } from './boundary-mutants.ts'
import { freshMutants } from './fresh-mutants.ts'
import { invariantMutants } from './invariant-mutants.ts'
import type { Mutant } from './mutant.ts'
import { reconcileMutants } from './reconcile-mutants.ts'
import { replicaMutants } from './replica-mutants.ts'

export const allMutants: readonly Mutant[] = [
  ...reconcileMutants,
  ...boundaryMutants,
  ...invariantMutants,
  ...replicaMutants,
  ...freshMutants,
]
