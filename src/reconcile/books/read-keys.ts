// Reads the keys that the receiver has processed: CSV with or without a header, or NDJSON; one key per line, in any order, repetition allowed.
import { hash } from 'node:crypto'
import { shownText } from '../../runtime/redact.ts'
import { isUuid } from '../../runtime/uuid.ts'
import { UsageError } from '../../runtime/errors.ts'

/** The key that both sides share, and the columns or fields that hold it. */
const keyColumns = {
  entity: ['type', 'entityId'],
  eventId: ['eventId'],
  webhookId: ['webhookId'],
} as const satisfies Record<string, readonly string[]>

export type KeyKind = keyof typeof keyColumns

/** A longer part of a key is truncated and hashed, so that a list of differences does not fill memory. */
const maxPartLength = 512

/** Normalizes a part of a key. Idempotent. */
export function keyPart(text: string): string {
  const lower = text.toLowerCase()
  if (lower.length <= maxPartLength) return lower
  // A slice would keep the whole text in memory.
  return `${Buffer.from(lower.slice(0, 64)).toString()}...sha256:${hash('sha256', lower, 'hex')}`
}

/** Joins the parts of a key. */
export function keyOf(parts: readonly string[]): string {
  return parts.map(keyPart).join(',')
}

/** A file without line breaks must not fill the memory that `compare` shares with the daemon. */
const maxLineLength = 1_048_576
/** Maximum number of unreadable lines in a message. */
const maxProblems = 5
/** Maximum number of lines of a quoted field: an unclosed quote must not swallow the file. */
const maxLinesOfRow = 16

/** Lines of a stream, ended by LF, CRLF or CR. */
async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of input) {
    const text = rest + decoder.decode(piece, { stream: true })
    // A CR at the end may be the first half of CRLF.
    const held = text.endsWith('\r') ? '\r' : ''
    const lines = text.slice(0, text.length - held.length).split(/\r\n|\n|\r/)
    rest = (lines.pop() ?? '') + held
    yield* lines
    if (rest.length <= maxLineLength) continue
    // The rest counts as a further line, which also holds no key.
    yield rest
    rest = ''
  }
  yield* (rest + decoder.decode()).split('\r')
}

/** The rows of a file: in CSV, a quoted field may have line breaks. Each row has the number of its first line. */
async function* rowsOf(lines: AsyncIterable<string>): AsyncGenerator<{ row: string; number: number }> {
  let [number, from, count, row, isJson]: [number, number, number, string, boolean | undefined] = [
    0,
    1,
    0,
    '',
    undefined,
  ]
  for await (const line of lines) {
    number += 1
    if (count === 0) from = number
    row = count === 0 ? line : `${row}\n${line}`
    count += 1
    if (row.trim() === '') {
      count = 0
      continue
    }
    isJson ??= /^\s*[{[]/.test(row)
    const isOpen = !isJson && row.includes('"') && row.split('"').length % 2 === 0
    if (isOpen && count < maxLinesOfRow && row.length <= maxLineLength) continue
    yield { row: row.trim(), number: from }
    count = 0
  }
  if (count > 0) yield { row: row.trim(), number: from }
}

/** The fields of a CSV line (RFC 4180); undefined if its quotes are wrong. */
function fieldsOf(line: string): string[] | undefined {
  if (!line.includes('"')) return line.split(',').map((field) => field.trim())
  const fields: string[] = []
  // No two neighbours match the same spaces: a padded column with a wrong quote would otherwise block the daemon for minutes.
  const field = /(?:\s*"((?:[^"]|"")*)"\s*|([^",]*))(,|$)/y
  for (;;) {
    const match = field.exec(line)
    if (match === null) return undefined
    fields.push(match[1]?.replaceAll('""', '"') ?? match[2]?.trim() ?? '')
    if (match[3] === '') return fields
  }
}

type ReadLine = (line: string) => readonly unknown[] | undefined

function fromJson(columns: readonly string[]): ReadLine {
  return (line) => {
    try {
      const row = JSON.parse(line) as Readonly<Record<string, unknown>> | null
      return columns.map((name) => row?.[name])
    } catch {
      return undefined
    }
  }
}

const separators: Readonly<Record<string, string>> = { ';': 'semicolons', '\t': 'tabs', '|': '"|"' }

/** An event type, as it is or in capitals; unknown ones may exist. A name in camel case is a program's own. */
const isType = (text: string): boolean => /^(?:[a-z\d][a-z\d_.-]*|[A-Z\d][A-Z\d_.-]*)$/.test(text)
/** A type of several words, as all known ones are: without a header, a single word may be a column's name. */
const isSurelyType = (text: string): boolean => isType(text) && text.includes('-')

