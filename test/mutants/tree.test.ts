// The copy in which a mutant is made, and the processes that run in it: nothing of either remains.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Mutant } from './mutant.ts'
import { runNode } from './run-layer.ts'
import { copyTree, type Tree } from './tree.ts'

const source = "import { two } from './two.ts'\n\nexport const three: number = two + 1\n"
const mutant: Mutant = {
  id: 'T01',
  file: 'area/three.ts',
  text: 'two + 1',
  replacement: 'two - 1',
  breaks: 'counts down',
  origin: 'review',
}

let root = ''
let tree: Tree

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'checkout-'))
  for (const folder of ['src/area', 'node_modules/package', 'dist', '.git']) {
    mkdirSync(join(root, folder), { recursive: true })
  }
  writeFileSync(join(root, 'src/main.ts'), "import { three } from './area/three.ts'\n\nprocess.exitCode = three\n")
  writeFileSync(join(root, 'src/area/three.ts'), source)
  writeFileSync(join(root, 'src/area/two.ts'), 'export const two = 2\n')
  writeFileSync(join(root, 'package.json'), '{ "type": "module" }\n')
  writeFileSync(join(root, 'dist/stale.js'), '')
  tree = await copyTree(root)
})
afterAll(async () => {
  await tree[Symbol.asyncDispose]()
  rmSync(root, { recursive: true, force: true })
})

const inTree = (path: string): string => readFileSync(join(tree.folder, path), 'utf8')

describe('the copy', () => {
  test('has the source, the packages, and a dist of its own', () => {
    expect(inTree('src/area/three.ts')).toBe(source)
    expect(inTree('dist/start.cjs')).toContain('three = 3')
    expect(existsSync(join(tree.folder, 'node_modules/package'))).toBe(true)
    for (const path of ['.git', 'dist/stale.js']) expect(existsSync(join(tree.folder, path))).toBe(false)
  })

  test('is broken and mended, in src and in dist, while the checkout stays as it is', async () => {
    const mend = await tree.apply(mutant)
    expect(inTree('src/area/three.ts')).toContain('two - 1')
    expect(inTree('dist/start.cjs')).toContain('three = 1')
    expect(readFileSync(join(root, 'src/area/three.ts'), 'utf8')).toBe(source)
    await mend()
    expect(inTree('src/area/three.ts')).toBe(source)
    expect(inTree('dist/start.cjs')).toContain('three = 3')
  })

  test('has a whole program at each moment of a build: a new one takes its place in one step', async () => {
    const changes: string[] = []
    const watcher = watch(join(tree.folder, 'dist'), (kind, file) => {
      if (file === 'start.cjs') changes.push(kind)
    })
    onTestFinished(() => {
      watcher.close()
    })
    const mend = await tree.apply(mutant)
    await mend()
    await expect.poll(() => changes).toEqual(['rename', 'rename'])
  })

  test('stays whole when a mutant does not apply', async () => {
    await expect(tree.apply({ ...mutant, text: 'no such text' })).rejects.toThrow(/stands there 0 times/)
    expect(inTree('src/area/three.ts')).toBe(source)
  })

  test('goes when it is no longer needed', async () => {
    const other = await copyTree(root)
    expect(existsSync(other.folder)).toBe(true)
    await other[Symbol.asyncDispose]()
    expect(existsSync(other.folder)).toBe(false)
    expect(existsSync(join(root, 'node_modules/package'))).toBe(true)
  })
})

describe('a process in the copy', () => {
  const never = new AbortController().signal
  const run = (code: string, timeoutMs: number, signal = never): ReturnType<typeof runNode> =>
    runNode(tree, { args: ['-e', code], timeoutMs, signal })

  test('says its exit code and what it said', async () => {
    const code = "process.stdout.write(process.cwd()); process.stderr.write(' err'); process.exitCode = 3"
    expect(await run(code, 20_000)).toEqual({ end: 'exited', code: 3, output: `${tree.folder} err` })
  })

  test.each([
    ['turns for ever', 'for (;;);'],
    ['waits for ever', 'setInterval(() => undefined, 1000)'],
  ])('that %s is ended, and hangs', async (_, code) => {
    expect(await run(code, 500)).toMatchObject({ end: 'hung', code: null })
  })

  test('ends when it is no longer wanted, also before it began', async () => {
    const ended = new AbortController()
    const running = run('for (;;);', 20_000, ended.signal)
    ended.abort()
    expect(await running).toMatchObject({ end: 'stopped' })
    expect(await run('for (;;);', 20_000, ended.signal)).toMatchObject({ end: 'stopped' })
  })

  test('takes those that it started with it', async () => {
    // The one that is left holds the output open: this ends only when it is gone.
    const code = `
      const { spawn } = require('node:child_process')
      spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'inherit' }).unref()
    `
    expect(await run(code, 20_000)).toMatchObject({ end: 'exited', code: 0 })
  })
})
