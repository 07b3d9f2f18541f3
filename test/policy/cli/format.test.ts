// Tables, short ids, colours and the line of progress: nothing from outside can move the cursor, and narrow terminals stay readable.
import { describe, expect, test } from 'vitest'
import {
  bar,
  cell,
  createPaint,
  createProgressLine,
  createShortIds,
  pairs,
  table,
  wrapped,
} from '../../../src/cli/format.ts'

describe('a table', () => {
  const columns = [{ name: 'count', align: 'right' as const }, { name: 'type' }]
  const rows = [
    ['7', 'a'],
    ['123456', 'bb'],
  ]

  test('is aligned, without spaces at the ends', () => {
    expect(table(columns, rows, undefined)).toBe(' COUNT  TYPE\n     7  a\n123456  bb\n')
  })

  test('that just fits stays one; one that does not becomes a block a row', () => {
    expect(table(columns, rows, 12)).toContain(' COUNT  TYPE\n')
    expect(table(columns, rows, 11)).toBe('count  7\ntype   a\n\ncount  123456\ntype   bb\n')
  })

  test('cuts the columns that may be cut, the widest first, and no further than they may', () => {
    const cut = [{ name: 'id' }, { name: 'type', minWidth: 4 }, { name: 'decision', minWidth: 8 }]
    const row = [['1234', 'a-long-type', 'a-longer-decision']]
    expect(table(cut, row, 26)).toBe('ID    TYPE       DECISION\n1234  a-long-t…  a-longer…\n')
    expect(table(cut, row, 20)).toBe('ID    TYPE  DECISION\n1234  a-l…  a-longe…\n')
    expect(table(cut, row, 19)).toMatch(/^id +1234\n/)
  })

  test('without rows has its head', () => {
    expect(table(columns, [], 80)).toBe('COUNT  TYPE\n')
  })
})

test('a list is broken where the line ends, and goes on under its first item', () => {
  const items = ['aaaa 1', 'bbbb 2', 'cccc 3']
  expect(wrapped('By: ', items)).toBe('By: aaaa 1, bbbb 2, cccc 3\n')
  expect(wrapped('By: ', items, 19)).toBe('By: aaaa 1, bbbb 2,\n    cccc 3\n')
  expect(wrapped('By: ', items, 1)).toBe('By: aaaa 1,\n    bbbb 2,\n    cccc 3\n')
})

test('short ids are as long as they must be to differ', () => {
  const [a, b] = ['0d8e6b1c-5f2a-4c57', '0d8e6b1c-5f2b-4c57']
  expect(createShortIds([a, a], {})(a)).toBe('0d8e6b1c')
  expect(createShortIds([a, b], {})(a)).toBe('0d8e6b1c-5f2a')
  expect(createShortIds([a, b], { [a]: 'payments-eu' })(a)).toBe('payments-eu')
  expect(createShortIds([], {})('')).toBe('-')
})

test.each([
  ['a terminal', true, {}, '\u001b[32mok\u001b[39m'],
  ['NO_COLOR', true, { NO_COLOR: '1' }, 'ok'],
  ['an empty NO_COLOR', true, { NO_COLOR: '' }, '\u001b[32mok\u001b[39m'],
  ['a pipe', undefined, {}, 'ok'],
])('colours with %s', (_name, isTTY, env, shown) => {
  const stream = { write: () => true, isTTY }
  expect(createPaint(stream, env)('green', 'ok')).toBe(shown)
})

test('pairs are aligned', () => {
  expect(
    pairs(
      [
        ['a', '1'],
        ['long', '2'],
      ],
      { indent: '  ' },
    ),
  ).toBe('  a     1\n  long  2\n')
})

test.each([
  ['\u001b[2Jgone', '?[2Jgone'],
  ['a\nb', 'a?b'],
  ['\u202eevil', '?evil'],
  ['', '-'],
  [undefined, '-'],
  [0, '0'],
  ['x'.repeat(100), `${'x'.repeat(60)}...`],
  ['DE89370400440532013000', '[iban]'],
])('a cell of %j is %j', (value, shown) => {
  expect(cell(value)).toBe(shown)
})

describe('progress', () => {
  function terminal(
    isTTY: boolean | undefined,
    columns?: number,
  ): {
    written: () => string
    clock: { at: number; monotonic: () => number }
    progress: ReturnType<typeof createProgressLine>
  } {
    let text = ''
    const clock = { at: 1000, monotonic: () => clock.at }
    const stream = { write: (more: string) => (text += more), isTTY, columns }
    return { written: () => text, clock, progress: createProgressLine(stream, clock) }
  }

  test.each([undefined, false])('writes nothing where there is no terminal (%s), and never makes its text', (isTTY) => {
    const { written, progress } = terminal(isTTY)
    progress.show(() => {
      throw new Error('nobody sees it')
    })
    progress.clear()
    expect(written()).toBe('')
    progress.output.write('a line\n')
    expect(written()).toBe('a line\n')
  })

  test('changes at most ten times a second, and fits the line', () => {
    const { clock, progress, written } = terminal(true, 6)
    progress.show(() => '123456789')
    progress.show(() => 'too soon')
    clock.at += 100
    progress.show(() => 'next')
    expect(written()).toBe('\r\u001b[K12345\r\u001b[Knext')
  })

  test('lines of others go above it, and it is taken away once', () => {
    const { progress, written } = terminal(true)
    progress.show(() => 'working')
    progress.output.write('a line\n')
    progress.clear()
    expect(written()).toBe('\r\u001b[Kworking\r\u001b[Ka line\n')
  })

  test.each([
    [0, '[....]'],
    [0.5, '[##..]'],
    [1, '[####]'],
    [7, '[####]'],
    [-1, '[....]'],
  ])('a bar of %s', (share, shown) => {
    expect(bar(share, 4)).toBe(shown)
  })
})
