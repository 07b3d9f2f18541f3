// Runs the tests of one layer on a copy of the repository, in a process of its own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { mutated, type Mutant } from './mutant.ts'

export interface Layer {
  name: string
  /** Folder of test/. */
  folder: string
  /** A run of this many seconds hangs: five times what it takes on two busy cores. */
  timeoutSeconds: number
  /** True where real sockets and processes take part: a failure counts when it comes again. */
  isReal: boolean
  /** True where the tests start the program, so that what they import says nothing: all of them run for each mutant. */
  startsProgram: boolean
}

/** Cheapest first. */
export const layers: readonly Layer[] = [
  { name: 'unit', folder: 'unit', timeoutSeconds: 180, isReal: false, startsProgram: false },
  { name: 'repository', folder: 'repository', timeoutSeconds: 180, isReal: false, startsProgram: false },
  { name: 'daemon', folder: 'daemon', timeoutSeconds: 120, isReal: false, startsProgram: false },
  { name: 'simulation', folder: 'simulation', timeoutSeconds: 240, isReal: false, startsProgram: false },
  { name: 'wire', folder: 'wire', timeoutSeconds: 600, isReal: true, startsProgram: false },
  { name: 'process', folder: 'process', timeoutSeconds: 600, isReal: true, startsProgram: true },
]

export interface Tree {
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

/** Copies the checkout at `root`, which is only read. The copy goes when this process exits. */
export async function copyTree(root: string): Promise<Tree> {
  const folder = await mkdtemp(join(tmpdir(), 'mutants-'))
  const remove = (): void => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  process.once('exit', remove)
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
    async failureIn({ folder: tests, isReal, startsProgram, timeoutSeconds }, { file, patience }) {
      const timeoutMs = timeoutSeconds * 1000 * patience
      const config = `--config=${isReal ? 'vitest.config.ts' : 'vitest.fast.config.ts'}`
      const wanted =
        file === undefined || startsProgram
          ? ['run', `test/${tests}/`]
          : ['related', `src/${file}`, '--run', `--exclude=test/!(${tests})/**`]
      const first = await run([...wanted, config, '--bail=1'], timeoutMs)
      if (first === undefined || !isReal || first.file === '') return first?.what
      return (await run(['run', config, first.file], timeoutMs))?.what
    },
  }
}
