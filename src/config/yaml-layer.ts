// Reads the YAML file: syntax, sections and key names, every value with its line. Values are checked later.
import { isAlias, isMap, isNode, isScalar, LineCounter, parseDocument, visit } from 'yaml'
import type { Document, Pair, YAMLError } from 'yaml'
import type { Given, Layer } from './layer.ts'
import { emptyLayer, shownText, unreadable } from './layer.ts'
import type { KeyDescription } from './key.ts'
import { nearest } from './suggest.ts'

const maxFileLength = 1024 * 1024

/** Messages by error code. The library's own messages may quote the file, which may hold a key or a passphrase. */
const syntaxWords: Record<string, string> = {
  DUPLICATE_KEY: 'this key stands here a second time: keep one',
  TAB_AS_INDENT: 'a tab in the indentation: YAML takes spaces only',
  BAD_INDENT:
    'the indentation does not fit the lines above (keys of one section start in the same column), or a bracket is open',
  BLOCK_AS_IMPLICIT_KEY: 'a second ": " in one line: put the value in quotes, or each key on a line of its own',
  BAD_SCALAR_START: 'the value starts with a character that has a meaning in YAML: put it in quotes',
  UNEXPECTED_TOKEN: 'not understood: put values that start with * & ! % @ or hold ": " or " #" in quotes',
  MISSING_CHAR: 'something is not closed: a quotation mark, a bracket, or a ":" behind a key',
  MULTIPLE_DOCS: 'a second document (---): the file may hold one only',
  RESOURCE_EXHAUSTION: 'nested too deeply',
  NON_STRING_KEY: 'a key must be plain text',
  TAG_RESOLVE_FAILED: 'a tag (!...) is not understood: leave it out',
}

interface Walk {
  layer: Layer
  keys: ReadonlyMap<string, KeyDescription>
  sections: ReadonlySet<string>
  originAt(offset: number | undefined): string
}

function complain(layer: Layer, key: string, origin: string, message: string): void {
  layer.problems.push({ key, origin, message })
}

function offsetOf(node: unknown): number | undefined {
  return (node as { range?: readonly number[] | null } | null)?.range?.[0]
}

function unknownKey(walk: Walk, path: string, name: string): string {
  const dotted = [path, name].find((written) => walk.keys.has(written) || walk.sections.has(written))
  if (dotted !== undefined) return `sections are nested: write ${dotted.split('.').join(': and indented below it ')}:`
  const meant = nearest(path, [...walk.keys.keys(), ...walk.sections])
  return meant === undefined ? 'there is no such key' : `there is no such key; did you mean ${meant}?`
}

function example(walk: Walk, section: string): string {
  return [...walk.keys.keys()].find((key) => key.startsWith(`${section}.`)) ?? section
}

function takeSection(walk: Walk, path: string, node: unknown, origin: string): void {
  // All of its keys commented out: a section that is there but empty.
  if (node === null || (isScalar(node) && node.value === null)) return
  if (isMap(node)) for (const pair of node.items) takePair(walk, `${path}.`, pair)
  else complain(walk.layer, path, origin, `is a section: it takes keys below it, such as ${example(walk, path)}`)
}

function takeValue(walk: Walk, path: string, node: unknown, origin: string): void {
  const given = valueOf(walk, path, node, origin)
  if (given !== undefined) walk.layer.values.set(path, given)
}

/** Undefined when there is none; that is reported as a problem. */
function valueOf(walk: Walk, path: string, node: unknown, origin: string): Given | undefined {
  if (node === null || (isScalar(node) && node.value === null)) {
    complain(
      walk.layer,
      path,
      origin,
      "has no value: give one, or take the key out; '' is an empty text and [] an empty list",
    )
    return undefined
  }
  return { raw: (node as { toJSON(): unknown }).toJSON(), origin }
}

