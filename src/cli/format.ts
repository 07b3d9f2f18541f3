// Text for terminals: tables that fit the width, times in one stated zone, spans, short ids, colours, and one line of progress.
import { styleText } from 'node:util'
import { parseDuration } from '../config/duration.ts'
import { shownText } from '../config/sources.ts'
import type { Clock } from '../runtime/clock.ts'
import type { SubscriptionNames } from '../ops/words.ts'
import { UsageError } from '../runtime/errors.ts'
import type { Output } from './io.ts'

export interface TableColumn {
  name: string
  /** Default `left`. */
  align?: 'left' | 'right'
  /** May be cut to fit the width, down to this many characters. Default: it may not. */
  minWidth?: number
  /** Left out where not all columns fit. */
  isOptional?: boolean
}

/** A cell fit for a terminal: no control characters, no secrets, not long; `-` for nothing. */
export function cell(value: string | number | undefined): string {
  if (value === undefined || value === '') return '-'
  return shownText(String(value))
}

type Rows = readonly (readonly string[])[]

const gap = '  '

function wholeWidth(widths: readonly number[]): number {
  return widths.reduce((sum, one) => sum + one + gap.length, -gap.length)
}

function fullWidths(columns: readonly TableColumn[], rows: Rows): number[] {
  return columns.map(({ name }, index) => Math.max(name.length, ...rows.map((cells) => cells[index]?.length ?? 0)))
}

/** The widths of all columns: where the whole is too wide, the widest column that may be cut gives way first. */
function fittedWidths(columns: readonly TableColumn[], rows: Rows, width: number): number[] {
  const widths = fullWidths(columns, rows)
  let excess = wholeWidth(widths) - width
  while (excess > 0) {
    const spare = columns.map(({ minWidth }, index) =>
      minWidth !== undefined && (widths[index] ?? 0) > minWidth ? (widths[index] ?? 0) : 0,
    )
    const widest = spare.indexOf(Math.max(...spare))
    if ((spare[widest] ?? 0) === 0) break
    widths[widest] = (widths[widest] ?? 0) - 1
    excess -= 1
  }
  return widths
}

function aligned(columns: readonly TableColumn[], rows: Rows, widths: readonly number[]): string {
  const fit = (text: string, width: number): string => (text.length > width ? `${text.slice(0, width - 1)}…` : text)
  const line = (cells: readonly string[]): string =>
    cells
      .map((text, index) => {
        const width = widths[index] ?? 0
        const fitted = fit(text, width)
        return columns[index]?.align === 'right' ? fitted.padStart(width) : fitted.padEnd(width)
      })
      .join(gap)
      .trimEnd()
  return [columns.map(({ name }) => name.toUpperCase()), ...rows].map((cells) => `${line(cells)}\n`).join('')
}

function stacked(columns: readonly TableColumn[], rows: Rows): string {
  return rows.map((cells) => pairs(cells.map((text, index) => [columns[index]?.name ?? '', text]))).join('\n')
}

/**
 * Aligned columns; one block a row where they do not fit.
 * @param width of the terminal in characters; undefined without one: then lines have any length
 */
export function table(columns: readonly TableColumn[], rows: Rows, width = Infinity): string {
  if (wholeWidth(fullWidths(columns, rows)) > width && columns.some(({ isOptional }) => isOptional)) {
    const isNeeded = (_: unknown, index: number): boolean => columns[index]?.isOptional !== true
    const needed = rows.map((cells) => cells.filter(isNeeded))
    return table(columns.filter(isNeeded), needed, width)
  }
  const widths = fittedWidths(columns, rows, width)
  return wholeWidth(widths) > width ? stacked(columns, rows) : aligned(columns, rows, widths)
}

/** Names and values, each pair on a line of its own. */
export function pairs(
  list: readonly (readonly [name: string, value: string])[],
  { indent = '', width }: { indent?: string; width?: number | undefined } = {},
): string {
  const nameWidth = Math.max(...list.map(([name]) => name.length))
  return list.map(([name, value]) => paragraph(value, width, `${indent}${name.padEnd(nameWidth)}  `)).join('')
}

/** A label and items, broken into lines of `width`; further lines are indented as far as the label, or as given. */
export function wrapped(
  label: string,
  items: readonly string[],
  width = Infinity,
  { indent = label.length, separator = ', ' } = {},
): string {
  const lines: string[] = []
  let line = label
  items.forEach((item, index) => {
    const text = index < items.length - 1 ? item + separator : item
    if (index > 0 && line.length + text.trimEnd().length > width) {
      lines.push(line.trimEnd())
      line = ' '.repeat(indent)
    }
    line += text
  })
  return [...lines, line].map((one) => `${one}\n`).join('')
}

/** A text behind a label, broken between words. */
export function paragraph(text: string, width?: number, label = ''): string {
  return wrapped(label, text.split(' '), width, { separator: ' ' })
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

/** The reading of a local time that daylight saving repeats: the earlier for a beginning, the later for an end. */
export type Edge = 'earlier' | 'later'

export interface Moments {
  /** IANA name of the zone. */
  zone: string
  /** `2026-01-02T03:04:05Z`, or with the zone's offset; `-` for undefined and for an impossible time. Epoch ms. */
  show(ms: number | undefined): string
  /**
   * Epoch ms of an option's value: a moment with its zone (`2026-01-02T03:04:05Z`), a local one in the zone
   * (`2026-01-02T03:04`, `2026-01-02`), or how long before `now` (`6h`).
   * @throws UsageError that names the option
   */
  parse(text: string, about: { option: string; now: number; edge: Edge }): number
}

/** A time of day, then `Z` or an offset. */
const hasOffset = /[Tt ][^[]*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)(?:\[|$)/

/** @throws UsageError for an unknown zone */
export function createMoments(zone: string): Moments {
  const name = zoneNamed(zone)

  function read(text: string, now: number, edge: Edge): number {
    const before = parseDuration(text)
    if (before !== undefined) return now - before
    if (hasOffset.test(text)) return Temporal.Instant.from(text).epochMilliseconds
    return Temporal.PlainDateTime.from(text).toZonedDateTime(name, { disambiguation: edge }).epochMilliseconds
  }

  return {
    zone: name,
    show(ms) {
      if (ms === undefined || !(Math.abs(ms) <= 8.64e15)) return '-'
      const at = Temporal.Instant.fromEpochMilliseconds(Math.floor(ms)).toZonedDateTimeISO(name)
      const local = at.toPlainDateTime().toString({ smallestUnit: 'second' })
      return local + (name === 'UTC' ? 'Z' : at.offset)
    },
    parse(text, { option, now, edge }) {
      try {
        return read(text, now, edge)
      } catch {
        throw new UsageError(
          `${option}: a moment such as 2026-01-02T03:04:05Z or 2026-01-02T03:04 (in ${name}), or how long ago, such as 6h; ` +
            `not "${shownText(text)}"`,
        )
      }
    },
  }
}

function zoneNamed(zone: string): string {
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(zone).timeZoneId
  } catch {
    throw new UsageError(`--zone: an IANA time zone such as UTC or Europe/Berlin, not "${shownText(zone)}"`)
  }
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

/** `[######··············]` for a share of 0 to 1. */
export function bar(share: number, width = 20): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * width)
  return `[${'#'.repeat(full)}${'.'.repeat(width - full)}]`
}
