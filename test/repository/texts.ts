// Texts for readers, by file: comments and messages of code, prose of documents. For the tests of words and references.
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'

export const root = join(import.meta.dirname, '../..')

export function read(file: string): string {
  return readFileSync(join(root, file), 'utf8')
}

/** Files below a folder of the repository, by their path from the root. */
export function filesIn(place: string, extensions: readonly string[]): string[] {
  const names = readdirSync(join(root, place), { recursive: true, encoding: 'utf8' })
  const files = names.map((name) => `${place}/${name}`).filter((name) => !name.includes('node_modules'))
  return files.filter((name) => extensions.includes(extname(name))).toSorted()
}

/** Comments in a row, and texts of code. A quotation mark in a regular expression begins none: it has no end in its line. */
const parts = /(?:^[ \t]*\/\/.*\n)+|\/\*[^]*?\*\/|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\[^])*`|\/\/.*/gm

/** Comments and messages (texts of three words and more) of TypeScript. */
function ofTypeScript(code: string): string[] {
  const found = Array.from(code.matchAll(parts), ([part]) => part)
  const isMessage = (part: string): boolean => !/^['`]/.test(part) || /\w+ \w+ \w+/.test(part)
  return found
    .filter(isMessage)
    .map((part) => part.replaceAll(/^\s*(?:\/\/+|\/\*+|\*)\s?|\*\/$|^['`]|['`]$/gm, '').replaceAll(/\$\{[^}]*\}/g, 'X'))
}

/** Prose of Markdown: without fenced code; each paragraph, list item and table cell is a text. */
function ofMarkdown(text: string): string[] {
  return text
    .replaceAll(/^ *```[^]*?^ *```/gm, '')
    .replaceAll(/<!--[^]*?-->/g, '')
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\||\n(?=#)/)
    .map((part) => part.replace(/^\s*(?:[-*#]+|\d+\.)\s/, ''))
}

/** Comments and values of YAML and JSON. */
function ofLines(text: string): string[] {
  return text.replaceAll(/^\s*#\s?/gm, '').split(/\n\s*\n|^\s*[\w.-]+:\s/m)
}

/** The sentences of a file. A name in backticks counts as one word. */
export function sentencesOf(file: string): string[] {
  const text = read(file)
  const texts = file.endsWith('.ts') ? ofTypeScript(text) : file.endsWith('.md') ? ofMarkdown(text) : ofLines(text)
  return texts
    .flatMap((part) =>
      part
        .replaceAll(/`[^`]*`/g, 'X')
        .replaceAll(/\s+/g, ' ')
        .split(/(?<=[.!?:;]) +/),
    )
    .map((sentence) => sentence.trim())
    .filter((sentence) => /\w/.test(sentence))
}