function hasAlias(node: unknown): boolean {
  let found = false
  const note = (): symbol => {
    found = true
    return visit.BREAK
  }
  if (isNode(node)) visit(node, { Alias: note })
  return found
}

function takePair(walk: Walk, prefix: string, pair: Pair): void {
  const origin = walk.originAt(offsetOf(pair.key))
  const name = isScalar(pair.key) ? String(pair.key.value) : '?'
  const path = prefix + name
  const isSection = walk.sections.has(path)
  if (name.includes('.') || !(isSection || walk.keys.has(path))) {
    complain(walk.layer, shownText(path), origin, unknownKey(walk, path, name))
  } else if (isSection && !isAlias(pair.value)) takeSection(walk, path, pair.value, origin)
  else if (hasAlias(pair.value)) {
    const message = 'aliases (*name) are not taken: write the value; a text that starts with * stands in quotes'
    complain(walk.layer, path, origin, message)
  } else takeValue(walk, path, pair.value, origin)
}

function takeSyntax(layer: Layer, document: Document.Parsed, originAt: Walk['originAt']): void {
  const seen = new Set<string>()
  for (const error of [...document.errors, ...document.warnings] as YAMLError[]) {
    const origin = originAt(error.pos[0])
    const message = syntaxWords[error.code] ?? `not valid YAML (${error.code})`
    if (!seen.has(origin + message)) complain(layer, '--config', origin, message)
    seen.add(origin + message)
  }
}

function parse(text: string, counter: LineCounter): Document.Parsed {
  return parseDocument(text, {
    lineCounter: counter,
    prettyErrors: false,
    schema: 'core',
    version: '1.2',
    stringKeys: true,
    uniqueKeys: true,
    strict: true,
    logLevel: 'error',
  })
}

/** Sections that hold the keys: `retry`, `retry.backoff`. */
function sectionsOf(keys: Iterable<string>): Set<string> {
  const sections = new Set<string>()
  for (const key of keys) {
    const parts = key.split('.')
    for (let depth = 1; depth < parts.length; depth += 1) sections.add(parts.slice(0, depth).join('.'))
  }
  return sections
}

/** The values of a YAML text. Unknown keys, repeated keys, aliases and invalid YAML are problems, each with its line. */
function yamlLayer(file: string, text: string, keys: ReadonlyMap<string, KeyDescription>): Layer {
  const layer = emptyLayer()
  if (text.length > maxFileLength) {
    complain(layer, '--config', file, 'has more than 1 MiB: this can not be the configuration')
    return { ...layer, complete: false }
  }
  const counter = new LineCounter()
  const document = parse(text, counter)
  const originAt = (offset: number | undefined): string =>
    offset === undefined ? file : `${file}:${counter.linePos(offset).line}`
  takeSyntax(layer, document, originAt)
  // After any other error the parsed tree is a guess, and its unknown keys would be noise.
  if (document.errors.some((error) => error.code !== 'DUPLICATE_KEY')) return { ...layer, complete: false }
  const walk: Walk = {
    layer,
    keys,
    sections: sectionsOf(keys.keys()),
    originAt,
  }
  const top: unknown = document.contents
  if (isMap(top)) for (const pair of top.items) takePair(walk, '', pair)
  else if (top !== null && !(isScalar(top) && top.value === null)) {
    complain(layer, '--config', file, 'must hold sections with keys, such as platform: with baseUrl: below it')
    return { ...layer, complete: false }
  }
  return layer
}

/** The layer of the file that `--config` names; empty when it names none. */
export function readYamlLayer(
  file: string | undefined,
  readFile: (path: string) => string,
  keys: ReadonlyMap<string, KeyDescription>,
): Layer {
  if (file === undefined) return emptyLayer()
  let text: string
  try {
    text = readFile(file)
  } catch (error) {
    const problem = { key: '--config', origin: file, message: unreadable(error) }
    return { ...emptyLayer(), problems: [problem], complete: false }
  }
  return yamlLayer(file, text, keys)
}
