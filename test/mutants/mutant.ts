// A mutant: the program with one thing broken, and the one text form of a list of mutants, drawn or written by hand.
import ts from 'typescript'

export interface Mutant {
  /** Path below src/. */
  file: string
  /** Text that stands in the file exactly once. */
  text: string
  /** Text in its place. The file has to remain valid TypeScript. */
  replacement: string
  /** What is broken then, in a few words. */
  breaks: string
}

const entryPattern = /^(?<file>\S+\.ts): (?<breaks>.+)\n(?<old>(?:-.*\n)+)(?<new>(?:\+.*\n)*)$/

function unmarked(lines: string): string {
  return lines.replaceAll(/^[-+]/gm, '').slice(0, -1)
}

/**
 * Reads a list: entries with an empty line between them, each `FILE: what it breaks`, then the old lines after `-` and the
 * new lines after `+`. A line that begins with `#` is a comment.
 * @throws Error that shows the entry which is none
 */
export function parseMutants(list: string): Mutant[] {
  const entries = list.replaceAll(/^#.*\n/gm, '').split(/\n{2,}/)
  return entries
    .map((entry) => entry.replaceAll(/^\n+|\n+$/g, ''))
    .filter((entry) => entry !== '')
    .map((entry) => {
      const { file, breaks, old, new: added } = entryPattern.exec(`${entry}\n`)?.groups ?? {}
      if (file === undefined || breaks === undefined || old === undefined) {
        throw new Error(`this is no mutant; write "FILE: what it breaks", then lines after - and +:\n${entry}`)
      }
      return { file, breaks, text: unmarked(old), replacement: unmarked(added ?? '') }
    })
}

/** The entry of a list that `parseMutants` reads. */
export function formatMutant({ breaks, file, replacement, text }: Mutant): string {
  const marked = (mark: string, lines: string): string[] => lines.split('\n').map((line) => `${mark}${line}`)
  const added = replacement === '' ? [] : marked('+', replacement)
  return [`${file}: ${breaks}`, ...marked('-', text), ...added].join('\n')
}

/** True for a source without syntax errors. Types are not checked. */
export function isTypeScript(source: string): boolean {
  return (ts.transpileModule(source, { reportDiagnostics: true }).diagnostics ?? []).length === 0
}

/** The source with the mutant's text replaced. @throws Error when it does not apply */
export function mutated(source: string, mutant: Mutant): string {
  const found = source.split(mutant.text).length - 1
  const result = source.replace(mutant.text, () => mutant.replacement)
  const problem =
    found !== 1
      ? `its text stands there ${found} times, not once`
      : result === source
        ? 'it changes nothing'
        : isTypeScript(result)
          ? undefined
          : 'it leaves no TypeScript'
  if (problem === undefined) return result
  throw new Error(`a mutant does not apply to src/${mutant.file}: ${problem}; adapt it:\n${formatMutant(mutant)}`)
}
