// A mutant: the daemon with one thing broken, as data. It says which text of which source file is replaced, and what that breaks.
import ts from 'typescript'
import type { Invariant } from '../simulation/trace.ts'

/**
 * Who chose it: `review` a reader of the source and of the tests, `invariant` the author of the simulation for the
 * invariant that it names, `fresh` an author who knew the source alone.
 */
export const origins = ['review', 'invariant', 'fresh'] as const
export type Origin = (typeof origins)[number]

export interface Mutant {
  /** A letter and a number, never used again: records refer to it. */
  id: string
  /** Path below src/. */
  file: string
  /** Text that stands in the file exactly once. Short, so that other changes of the file leave it alone. */
  text: string
  /** Text in its place. The file has to remain valid TypeScript. */
  replacement: string
  /** What the daemon does wrong then, in a few words. */
  breaks: string
  origin: Origin
  /** Only with the origin `invariant`: the simulation must catch it by this one. */
  invariant?: Invariant
  /** Why no test can distinguish it from the daemon as it is. It counts as one that survives. */
  equivalent?: string
}

/** A mutant that can't be applied: its author has to adapt it. */
export class MutantError extends Error {
  constructor({ file, id }: Mutant, problem: string) {
    super(`mutant ${id} does not apply to src/${file}: ${problem}; adapt it in test/mutants`)
    this.name = 'MutantError'
  }
}

/**
 * The source with the mutant's text replaced.
 * @throws MutantError when the text does not stand there exactly once, or when what comes of it is no TypeScript
 */
export function mutated(source: string, mutant: Mutant): string {
  const { replacement, text } = mutant
  const found = source.split(text).length - 1
  if (found !== 1) throw new MutantError(mutant, `its text stands there ${found} times, not once`)
  const result = source.replace(text, () => replacement)
  if (result === source) throw new MutantError(mutant, 'it changes nothing')
  const { diagnostics = [] } = ts.transpileModule(result, { reportDiagnostics: true })
  const [first] = diagnostics
  if (first === undefined) return result
  throw new MutantError(mutant, `it leaves no TypeScript: ${ts.flattenDiagnosticMessageText(first.messageText, ' ')}`)
}

/** Part of the source that a mutant belongs to: the folder of its file, or `root`. */
export function areaOf({ file }: Pick<Mutant, 'file'>): string {
  const end = file.indexOf('/')
  return end === -1 ? 'root' : file.slice(0, end)
}
