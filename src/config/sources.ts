// Reads the YAML file and the environment: values with their origins, not yet checked.
import { isMap, isNode, isScalar, LineCounter, parseDocument, visit, type Document, type YAMLMap } from 'yaml'
import type { ConfigurationProblem } from '../runtime/errors.ts'
import { shownText } from '../runtime/redact.ts'
import { fileProblem } from '../runtime/small-file.ts'
import { environmentPrefix, fileVariable, type Key } from './key.ts'
import { foreignForm } from './misread.ts'

/** A value and its source. */
export interface Given {
  raw: unknown
  /** `config.yaml:12` or a variable's name. */
  origin: string
}

/** The content of one source. */
export interface Source {
  /** By key path. */
  values: Map<string, Given>
  problems: ConfigurationProblem[]
  /** False if the source was unreadable: a key may be missing for that reason. */
  complete: boolean
}

type ReadFile = (path: string) => string

export const noSource = (): Source => ({ values: new Map(), problems: [], complete: true })

/** A file with more problems is of another kind. */
const maxProblems = 50

/** Messages by error code. The library's own messages may quote the file, which may hold a key or a passphrase. */
const syntaxWords: Record<string, string> = {
  TAB_AS_INDENT: 'a tab in the indentation: YAML accepts only spaces',
  BAD_INDENT:
    'the indentation does not fit the lines above (keys of one section start in the same column), or a bracket is open',
  BLOCK_AS_IMPLICIT_KEY: 'a second ": " in one line: put the value in quotes, or each key on a line of its own',
  BAD_SCALAR_START: 'the value starts with a character that has a meaning in YAML: put it in quotes',
  UNEXPECTED_TOKEN: 'not understood: put values that start with * & ! % @ or hold ": " or " #" in quotes',
  MISSING_CHAR: 'something is not closed: a quotation mark, a bracket, or a ":" behind a key',
  MULTIPLE_DOCS: 'a second document (---): the file may hold one only',
  RESOURCE_EXHAUSTION: 'nested too deeply',
  NON_STRING_KEY: 'a key must be plain text',
  TAG_RESOLVE_FAILED: 'a tag (!...) is not supported: omit it',
}

interface Walk extends Source {
  keys: readonly string[]
  /** Sections that hold the keys: `retry`, `retry.backoff`. */
  sections: ReadonlySet<string>
  originAt(node: unknown): string
}

function nameOf(key: unknown): string {
  return String(isScalar(key) ? key.value : key)
}

function unknownKey({ keys, sections }: Walk, path: string, name: string, value: unknown): string {
  if (isMap(value) && value.items.some(({ key }) => sections.has(nameOf(key))))
    return 'there is no such section: what is below it belongs to the top of the file'
  const dotted = [path, name].find((written) => keys.includes(written) || sections.has(written))
  if (dotted !== undefined) return `sections are nested: write ${dotted.split('.').join(': and indented below it ')}:`
  const section = path.slice(0, path.length - name.length)
  const known = keys.filter((key) => key.startsWith(section)).map((key) => key.slice(section.length).split('.')[0])
  return `there is no such key; ${section.slice(0, -1) || 'the file'} has ${[...new Set(known)].join(', ')}`
}

/** True for an alias, which would repeat another value. The library's error quotes an undefined one. */
function hasAlias(node: unknown): boolean {
  let found = false
  const note = (): symbol => {
    found = true
    return visit.BREAK
  }
  if (isNode(node)) visit(node, { Alias: note })
  return found
}

function isNothing(node: unknown): boolean {
  return node === null || (isScalar(node) && node.value === null)
}

