// A list of mutants is read as it is printed, and the operators draw what they say.
import { expect, test } from 'vitest'
import { drawMutants } from './draw.ts'
import { formatMutant, mutated, parseMutants } from './mutant.ts'

test.each([
  ['a text that is not there', 'if (a > b) run()', /stands there 0 times, not once/],
  ['a text that is there twice', 'if (a < b) run(a < b)', /stands there 2 times, not once/],
  ['a source that is no TypeScript afterwards', '(a < b) run(', /it leaves no TypeScript/],
])('%s is an error that shows the mutant', (_, source, problem) => {
  const mutant = { file: 'a.ts', text: 'a < b', replacement: 'a > b', breaks: 'runs at the wrong time' }
  expect(() => mutated(source, mutant)).toThrow(problem)
  expect(() => mutated(source, mutant)).toThrow(/src\/a\.ts.*\na\.ts: runs at the wrong time\n-a < b\n\+a > b/)
})

test('an entry that is no mutant is an error', () => {
  expect(() => parseMutants('a.ts: lacks its old lines\n+new\n')).toThrow(/this is no mutant.*\na\.ts: lacks its old/)
})

test.each([
  ['if (a) run()', ['if (!(a)) run()', 'if (a) ;', ';']],
  ['while (a) run()', ['while (!(a)) run()', 'while (a) ;']],
  ['const x = a && b', ['const x = a', 'const x = b']],
  ['const x = a || b', ['const x = a', 'const x = b']],
  ['const x = a < b', ['const x = a <= b']],
  ['const x = a >= 5_000', ['const x = a > 5_000', 'const x = a >= 2500']],
  ['const x = a ? b : c', ['const x = a ? c : b']],
  ['if (a) { b() } else c()', ['if (a) { ; } else c()', 'if (a) { b() } else ;', 'if (a) {c()} else { b() }']],
  ['const x = await a()', ['const x = a()']],
  ['async function f() { return await a() }', []],
  ['type A = 60 | 80', []],
])('of %j the operators make %j', (text, changed) => {
  const drawn = drawMutants([{ file: 'a.ts', text }], 'seed', 10)
  expect(drawn.map(({ replacement }) => replacement).sort()).toEqual(changed.sort())
})

test('a draw is the same for a seed, in the form of a list, and a change elsewhere leaves it as it is', () => {
  const lines = Array.from({ length: 40 }, (_, index) => `run(${index})`)
  const draw = (text: string, seed: string): string =>
    drawMutants([{ file: 'a.ts', text }], seed, 5)
      .map(formatMutant)
      .join('\n\n')
  const drawn = draw(lines.join('\n'), 'one')
  expect(parseMutants(drawn)).toHaveLength(5)
  expect(draw(`const first = 0\n${lines.join('\n')}`, 'one')).toBe(drawn)
  expect(draw(lines.join('\n'), 'two')).not.toBe(drawn)
})
