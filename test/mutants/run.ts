// Runs the tests of one layer on a copy of the repository, in a process of its own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { mutated, type Mutant } from './mutant.ts'

export interface Layer {
  name: string
  /** Folders of test/. */
  folders: readonly string[]
  /** A run of this many seconds hangs: five times what it takes on two busy cores. */
  timeoutSeconds: number
  /** True where real sockets and processes take part: all its tests run, and a failure counts when it comes again. */
  isReal: boolean
}

/** Cheapest first. The first three run only the files that import the broken source, directly or not. */
export const layers: readonly Layer[] = [
  { name: 'unit', folders: ['policy'], timeoutSeconds: 180, isReal: false },
  { name: 'daemon', folders: ['daemon'], timeoutSeconds: 120, isReal: false },
  { name: 'simulation', folders: ['simulation'], timeoutSeconds: 240, isReal: false },
  { name: 'boundary', folders: ['contract', 'wire', 'process'], timeoutSeconds: 1200, isReal: true },
]

export interface Tree extends AsyncDisposable {
  /** Breaks the copy. Resolves to what mends it. */
  apply(mutant: Mutant): Promise<() => Promise<void>>
  /** What the tests of a layer say of the copy as it is: undefined when they pass, else what failed. */
  failureIn(layer: Layer, options: RunOptions): Promise<string | undefined>
}

export interface RunOptions {
  /** Only what imports this file of src/; undefined for all tests of the layer. */
  file: string | undefined
  /** All time limits are multiplied by it. */
  patience: number
}

interface TestReport {
  testResults: {
    name: string
    status: string
    message: string
    assertionResults: { status: string; fullName: string; failureMessages: string[] }[]
  }[]
}

/** Parts of a checkout that are none of the source. */
const leftOut = new Set(['.git', 'coverage', 'dist', 'node_modules', 'test-artifacts'])

/** Runs Node in its own process group, and ends what it leaves behind. Resolves to the exit code, or undefined for a hang. */
async function runNode(folder: string, args: readonly string[], timeoutMs: number): Promise<number | undefined> {
  const env = { ...process.env, TMPDIR: join(folder, 'scratch'), NO_COLOR: '1' }
  const child = spawn(process.execPath, args, { cwd: folder, detached: true, env, stdio: 'ignore' })
  const killGroup = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // None of them is left.
    }
  }
  const timer = setTimeout(killGroup, timeoutMs)
  process.once('exit', killGroup)
  try {
    const [code] = (await once(child, 'exit')) as [number | null]
    return code ?? undefined
  } finally {
    clearTimeout(timer)
    process.off('exit', killGroup)
    killGroup()
  }
}

interface Failure {
  file: string
  what: string
}

function firstFailure({ testResults }: TestReport, folder: string): Failure | undefined {
  const failed = testResults.find(({ status }) => status === 'failed')
  if (failed === undefined) return undefined
  const file = relative(folder, failed.name)
  const test = failed.assertionResults.find(({ status }) => status === 'failed')
  const [said = ''] = (test?.failureMessages[0] ?? failed.message).trim().split('\n', 1)
  return { file, what: `${file}: ${test?.fullName ?? ''}: ${said.slice(0, 200)}` }
}

/** Copies the checkout at `root`, which is only read. */
export async function copyTree(root: string): Promise<Tree> {
  const folder = await mkdtemp(join(tmpdir(), 'mutants-'))
  const filter = (path: string): boolean => !leftOut.has(relative(root, path).split('/')[0] ?? '')
  await cp(root, folder, { recursive: true, filter })
  // Packages stay where they are: no test writes there, and the runner's cache is sent elsewhere.
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await mkdir(join(folder, 'scratch'))

  async function run(args: readonly string[], timeoutMs: number): Promise<Failure | undefined> {
    const report = join(folder, 'scratch/report.json')
    await rm(report, { force: true })
    const runner = join(folder, 'node_modules/vitest/vitest.mjs')
    const cache = ['--cache=false', `--fsModuleCachePath=${join(folder, '.cache')}`]
    const code = await runNode(
      folder,
      [runner, ...args, ...cache, '--reporter=json', `--outputFile=${report}`],
      timeoutMs,
    )
    if (code === undefined) return { file: '', what: 'a hang' }
    if (code === 0) return undefined
    const text = await readFile(report, 'utf8').catch(() => '{ "testResults": [] }')
    return (
      firstFailure(JSON.parse(text) as TestReport, folder) ?? { file: '', what: `the test runner, exit code ${code}` }
    )
  }

  return {
    async apply(mutant) {
      const path = join(folder, 'src', mutant.file)
      const source = await readFile(path, 'utf8')
      await writeFile(path, mutated(source, mutant))
      return () => writeFile(path, source)
    },
    async failureIn(layer, { file, patience }) {
      const timeoutMs = layer.timeoutSeconds * 1000 * patience
      const folders = layer.folders.map((name) => `test/${name}/`)
      if (!layer.isReal && file !== undefined) {
        const others = ['repository', ...layers.flatMap(({ folders: names }) => names)].filter(
          (name) => !layer.folders.includes(name),
        )
        const excluded = others.map((name) => `--exclude=test/${name}/**`)
        const failure = await run(
          ['related', `src/${file}`, '--run', '--config=vitest.fast.config.ts', '--bail=1', ...excluded],
          timeoutMs,
        )
        return failure?.what
      }
      const config = layer.isReal ? 'vitest.config.ts' : 'vitest.fast.config.ts'
      const first = await run(['run', `--config=${config}`, '--bail=1', ...folders], timeoutMs)
      if (first === undefined || !layer.isReal || first.file === '') return first?.what
      return (await run(['run', `--config=${config}`, first.file], timeoutMs))?.what
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
  }
}
