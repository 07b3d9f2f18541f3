// The program with the code cache that the image has: V8 takes it, and a file that was changed or a cache that was damaged is compiled.
import { cp, readFile, readdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, afterAll, describe, expect, test } from 'vitest'
import { writeCodeCache } from '../../tools/image/code-cache.ts'
import { makeFolder, mainScript, runProgram, type Folder } from '../support/process.ts'

const dist = join(mainScript, '..')
/** As many as the image's `run` loads. */
const files = ['config.cjs', 'daemon.cjs', 'program.cjs', 'rolldown-runtime.cjs', 'start.cjs']

let folder: Folder
let cached: string
let hook: string

beforeAll(async () => {
  folder = await makeFolder()
  cached = join(folder.path, 'cached')
  await cp(dist, cached, { recursive: true })
  await writeCodeCache(cached)
  hook = await folder.write(
    'rejected.mjs',
    `import vm from 'node:vm'
     const { Script } = vm
     vm.Script = function (source, options) {
       const script = new Script(source, options)
       console.error(options.filename.split('/').at(-1), script.cachedDataRejected)
       return script
     }`,
  )
})

afterAll(() => folder[Symbol.asyncDispose]())

/** A copy of its own for a test that changes files. */
async function copy(name: string): Promise<string> {
  const path = join(folder.path, name)
  await cp(cached, path, { recursive: true })
  return path
}

/** `plan --speed` is refused with 2 by the command line, after the command line's part was loaded. */
async function refused(path: string): Promise<{ code: number | null; loaded: string[] }> {
  const { code, stderr } = await runProgram(['plan', '--speed'], {
    script: join(path, 'main.cjs'),
    nodeArgs: ['--import', hook],
  })
  return { code, loaded: stderr.split('\n').filter((line) => /\.cjs (?:true|false|undefined)$/.test(line)) }
}

describe.concurrent('code cache', () => {
  test('one of each file that the daemon loads', async () => {
    const made = (await readdir(cached)).filter((name) => name.endsWith('.code'))
    expect(made.sort()).toEqual(files.map((name) => `${name}.code`))
  })

  test('V8 takes the code of each file', async () => {
    const { code, stderr } = await runProgram(['run'], {
      script: join(cached, 'main.cjs'),
      nodeArgs: ['--import', hook],
    })
    expect(code).toBe(78)
    for (const file of files) expect(stderr).toContain(`${file} false\n`)
  })

  test('without one the program runs the same', async () => {
    expect(await refused(dist)).toEqual({
      code: 2,
      loaded: ['start.cjs undefined', 'rolldown-runtime.cjs undefined', 'program.cjs undefined'],
    })
  })

  test('a file that was changed without a change of its length runs as it is now', async () => {
    const path = await copy('changed')
    const file = join(path, 'program.cjs')
    const text = await readFile(file, 'utf8')
    expect(text).toContain('usage: 2,')
    await writeFile(file, text.replace('usage: 2,', 'usage: 3,'))
    expect(await refused(path)).toEqual({
      code: 3,
      loaded: ['start.cjs false', 'rolldown-runtime.cjs false', 'program.cjs undefined'],
    })
  })

  test.each([
    ['empty', 0],
    ['cut in its digest', 16],
    ['cut after its digest', 32],
    ['cut in its code', 5000],
  ])('a cache that is %s', async (name, length) => {
    const path = await copy(name)
    await truncate(join(path, 'program.cjs.code'), length)
    expect((await refused(path)).code).toBe(2)
  })

  test('of another version of V8: it says no, and compiles', async () => {
    const path = await copy('other version')
    const file = join(path, 'program.cjs.code')
    const bytes = await readFile(file)
    // Behind the digest: the magic number, then the version's hash.
    bytes.writeUInt32LE((bytes.readUInt32LE(36) + 1) >>> 0, 36)
    await writeFile(file, bytes)
    expect(await refused(path)).toEqual({
      code: 2,
      loaded: ['start.cjs false', 'rolldown-runtime.cjs false', 'program.cjs true'],
    })
  })
})

test('the bundle is ASCII: one character beyond it makes V8 keep a file in two bytes a character', async () => {
  const names = (await readdir(dist)).filter((name) => name.endsWith('.cjs'))
  expect(names).toEqual(expect.arrayContaining(files))
  for (const name of names) expect(await readFile(join(dist, name), 'latin1'), name).not.toMatch(/[^\0-\x7f]/)
})