function takeMap({ items }: YAMLMap, prefix: string, walk: Walk): void {
  const { keys, originAt, problems, sections, values } = walk
  for (const { key: written, value } of items) {
    if (problems.length >= maxProblems) return
    const name = nameOf(written)
    const [path, origin] = [prefix + name, originAt(written)]
    const refuse = (message: string): unknown => problems.push({ key: shownText(path), origin, message })
    const isSection = sections.has(path)
    if (name.includes('.') || !(isSection || keys.includes(path))) refuse(unknownKey(walk, path, name, value))
    else if (isSection && isMap(value)) takeMap(value, `${path}.`, walk)
    else if (hasAlias(value)) {
      refuse('aliases (*name) are not supported: write the value; quote a text that starts with *')
    } else if (isSection) {
      // A section whose keys are all commented out exists, but is empty.
      const example = keys.find((key) => key.startsWith(`${path}.`)) ?? path
      if (!isNothing(value)) refuse(`is a section: it needs keys below it, such as ${example}`)
    } else if (isNothing(value)) {
      refuse("has no value: give one, or remove the key; '' is an empty text and [] an empty list")
    } else values.set(path, { raw: (value as { toJSON(): unknown }).toJSON(), origin })
  }
}

/** Keys repeated in their map: the library's own search takes a minute for 1 MiB. */
function repeatedKeys(document: Document): unknown[] {
  const repeated: unknown[] = []
  visit(document, {
    Map(_, { items }) {
      const seen = new Set<string>()
      for (const { key } of items) {
        const name = nameOf(key)
        if (seen.has(name)) repeated.push(key)
        seen.add(name)
      }
    },
  })
  return repeated
}

/** Unknown keys, repeated keys, aliases and invalid YAML are problems, each with its line. */
function fromYaml(file: string, text: string, keys: readonly Key[]): Source {
  const source = noSource()
  const { problems } = source
  const refuse = (origin: string, message: string): unknown => problems.push({ key: '--config', origin, message })
  const unusable = (origin: string, message: string): Source => {
    refuse(origin, message)
    return { ...source, complete: false }
  }
  const foreign = foreignForm(text)
  if (foreign !== undefined) return unusable(`${file}:${text.slice(0, foreign.at).split('\n').length}`, foreign.message)
  const lineCounter = new LineCounter()
  const document = parseDocument(text, {
    lineCounter,
    prettyErrors: false,
    schema: 'core',
    version: '1.2',
    stringKeys: true,
    uniqueKeys: false,
    strict: true,
    logLevel: 'error',
  })
  const lineAt = (offset: number): string => `${file}:${lineCounter.linePos(offset).line}`
  const told = new Set<string>()
  for (const { code, pos } of [...document.errors, ...document.warnings]) {
    const [origin, message] = [lineAt(pos[0]), syntaxWords[code] ?? `not valid YAML (${code})`]
    if (told.size < maxProblems && !told.has(origin + message)) refuse(origin, message)
    told.add(origin + message)
  }
  // After an error the parsed tree is a guess, and its unknown keys would be noise.
  if (document.errors.length > 0) return { ...source, complete: false }
  const paths = keys.map(({ key }) => key)
  const sections = new Set(paths.flatMap((path) => [...path.matchAll(/\./g)].map(({ index }) => path.slice(0, index))))
  const originAt = (node: unknown): string => {
    const [offset] = (node as { range?: readonly number[] | null } | null)?.range ?? []
    return offset === undefined ? file : lineAt(offset)
  }
  for (const key of repeatedKeys(document).slice(0, maxProblems))
    refuse(originAt(key), 'this key is repeated: keep one')
  const top: unknown = document.contents
  if (isMap(top)) takeMap(top, '', { ...source, keys: paths, sections, originAt })
  else if (!isNothing(top))
    return unusable(file, 'must hold sections with keys, such as platform: with baseUrl: below it')
  return source
}

/** Reads the file that `--config` names. */
export function fileSource(file: string, readFile: ReadFile, keys: readonly Key[]): Source {
  let text: string
  try {
    text = readFile(file)
  } catch (error) {
    return {
      ...noSource(),
      problems: [{ key: '--config', origin: file, message: fileProblem(error) }],
      complete: false,
    }
  }
  return fromYaml(file, text, keys)
}

