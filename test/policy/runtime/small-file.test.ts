// Small files are read whole; what would block or fill the memory is refused, by its code.
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxTextBytes, readSmallFile, readSmallText } from '../../../src/runtime/small-file.ts'

let folder = ''
const at = (name: string): string => join(folder, name)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'small-file-'))
  execFileSync('mkfifo', [at('pipe')])
  await writeFile(at('text'), 'größer\n')
  await writeFile(at('empty'), '')
  await symlink('text', at('link'))
  await writeFile(at('exact'), Buffer.alloc(maxTextBytes, 'x'))
  await writeFile(at('huge'), '')
  await truncate(at('huge'), 2 ** 40)
})

afterAll(() => rm(folder, { recursive: true }))

const readers: [string, (path: string) => Promise<string>][] = [
  ['readSmallFile', async (path) => (await readSmallFile(path, maxTextBytes)).toString('utf8')],
  ['readSmallText', (path) => Promise.try(readSmallText, path)],
]

describe.each(readers)('%s', (_name, read) => {
  test.each([
    ['text', 'größer\n'],
    ['empty', ''],
    ['link', 'größer\n'],
    ['exact', 'x'.repeat(maxTextBytes)],
  ])('reads: %s', async (name, text) => {
    expect(await read(at(name))).toBe(text)
  })

  test('reads a file of unknown size', async () => {
    expect(await read('/proc/self/status')).toContain('Pid:')
  })

  test.each([
    ['a pipe without a writer', () => at('pipe'), 'NOT_REGULAR'],
    ['a device without end', () => '/dev/zero', 'NOT_REGULAR'],
    ['a directory', () => folder, 'EISDIR'],
    ['a huge file', () => at('huge'), 'TOO_LARGE'],
    ['a file that is not there', () => at('none'), 'ENOENT'],
  ])('refuses %s', async (_what, path, code) => {
    await expect(read(path())).rejects.toMatchObject({ code })
  })
})

test('a file of unknown size that has too much is refused', async () => {
  await expect(readSmallFile('/proc/self/status', 10)).rejects.toMatchObject({ code: 'TOO_LARGE' })
})
