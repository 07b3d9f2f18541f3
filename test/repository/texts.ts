// Texts for readers, by file: comments and messages of code, prose of documents. For the tests of words and references.
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import ts from 'typescript'

export const root = join(import.meta.dirname, '../..')

export function read(file: string): string {
  return readFileSync(join(root, file), 'utf8')
}

/** Files below a folder of the repository, or the file itself, by their path from the root. */
export function filesIn(place: string, extensions: readonly string[]): string[] {
  const names = readdirSync(join(root, place), { recursive: true, encoding: 'utf8' })
  const files = names.map((name) => `${place}/${name}`).filter((name) => !name.includes('node_modules'))
  return files.filter((name) => extensions.includes(extname(name))).toSorted()
}

/** The text of a comment without its marks. */
function withoutMarks(comment: string): string {
  const text = comment.replace(/^\/\*+|\*+\/$/g, '')
  return text
    .split('\n')
    .map((line) => line.replace(/^\s*(?:\/\/+|\*|#+)?\s?/, ''))
    .join('\n')
}

/** Line comments that follow each other are one text. */
function joinLines(comments: readonly { text: string; line: number; isLine: boolean }[]): string[] {
  const texts: string[] = []
  let last: (typeof comments)[number] | undefined
  for (const comment of comments) {
    const continues = last?.isLine === true && comment.isLine && comment.line === last.line + 1
    if (continues) texts.push(`${texts.pop() ?? ''}\n${withoutMarks(comment.text)}`)
    else texts.push(withoutMarks(comment.text))
    last = comment
  }
  return texts
}

const isMessage = (text: string): boolean => /\w+ \w+ \w+/.test(text)

/** Where texts of the code begin and end: strings, regular expressions, and the parts of templates. */
function literalsOf(source: ts.SourceFile): { ranges: [start: number, end: number][]; messages: string[] } {
  const ranges: [number, number][] = []
  const messages: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isLiteralExpression(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node))
      ranges.push([node.getStart(source), node.end])
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) messages.push(node.text)
    if (ts.isTemplateExpression(node))
      messages.push([node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join('X'))
    ts.forEachChild(node, visit)
  }
  visit(source)
  return { ranges, messages }
}

/** Comments and messages (string literals of three words and more) of TypeScript. */
function ofTypeScript(file: string, code: string): string[] {
  const source = ts.createSourceFile(file, code, ts.ScriptTarget.Latest)
  const { messages, ranges } = literalsOf(source)
  const comments: { text: string; line: number; isLine: boolean }[] = []
  const next = /\/\/[^\n]*|\/\*[^]*?\*\//g
  for (let found = next.exec(code); found !== null; found = next.exec(code)) {
    const { 0: text, index } = found
    const around = ranges.find(([start, end]) => start <= index && index < end)
    if (around !== undefined) next.lastIndex = around[1]
    else {
      const { line } = source.getLineAndCharacterOfPosition(index)
      comments.push({ text, line, isLine: text.startsWith('//') })
    }
  }
  return [...joinLines(comments), ...messages.filter(isMessage)]
}

/** Prose of Markdown: without fenced code; each paragraph, list item and table cell is a text. */
function ofMarkdown(text: string): string[] {
  return text
    .replaceAll(/^ *```[^]*?^ *```/gm, '')
    .replaceAll(/<!--[^]*?-->/g, '')
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\||\n(?=#)/)
    .map((part) => part.replace(/^\s*(?:[-*#]+|\d+\.)\s/, ''))
}

/** Comments and values of YAML, shell and Dockerfiles. */
function ofLines(text: string): string[] {
  const comments = text.replaceAll(/((?:^\s*#.*\n)+)/gm, (block) => `\n\n${withoutMarks(block)}\n\n`)
  return comments.split(/\n\s*\n|^\s*[\w.-]+:\s/m).map((part) => part.replace(/^\s*#+\s?/, ''))
}

/** The texts of a file. */
export function textsOf(file: string): string[] {
  const text = read(file)
  if (file.endsWith('.ts') || file.endsWith('.js')) return ofTypeScript(file, text)
  return file.endsWith('.md') ? ofMarkdown(text) : ofLines(text)
}

/** The sentences of a text. A name in backticks counts as one word. */
export function sentencesOf(text: string): string[] {
  return text
    .replaceAll(/`[^`]*`/g, 'X')
    .replaceAll(/\s+/g, ' ')
    .split(/(?<=[.!?:;]) +/)
    .map((sentence) => sentence.trim())
    .filter((sentence) => /\w/.test(sentence))
}
