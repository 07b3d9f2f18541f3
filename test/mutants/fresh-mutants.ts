// Mutants that somebody chose who read the source alone, no test: they say what the tests hold of what nobody thought of.
//
// Each is an object of the type Mutant with the origin 'fresh' and an id from F01 on, such as
//
//   {
//     id: 'F01',
//     file: 'reconcile/backoff.ts',
//     text: 'Math.max(1, n)',
//     replacement: 'n',
//     breaks: 'computes with no attempts where the platform tells none',
//     origin: 'fresh',
//   },
//
// `text` stands in the file exactly once: as few characters as make it so. `replacement` keeps the file TypeScript that
// the compiler takes, and changes what the daemon does: no renaming, no log message, no comment, no dead code. One that
// turns out to change nothing stays, with `equivalent` saying why. They are spread over src/ by what an error there costs.
import type { Mutant } from './mutant.ts'

export const freshMutants: readonly Mutant[] = []
