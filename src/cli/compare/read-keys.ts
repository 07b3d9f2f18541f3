// Reads what the receiver has processed: CSV with or without a header, or NDJSON; one key a line, in any order, repeats allowed.
import { shownText } from '../../config/sources.ts'
import { isUuid } from '../../platform/record.ts'
import { UsageError } from '../../runtime/errors.ts'

/** What the two sides have in common, and the columns or fields that hold it. */
export const keyColumns = {
  entity: ['type', 'entityId'],
  eventId: ['eventId'],
  webhookId: ['webhookId'],
} as const satisfies Record<string, readonly string[]>

export type KeyKind = keyof typeof keyColumns

/** The key of a record, or of a line: the same text for the same thing. */
export function keyOf(parts: readonly string[]): string {
  return parts.join(',').toLowerCase()
}

/** No key is that long. A file without line ends must not fill the memory that `compare` shares with the daemon. */
const maxLineLength = 65_536
/** So many lines that can't be read are named before the command gives up. */
const maxProblems = 5

/** Lines of a text that comes in pieces. */
async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of input) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
    if (rest.length <= maxLineLength) continue
    // The rest counts as another line, and holds no key either.
    yield rest
    rest = ''
  }
  yield rest + decoder.decode()
}

/** The fields of a CSV line (RFC 4180, without line breaks in a field); undefined when its quotes are wrong. */
function fieldsOf(line: string): string[] | undefined {
  if (!line.includes('"')) return line.split(',').map((field) => field.trim())
  const fields: string[] = []
  const field = /\s*(?:"((?:[^"]|"")*)"|([^",]*))\s*(,|$)/y
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

/** How the lines are read, by the first one; `isHeader`: it holds no key itself. */
function readerFor(first: string, kind: KeyKind): { read: ReadLine; isHeader: boolean } {
  const columns: readonly string[] = keyColumns[kind]
  if (first.startsWith('{')) return { read: fromJson(columns), isHeader: false }
  const names = fieldsOf(first)?.map((name) => name.toLowerCase()) ?? []
  const places = columns.map((name) => names.indexOf(name.toLowerCase()))
  const isHeader = places.every((place) => place >= 0)
  const read: ReadLine = (line) => {
    const fields = fieldsOf(line)
    return fields && places.map((place, index) => fields[isHeader ? place : index])
  }
  return { read, isHeader }
}

function isKey(parts: readonly unknown[] | undefined, kind: KeyKind): parts is string[] {
  if (parts?.every((part) => typeof part === 'string' && part !== '') !== true) return false
  return kind === 'entity' ? true : isUuid(parts[0])
}

/**
 * The parts of each line's key. Empty lines are passed over.
 * @throws UsageError with the first lines that hold no key: the books of half a file would be wrong
 */
export async function* readKeys(input: AsyncIterable<Uint8Array>, kind: KeyKind): AsyncGenerator<string[]> {
  let [number, read]: [number, ReadLine | undefined] = [0, undefined]
  const problems: string[] = []
  for await (const raw of linesOf(input)) {
    number += 1
    // An empty line may hold the first half of CRLF.
    const line = raw.trim()
    if (line === '') continue
    if (read === undefined) {
      const reader = readerFor(line, kind)
      read = reader.read
      if (reader.isHeader) continue
    }
    const parts = read(line)
    if (isKey(parts, kind)) yield parts
    else problems.push(`line ${number}: "${shownText(line)}"`)
    if (problems.length >= maxProblems) break
  }
  if (problems.length > 0) {
    const key = `${keyColumns[kind].join(',')}${kind === 'entity' ? '' : ', a UUID'}`
    const forms = `${key}; as CSV with or without a header, or as fields of JSON`
    throw new UsageError(`these lines hold no key (${forms}): ${problems.join('; ')}`)
  }
}