/** Never the address of a Service: whoever sets these means the daemon's own listener. */
const ownAddress = /^(?:0\.0\.0\.0|127\..*|::1?|localhost)$/

/**
 * Kubernetes gives every container variables for every Service of its namespace. A Service named `reconciler-server` defines
 * RECONCILER_SERVER_PORT=tcp://10.0.0.1:80, which is also the variable of a key. Another team's Service must not keep the
 * daemon from starting, so such variables are ignored.
 * @see https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
 */
function isServiceLink(name: string, value: string): boolean {
  if (name.endsWith('_SERVICE_HOST')) return /^[0-9A-Fa-f.:]+$/.test(value) && !ownAddress.test(value)
  if (/_SERVICE_PORT(?:_[A-Z0-9_]+)?$/.test(name)) return /^\d+$/.test(value)
  if (/_PORT(?:_\d+_(?:TCP|UDP|SCTP))?$/.test(name) && /^(?:tcp|udp|sctp):\/\//.test(value)) return true
  return /_PORT_\d+_(?:TCP|UDP|SCTP)_(?:PROTO|PORT|ADDR)$/.test(name)
}

const emptyMessage = 'is empty: give it a value, or unset the variable'

/** The content of the file that a variable names, or its problem; never the path, which may be the secret itself. */
export function readTwin(path: string, readFile: ReadFile): { raw: string } | { problem: string } {
  if (path === '') return { problem: emptyMessage }
  try {
    const raw = readFile(path).replace(/\r?\n$/, '')
    return raw === '' ? { problem: 'names a file that is empty' } : { raw }
  } catch (error) {
    return { problem: `names a file that ${fileProblem(error)}` }
  }
}

type Variables = Readonly<Record<string, string | undefined>>
type VariableReading = { key: Key } & ({ raw: unknown } | { problem: string })
type ReadVariable = (value: string) => VariableReading

/** The reader of each key's variable. */
function readersOf(env: Variables, readFile: ReadFile, keys: readonly Key[]): Map<string, ReadVariable> {
  const readers = new Map<string, ReadVariable>()
  for (const key of keys) {
    readers.set(key.environment, (value) => {
      const text = key.secret ? value : value.trim()
      // A lost value must not disable a selection or limit, so an empty text counts only if the key accepts it.
      const isLost = text === '' && !key.schema.safeParse('').success
      return { key, ...(isLost ? { problem: emptyMessage } : { raw: key.fromText?.(text) ?? text }) }
    })
    if (key.fileTwin === undefined) continue
    readers.set(key.fileTwin, (value) => {
      const isTwice = env[key.environment] !== undefined
      const twice = { problem: `${key.environment} is set too: unset one of the two` }
      return { key, ...(isTwice ? twice : readTwin(value.trim(), readFile)) }
    })
  }
  return readers
}

/** Variables with our prefix, by name. */
function ownVariables(env: Variables): [name: string, value: string][] {
  return Object.entries(env)
    .flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, value]]))
    .filter(
      ([name, value]) => name.startsWith(environmentPrefix) && name !== fileVariable && !isServiceLink(name, value),
    )
    .sort(([a], [b]) => (a < b ? -1 : 1))
}

/** Values and problems of the environment. */
export function environmentSource(
  { env, readFile }: { env: Variables; readFile: ReadFile },
  keys: readonly Key[],
): Source {
  const source = noSource()
  const readers = readersOf(env, readFile, keys)
  for (const [name, value] of ownVariables(env)) {
    const reading = readers.get(name)?.(value)
    if (reading === undefined) {
      const [, section] = name.split('_')
      const known = [...readers.keys()].filter((other) => other.split('_')[1] === section)
      const message = `there is no such variable${known.length > 0 ? `; of this section there are ${known.join(', ')}` : ''}`
      source.problems.push({ key: shownText(name), origin: 'environment', message })
    } else if ('problem' in reading)
      source.problems.push({ key: reading.key.key, origin: name, message: reading.problem })
    else source.values.set(reading.key.key, { raw: reading.raw, origin: name })
  }
  return source
}
