// Tables for terminals: aligned columns, or one block a row where they would not fit. Pure functions.
import { shownText } from '../config/layer.ts'

export interface Column {
  name: string
  /** Default `left`. */
  align?: 'left' | 'right'
}

/** A cell fit for a terminal: no control characters, no secrets, not long; `-` for nothing. */
export function cell(value: string | number | undefined): string {
  if (value === undefined || value === '') return '-'
  return shownText(String(value))
}

function aligned(columns: readonly Column[], rows: readonly (readonly string[])[], widths: readonly number[]): string {
  const line = (cells: readonly string[]): string =>
    cells
      .map((text, index) => {
        const width = widths[index] ?? 0
        return columns[index]?.align === 'right' ? text.padStart(width) : text.padEnd(width)
      })
      .join('  ')
      .trimEnd()
  return [columns.map(({ name }) => name.toUpperCase()), ...rows].map((cells) => `${line(cells)}\n`).join('')
}

function stacked(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const width = Math.max(...columns.map(({ name }) => name.length))
  const block = (cells: readonly string[]): string =>
    cells.map((text, index) => `${(columns[index]?.name ?? '').padEnd(width)}  ${text}\n`).join('')
  return rows.map(block).join('\n')
}

/** `width` is that of the terminal in characters; undefined: there is none, and lines may be as long as they are. */
export function table(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number | undefined,
): string {
  const widths = columns.map(({ name }, index) =>
    Math.max(name.length, ...rows.map((cells) => cells[index]?.length ?? 0)),
  )
  const whole = widths.reduce((sum, one) => sum + one + 2, -2)
  return width !== undefined && whole > width ? stacked(columns, rows) : aligned(columns, rows, widths)
}

/** Names and values, one pair a line. */
export function pairs(list: readonly (readonly [name: string, value: string])[], indent = ''): string {
  const width = Math.max(...list.map(([name]) => name.length))
  return list.map(([name, value]) => `${indent}${name.padEnd(width)}  ${value}\n`).join('')
}
