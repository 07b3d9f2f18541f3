// Small files are read whole; what would block or fill the memory is refused, by its code.
import { mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { maxTextBytes, readSmallFile, readSmallText } from '../../../src/runtime/small-file.ts'

let folder = ''
const at = (name: string): string => join(folder, name)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'small-file-'))
  await writeFile(at('text'), 'größer\n')
  await writeFile(at('marked'), '\ufeffgrößer\n')
  await writeFile(at('empty'), '')
  await symlink('text', at('link'))
  await writeFile(at('exact'), Buffer.alloc(maxTextBytes, 'x'))
  await writeFile(at('huge'), '')
  await truncate(at('huge'), 2 ** 40)
})

afterAll(() => rm(folder, { recursive: true }))

test.each([
  ['text', 'größer\n'],
  ['marked', 'größer\n'],
  ['empty', ''],
  ['link', 'größer\n'],
  ['exact', 'x'.repeat(maxTextBytes)],
])('reads: %s', (name, text) => {
  expect(readSmallText(at(name))).toBe(text)
  // Of unknown size.
  expect(readSmallText('/proc/self/status')).toContain('Pid:')
})

test.each([
  ['a device without end', () => '/dev/zero', 'NOT_REGULAR'],
  ['a directory', () => folder, 'EISDIR'],
  ['a huge file', () => at('huge'), 'TOO_LARGE'],
  ['a file that is not there', () => at('none'), 'ENOENT'],
  ['a file of unknown size that has too much', () => '/proc/self/status', 'TOO_LARGE'],
])('refuses %s', (what, path, code) => {
  const maxBytes = what.startsWith('a file of unknown size') ? 10 : maxTextBytes
  expect(() => readSmallFile(path(), maxBytes)).toThrow(expect.objectContaining({ code }))
})
