// Text for terminals: answers, tables that fit the width, short ids, colours, and one line of progress.
import { styleText } from 'node:util'
import type { Clock } from '../runtime/clock.ts'
import { count, prefixed, type SubscriptionNames } from '../ops/words.ts'
import { redact, redactedJson, shownText } from '../runtime/redact.ts'
import type { CommandFlags } from './flags.ts'
import type { Output } from './io.ts'

/** Prints the result of a command, redacted. */
export function print(
  output: Output,
  { json }: Pick<CommandFlags, 'json'>,
  document: object,
  text: () => string,
): void {
  output.write(json === true ? `${redactedJson(document, 2)}\n` : redact(text()))
}

export interface TableColumn<Row> {
  name: string
  /** Default `left`. */
  align?: 'left' | 'right'
  /** May be cut to fit the width, down to this many characters. Default: it may not. */
  minWidth?: number
  /** Left out where not all columns fit. */
  isOptional?: boolean
  of(row: Row): string
}

/** A cell fit for a terminal: no control characters, no secrets, not long; `-` for nothing. */
export function cell(value: string | number | undefined): string {
  if (value === undefined || value === '') return '-'
  return shownText(String(value))
}

/** A column with its cells, the name in capitals first, and the width that it takes. */
interface FilledColumn extends Omit<TableColumn<never>, 'of'> {
  cells: readonly string[]
  width: number
}

const gap = '  '

function wholeWidth(columns: readonly FilledColumn[]): number {
  return columns.reduce((sum, { width }) => sum + width + gap.length, -gap.length)
}

/** Where the whole is too wide, the last column that may be cut gives way first. */
function fit(columns: readonly FilledColumn[], width: number): void {
  for (let excess = wholeWidth(columns) - width; excess > 0; excess -= 1) {
    const last = columns.findLast((column) => column.width > (column.minWidth ?? Infinity))
    if (last === undefined) return
    last.width -= 1
  }
}

function aligned(columns: readonly FilledColumn[], line: number): string {
  const cells = columns.map(({ align, cells, width }) => {
    const text = cells[line] ?? ''
    const fitted = text.length > width ? `${text.slice(0, width - 1)}…` : text
    return align === 'right' ? fitted.padStart(width) : fitted.padEnd(width)
  })
  return `${cells.join(gap).trimEnd()}\n`
}

export interface TableShown {
  /** Of the terminal in characters; undefined without one: then lines have any length. */
  width?: number | undefined
  /** Shows so many rows. Default: all. */
  max?: number
  /** How many there are, where not all are given. */
  total?: number
  /** The flag that shows the rest. */
  rest?: '--json' | '--records'
}

/** Aligned columns; one block a row where they do not fit. */
export function table<Row>(
  columns: readonly TableColumn<Row>[],
  rows: readonly Row[],
  { max = Infinity, rest = '--json', total = rows.length, width = Infinity }: TableShown = {},
): string {
  const shown = rows.slice(0, max)
  const more = total > shown.length ? `... and ${count(total - shown.length)} more: ${rest} lists them\n` : ''
  const all = columns.map((column): FilledColumn => {
    const cells = [column.name.toUpperCase(), ...shown.map((row) => column.of(row))]
    return { ...column, cells, width: Math.max(...cells.map(({ length }) => length)) }
  })
  const filled = wholeWidth(all) > width ? all.filter(({ isOptional }) => isOptional !== true) : all
  fit(filled, width)
  if (wholeWidth(filled) <= width) {
    return [undefined, ...shown].map((_, line) => aligned(filled, line)).join('') + more
  }
  const block = (_: Row, index: number): string =>
    pairs(filled.map(({ cells, name }) => [name, cells[index + 1] ?? '']))
  return shown.map(block).join('\n') + more
}

/** Names and values, each pair on a line of its own; a name without a value is left out. */
export function pairs(
  list: readonly (readonly [name: string, value: string | undefined])[],
  { indent = '', width }: { indent?: string; width?: number | undefined } = {},
): string {
  const shown = list.filter((pair): pair is [string, string] => pair[1] !== undefined)
  const nameWidth = Math.max(...shown.map(([name]) => name.length))
  return shown.map(([name, value]) => paragraph(value, width, `${indent}${name.padEnd(nameWidth)}  `)).join('')
}

/** The width of lines, and `server.commandPrefix`, which stands before each command in them. */
export interface TextShown {
  commandPrefix: string
  width: number | undefined
}

/** The texts that hold, each a paragraph. */
export function paragraphs(texts: readonly (string | false)[], { commandPrefix, width }: TextShown): string {
  return texts.map((text) => (text === false ? '' : paragraph(prefixed(text, commandPrefix), width))).join('')
}

/** A text behind a label, broken between words where lines have a width; further lines are indented as far as the label. */
export function paragraph(text: string, width = Infinity, label = '', indent = label.length): string {
  const [first = '', ...words] = text.split(' ')
  let [lines, line] = ['', label + first]
  for (const word of words) {
    if (line.length + 1 + word.length <= width) line += ` ${word}`
    else {
      lines += `${line.trimEnd()}\n`
      line = ' '.repeat(indent) + word
    }
  }
  return `${lines}${line}\n`
}

/** Width of the terminal behind an output; undefined without one, or for one that does not tell it. */
export function widthOf({ columns = 0, isTTY }: Output): number | undefined {
  return isTTY === true && columns > 0 ? columns : undefined
}

const minIdLength = 8

/** Names, else the beginnings of ids, as long as needed to be unique: `0d8e6b1c`. */
export function createShortIds(ids: Iterable<string>, names: SubscriptionNames): (id: string) => string {
  const all = [...new Set(ids)]
  const longest = Math.max(minIdLength, ...all.map((id) => id.length))
  let length = minIdLength
  while (length < longest && new Set(all.map((id) => id.slice(0, length))).size < all.length) length += 1
  return (id) => cell(names[id] ?? id.slice(0, length))
}

export type Colour = 'green' | 'yellow' | 'red' | 'dim' | 'bold'

export type Paint = (colour: Colour, text: string) => string

/** Colours where the output is a terminal and `NO_COLOR` is not set. */
export function createPaint({ isTTY }: Output, env: Readonly<Record<string, string | undefined>>): Paint {
  const isColoured = isTTY === true && (env['NO_COLOR'] ?? '') === ''
  return (colour, text) => (isColoured ? styleText(colour, text, { validateStream: false }) : text)
}

/** One line on a terminal's stderr that changes while something long goes on; nothing at all without a terminal. */
export interface ProgressLine {
  /** Shows this in place of the text before. The text is made only when it is shown. */
  show(text: () => string): void
  /** Takes the line away. */
  clear(): void
  /** The same stream for whole lines of others, which go above the line. */
  output: Output
}

const minBetweenMs = 100
const defaultColumns = 80
const takeAway = '\r\u001b[K'

export function createProgressLine(stream: Output, clock: Pick<Clock, 'monotonic'>): ProgressLine {
  let shownAt = -Infinity
  let isStanding = false

  function clear(): void {
    if (isStanding) stream.write(takeAway)
    isStanding = false
  }

  return {
    show(text) {
      const now = clock.monotonic()
      if (stream.isTTY !== true || now - shownAt < minBetweenMs) return
      shownAt = now
      isStanding = true
      stream.write(takeAway + text().slice(0, (stream.columns ?? defaultColumns) - 1))
    },
    clear,
    output: {
      write(text) {
        clear()
        return stream.write(text)
      },
      isTTY: stream.isTTY,
      columns: stream.columns,
    },
  }
}