function refuse(found: string, kind: KeyKind): never {
  const names = keyColumns[kind].join(',')
  throw new UsageError(
    `${found}: keys are UTF-8, as CSV with commas and the header ${names}, or without a header ` +
      `${kind === 'entity' ? 'TYPE,ENTITY_ID' : 'one UUID'} a line, or NDJSON with these fields`,
  )
}

/** Detects by the first row why a file is unreadable. */
function checkFirst(first: string, kind: KeyKind): void {
  if (first.startsWith('PK\u0003')) refuse('it is a ZIP archive, as .xlsx is (save it as "CSV UTF-8")', kind)
  if (first.startsWith('<')) refuse('it is a page of HTML or XML', kind)
  if (first.startsWith('\u001F\uFFFD')) refuse('it is compressed (gunzip it first)', kind)
  const text = first.replace(/^\uFFFD+/, '')
  if (text.includes('\0')) refuse(`it is UTF-16${text.startsWith('\0') ? 'BE' : 'LE'}`, kind)
  if (first.startsWith('[')) refuse('it is one JSON array (jq -c ".[]" makes lines of it)', kind)
}

/** Chooses a reader by the first row; `isHeader`: that row holds no key. */
function readerFor(first: string, kind: KeyKind): { read: ReadLine; isHeader: boolean } {
  checkFirst(first, kind)
  const columns: readonly string[] = keyColumns[kind]
  if (first.startsWith('{')) return { read: fromJson(columns), isHeader: false }
  const names = fieldsOf(first)?.map((name) => name.toLowerCase()) ?? []
  const places = columns.map((name) => names.indexOf(name.toLowerCase()))
  const isHeader = places.every((place) => place >= 0)
  const twice = columns.find((name, index) => isHeader && names.lastIndexOf(name.toLowerCase()) !== places[index])
  if (twice !== undefined) refuse(`its header has ${twice} twice`, kind)
  const [key = ''] = names
  const isKeyRow = kind === 'entity' ? isSurelyType(key) && !/^event-?type$/.test(key) && names.length > 1 : isUuid(key)
  if (!isHeader && !isKeyRow) {
    const separator = Object.keys(separators).find((one) => first.includes(one))
    const by = separator === undefined ? '' : `, separated by ${separators[separator] ?? ''}`
    const shown = fieldsOf(first)?.slice(0, 10).join(', ') ?? first
    refuse(`its first line is a header that is not understood${by}, with the columns "${shownText(shown)}"`, kind)
  }
  const read: ReadLine = (line) => {
    const fields = fieldsOf(line)
    return fields && places.map((place, index) => fields[isHeader ? place : index])
  }
  return { read, isHeader }
}

/** Other line breaks, control characters, and invalid UTF-8: two lines would become one key. */
const notInKeys = /[\u0000-\u001F\u0085\u2028\u2029\uFFFD]/

function isKey(parts: readonly unknown[] | undefined, kind: KeyKind): parts is string[] {
  if (parts?.every((part) => typeof part === 'string' && part !== '' && !notInKeys.test(part)) !== true) return false
  return kind === 'entity' ? isType(String(parts[0])) : isUuid(parts[0])
}

/**
 * The parts of each row's key, from a stream of bytes. Empty lines are skipped.
 * @throws UsageError for input without a key unless it may be empty, and for rows without a key: the books of half a file would
 * be wrong
 */
export async function* readKeys(
  input: AsyncIterable<Uint8Array>,
  kind: KeyKind,
  { mayBeEmpty = false } = {},
): AsyncGenerator<string[]> {
  let [read, isEmpty]: [ReadLine | undefined, boolean] = [undefined, true]
  const problems: string[] = []
  for await (const { row, number } of rowsOf(linesOf(input))) {
    if (read === undefined) {
      const reader = readerFor(row, kind)
      read = reader.read
      if (reader.isHeader) continue
    }
    const parts = read(row)
    isEmpty = false
    const isCut = row.length > maxLineLength
    const fault = isCut ? 'longer than 1 MiB, ' : row.includes('\uFFFD') ? 'not UTF-8, ' : ''
    if (!isCut && isKey(parts, kind)) yield parts
    else problems.push(`line ${number}: ${fault}"${shownText(row)}"`)
    if (problems.length >= maxProblems) break
  }
  if (problems.length > 0) {
    const key = `${keyColumns[kind].join(',')}${kind === 'entity' ? '' : ', a UUID'}`
    const forms = `${key}; as CSV with or without a header, or as fields of JSON`
    throw new UsageError(`these lines hold no key (${forms}): ${problems.join('; ')}`)
  }
  if (isEmpty && !mayBeEmpty) refuse('it holds no key', kind)
}
