// Tables, colours and the line of progress: nothing from outside can move the cursor, and narrow terminals stay readable.
import { describe, expect, test } from 'vitest'
import { cell, createProgress, paragraph, table, type TableColumn } from '../../../src/cli/format.ts'

describe('a table', () => {
  type Row = readonly string[]
  const column = (index: number, more: Omit<TableColumn<Row>, 'of'>): TableColumn<Row> => ({
    ...more,
    of: (row) => row[index] ?? '',
  })
  const columns = [column(0, { name: 'count', align: 'right' }), column(1, { name: 'type' })]
  const rows = [
    ['7', 'a'],
    ['123456', 'bb'],
  ]

  test('that just fits stays one; one that does not becomes a block a row', () => {
    expect(table(columns, rows, { width: 12 })).toContain(' COUNT  TYPE\n')
    expect(table(columns, rows, { width: 11 })).toBe('count  7\ntype   a\n\ncount  123456\ntype   bb\n')
  })

  test('cuts the columns that may be cut, the last first, and no further than they may', () => {
    const cut = [
      column(0, { name: 'id' }),
      column(1, { name: 'type', minWidth: 4 }),
      column(2, { name: 'decision', minWidth: 8 }),
    ]
    const row = [['1234', 'a-long-type', 'a-longer-decision']]
    expect(table(cut, row, { width: 26 })).toBe('ID    TYPE        DECISION\n1234  a-long-ty…  a-longe…\n')
    expect(table(cut, row, { width: 20 })).toBe('ID    TYPE  DECISION\n1234  a-l…  a-longe…\n')
    expect(table(cut, row, { width: 19 })).toMatch(/^id +1234\n/)
    const optional = [column(0, { name: 'id', minWidth: 1 }), column(1, { name: 'type', isOptional: true })]
    expect(table(optional, row, { width: 9 })).toBe('ID\n1234\n')
  })

  test('without rows has its head, and says how many it does not show', () => {
    expect(table(columns, [], { width: 80 })).toBe('COUNT  TYPE\n')
    expect(table(columns, rows, { max: 1 })).toMatch(/\n {4}7 {2}a\n\.\.\. and 1 more: --json lists them\n$/)
    expect(table(columns, rows, { total: 2000, rest: '--records' })).toMatch(/and 1,998 more: --records lists them\n$/)
  })
})

test('a text is broken where the line ends, and goes on under its beginning', () => {
  expect(paragraph('aaaa bbbb cccc', undefined, 'By: ')).toBe('By: aaaa bbbb cccc\n')
  expect(paragraph('aaaa bbbb cccc', 13, 'By: ')).toBe('By: aaaa bbbb\n    cccc\n')
  expect(paragraph('aaaa bbbb', 1, 'By: ', 1)).toBe('By: aaaa\n bbbb\n')
})

test.each([
  ['\u001b[2Jgone', '?[2Jgone'],
  ['a\nb', 'a?b'],
  ['\u202eevil', '?evil'],
  ['', '-'],
  [undefined, '-'],
  [0, '0'],
  ['x'.repeat(100), 'x'.repeat(100)],
  ['DE89370400440532013000', '[iban]'],
])('a cell of %j is %j', (value, shown) => {
  expect(cell(value)).toBe(shown)
})

test('the line of progress changes at most ten times a second, fits, and is taken away once, below the lines of others', () => {
  let written = ''
  const clock = { at: 1000, monotonic: () => clock.at }
  const write = (more: string): unknown => (written += more)
  const terminal = { write, isTTY: true, columns: 6 }
  const { clear, progress, stderr, stdout } = createProgress({
    stdout: { write },
    stderr: terminal,
    clock: clock as never,
  })
  progress(() => '123456789')
  progress(() => 'too soon')
  clock.at += 100
  progress(() => 'next')
  expect(written).toBe('\r\u001b[K12345\r\u001b[Knext')
  for (const output of [stdout, stderr]) {
    written = ''
    output.write('a line\n')
    clear()
    expect(written).toBe('\r\u001b[Ka line\n')
    clock.at += 100
    progress(() => 'next')
  }
  expect([stderr.isTTY, stderr.columns, stdout.isTTY]).toEqual([true, 6, undefined])
})
