// Text for terminals: results, tables that fit the width, colours, and a progress line.
import { styleText } from 'node:util'
import { prefixed } from '../ops/words.ts'
import { count } from '../runtime/counted.ts'
import { redact, redactedJson, visibleText } from '../runtime/redact.ts'
import type { CommandFlags } from './flags.ts'
import type { Io, Output, ProcessIo } from './io.ts'

/** Prints a command's result, redacted. */
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
  align?: 'left' | 'right'
  /** Minimum width when truncated; undefined: never truncated. */
  minWidth?: number
  /** Omitted if not all columns fit. */
  isOptional?: boolean
  of(row: Row): string
}

/** Makes a value safe for a terminal, on one line: no control characters, no secrets; `-` if absent. */
export function cell(value: string | number | undefined): string {
  if (value === undefined || value === '') return '-'
  return visibleText(String(value)).replaceAll('\n', '?')
}

/** The first columns of each table of records. */
export const recordColumns: readonly TableColumn<{ webhookId: string; eventType: string }>[] = [
  { name: 'webhook', of: ({ webhookId }) => cell(webhookId) },
  { name: 'event type', minWidth: 6, of: ({ eventType }) => cell(eventType) },
]

/** A column's cells, headed by its name in capitals, and its width. */
interface FilledColumn extends Omit<TableColumn<never>, 'of'> {
  cells: readonly string[]
  width: number
}

const gap = '  '

function wholeWidth(columns: readonly FilledColumn[]): number {
  return columns.reduce((sum, { width }) => sum + width + gap.length, -gap.length)
}

/** Narrows the last truncatable column first. */
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
  /** Width of the terminal; undefined without one: lines have any length. */
  width?: number | undefined
  /** Number of rows to show. Default: all. */
  max?: number
  /** Number of rows in all, if not all are given. */
  total?: number
  /** The flag that shows the rest. */
  rest?: '--json' | '--records'
}

/** Aligned columns, or a block per row if they do not fit. */
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

/** One line per name and value; omits names without a value. */
export function pairs(
  list: readonly (readonly [name: string, value: string | undefined])[],
  { indent = '', width }: { indent?: string; width?: number | undefined } = {},
): string {
  const shown = list.filter((pair): pair is [string, string] => pair[1] !== undefined)
  const nameWidth = Math.max(...shown.map(([name]) => name.length))
  return shown.map(([name, value]) => paragraph(value, width, `${indent}${name.padEnd(nameWidth)}  `)).join('')
}

/** The width of lines, and `server.commandPrefix`. */
export interface TextShown {
  commandPrefix: string
  width: number | undefined
}

/** One paragraph for each text. */
export function paragraphs(texts: readonly (string | false)[], { commandPrefix, width }: TextShown): string {
  return texts.map((text) => (text === false ? '' : paragraph(prefixed(text, commandPrefix), width))).join('')
}

/** A text after a label, wrapped at the width; continuation lines are indented like the label. */
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

/** Terminal width of an output; undefined if unknown. */
export function widthOf({ columns = 0, isTTY }: Output): number | undefined {
  return isTTY === true && columns > 0 ? columns : undefined
}

export type Colour = 'green' | 'yellow' | 'red' | 'dim' | 'bold'

export type Paint = (colour: Colour, text: string) => string

/** Colours on a terminal unless `NO_COLOR` is set. */
export function createPaint({ isTTY }: Output, env: Readonly<Record<string, string | undefined>>): Paint {
  const isColoured = isTTY === true && (env['NO_COLOR'] ?? '') === ''
  return (colour, text) => (isColoured ? styleText(colour, text, { validateStream: false }) : text)
}

const minBetweenMs = 100
const defaultColumns = 80
const takeAway = '\r\u001b[K'

/**
 * A line on stderr that changes during long work; nothing without a terminal. What is written to one of the streams removes it
 * first. `clear` removes it at the end.
 */
export function createProgress({
  clock,
  stderr,
  stdout,
}: Pick<ProcessIo, 'clock' | 'stderr' | 'stdout'>): Pick<Io, 'progress' | 'stderr' | 'stdout'> & { clear(): void } {
  let shownAt = -Infinity
  let isStanding = false

  function clear(): void {
    if (isStanding) stderr.write(takeAway)
    isStanding = false
  }

  function above(output: Output): Output {
    const write = (...given: [text: string]): unknown => {
      clear()
      // A log also gives a callback.
      return output.write(...given)
    }
    return Object.create(output, { write: { value: write } }) as Output
  }

  return {
    progress(text) {
      const now = clock.monotonic()
      if (stderr.isTTY !== true || now - shownAt < minBetweenMs) return
      shownAt = now
      isStanding = true
      stderr.write(takeAway + text().slice(0, (stderr.columns ?? defaultColumns) - 1))
    },
    stdout: above(stdout),
    stderr: above(stderr),
    clear,
  }
}
