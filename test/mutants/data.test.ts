// The mutants as data: each applies to the source as it is today, and the record speaks of them.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { allMutants } from './all-mutants.ts'
import { filesOf, layers } from './layers.ts'
import { areaOf, mutated, MutantError, type Mutant } from './mutant.ts'
import { formatRecords, type Records } from './record.ts'

const root = join(import.meta.dirname, '../..')
const recordText = readFileSync(join(import.meta.dirname, 'record.json'), 'utf8')

const mutant: Mutant = {
  id: 'T01',
  file: 'reconcile/rest.ts',
  text: 'a < b',
  replacement: 'a > b',
  breaks: 'rests at the wrong time',
  origin: 'fresh',
}

test('a mutant replaces its text, and nothing else', () => {
  expect(mutated('const x = a < b\nconst y = b < c\n', mutant)).toBe('const x = a > b\nconst y = b < c\n')
})

test('what a replacement holds is taken as it is', () => {
  const replacement = "'$& $1 $$'"
  expect(mutated('const x = a < b', { ...mutant, replacement })).toBe(`const x = ${replacement}`)
})

test.each([
  ['text that is not there', 'const x = a <= b', {}, /stands there 0 times, not once/],
  ['text that is there twice', 'const x = a < b && a < b', {}, /stands there 2 times, not once/],
  ['text that remains', 'const x = a < b', { replacement: 'a < b' }, /it changes nothing/],
  ['a replacement that is no TypeScript', 'const x = a < b', { replacement: 'a >' }, /it leaves no TypeScript/],
])('%s fails, and the message names the mutant', (_, source, change, problem) => {
  const apply = (): string => mutated(source, { ...mutant, ...change })
  expect(apply).toThrow(MutantError)
  expect(apply).toThrow(problem)
  expect(apply).toThrow(/mutant T01 .* src\/reconcile\/rest\.ts/)
})

test.each(allMutants)('$id applies to src/$file', (each) => {
  const source = readFileSync(join(root, 'src', each.file), 'utf8')
  expect(mutated(source, each)).not.toBe(source)
})

test('no id stands for two mutants, and each is a letter and a number', () => {
  const ids = allMutants.map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.filter((id) => !/^[A-Z]\d{2,}$/.test(id))).toEqual([])
})

test('no two mutants are the same change', () => {
  const changes = allMutants.map(({ file, text, replacement }) => JSON.stringify([file, text, replacement]))
  expect(new Set(changes).size).toBe(changes.length)
})

test('the mutants of the simulation name the invariant that they violate, and only these', () => {
  const odd = allMutants.filter(({ invariant, origin }) => (origin === 'invariant') !== (invariant !== undefined))
  expect(odd).toEqual([])
})

test('the record speaks of mutants and layers that there are, in the form in which it is written', () => {
  const records = JSON.parse(recordText) as Records
  const names = layers.map(({ name }) => name)
  expect(Object.keys(records).filter((id) => !allMutants.some((one) => one.id === id))).toEqual([])
  expect(Object.values(records).filter(({ layer }) => layer !== null && !names.includes(layer))).toEqual([])
  expect(recordText).toBe(formatRecords(records))
})

test.each(layers)('the layer $name has files, and none of another layer', (layer) => {
  const files = filesOf(layer, root)
  const others = layers.filter((other) => other !== layer).flatMap((other) => filesOf(other, root))
  expect(files.filter((file) => others.includes(file))).toEqual([])
})

test('a layer whose files have moved is an error', () => {
  const [layer] = layers
  if (layer === undefined) throw new Error('there are no layers')
  expect(() => filesOf({ ...layer, files: ['test/nowhere/*.test.ts'] }, root)).toThrow(
    `layer ${layer.name}: no file matches test/nowhere/*.test.ts`,
  )
})

test.each([
  ['reconcile/decide.ts', 'reconcile'],
  ['reconciler.ts', 'root'],
])('src/%s belongs to the area %s', (file, area) => {
  expect(areaOf({ file })).toBe(area)
})
