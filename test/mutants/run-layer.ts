// Runs one layer in a process of its own, in a copy of the repository, and reads what came of it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Invariant } from '../simulation/trace.ts'
import { filesOf, type Layer } from './layers.ts'
import type { Mutant } from './mutant.ts'
import { settled, type Failure, type Outcome, type RunEnd } from './trial.ts'
import type { Tree } from './tree.ts'

/** Seeds in which a mutant made for an invariant must violate it. */
const invariantSeeds = 300
/** The end of what a process said is enough to see why it failed. */
const keptCharacters = 20_000
const testTimeoutMs = 60_000

interface Process {
  args: readonly string[]
  timeoutMs: number
  signal: AbortSignal
}

export interface Ended {
  end: 'exited' | 'hung' | 'stopped'
  /** Exit code; null when a signal ended it. */
  code: number | null
  output: string
}

/** Ends a process with all that it started: they are one group. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // None of them is left.
  }
}

/** Runs Node with these arguments in the copy; all that it leaves behind ends with it. */
export async function runNode(tree: Tree, { args, signal, timeoutMs }: Process): Promise<Ended> {
  if (signal.aborted) return { end: 'stopped', code: null, output: '' }
  const child = spawn(process.execPath, args, {
    cwd: tree.folder,
    // A group of its own, to be ended as one.
    detached: true,
    env: { ...process.env, TMPDIR: tree.scratch, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const keep = (chunk: string): void => {
    output = (output + chunk).slice(-keptCharacters)
  }
  child.stdout.setEncoding('utf8').on('data', keep)
  child.stderr.setEncoding('utf8').on('data', keep)
  let end: Ended['end'] = 'exited'
  const cut = (why: 'hung' | 'stopped'): void => {
    end = why
    killGroup(child.pid)
  }
  const timer = setTimeout(cut, timeoutMs, 'hung')
  const stop = (): void => {
    cut('stopped')
  }
  signal.addEventListener('abort', stop, { once: true })
  try {
    const closed = once(child, 'close')
    const [code] = (await once(child, 'exit')) as [number | null]
    killGroup(child.pid)
    await closed
    return { end, code, output }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

interface TestReport {
  numPassedTests: number
  numFailedTests: number
  testResults: {
    name: string
    status: string
    message: string
    assertionResults: { status: string; ancestorTitles: string[]; title: string; failureMessages: string[] }[]
  }[]
}

function firstLine(text: string): string {
  return (text.trim().split('\n', 1)[0] ?? '').slice(0, 200)
}

/** The tests, and files, that the runner's report shows as failed. */
export function failuresIn(report: TestReport, folder: string): Failure[] {
  return report.testResults.flatMap<Failure>(({ assertionResults, message, name, status }) => {
    const file = relative(folder, name)
    const failed = assertionResults.filter((one) => one.status === 'failed')
    if (failed.length === 0) {
      return status === 'failed' ? [{ file, test: undefined, by: `${file}: ${firstLine(message)}` }] : []
    }
    return failed.map(({ ancestorTitles, failureMessages, title }) => {
      // As the runner's `-t` wants it.
      const test = [...ancestorTitles, title].join(' > ')
      return { file, test, by: `${file}: ${test}: ${firstLine(failureMessages[0] ?? '')}` }
    })
  })
}

async function readReport(path: string): Promise<TestReport | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as TestReport
  } catch {
    // It ended before it wrote one.
    return undefined
  }
}

/** True when a test ran: none does where its name says a port or a time, which is another one now. */
export function ranAny(report: Pick<TestReport, 'numFailedTests' | 'numPassedTests'> | undefined): boolean {
  return report !== undefined && report.numPassedTests + report.numFailedTests > 0
}

/** A text as a regular expression that matches it. */
function literally(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, '\\$&')
}

export interface RunOptions {
  tree: Tree
  signal: AbortSignal
  /** All time limits are multiplied by it. */
  patience: number
  /** Called with a failure that did not come again. */
  unsteady: (by: string) => void
}

interface Told {
  run: RunEnd
  report: TestReport | undefined
}

async function runTests({ patience, tree }: RunOptions, options: Process & { bail?: number }): Promise<Told> {
  const reportPath = join(tree.scratch, 'report.json')
  await rm(reportPath, { force: true })
  const args = [
    join(tree.folder, 'node_modules/vitest/vitest.mjs'),
    ...['run', `--bail=${options.bail ?? 1}`, '--cache=false', `--fsModuleCachePath=${join(tree.folder, '.cache')}`],
    ...['--reporter=json', `--outputFile=${reportPath}`],
    // On a busy machine a test takes long that has nothing to wait for.
    ...[`--testTimeout=${testTimeoutMs * patience}`, ...options.args],
  ]
  const { code, end, output } = await runNode(tree, { ...options, args })
  const report = await readReport(reportPath)
  if (end !== 'exited') return { run: { end }, report }
  if (code === 0) return { run: { end: 'passed' }, report }
  const [first, ...others] = report === undefined ? [] : failuresIn(report, tree.folder)
  if (first !== undefined) return { run: { end: 'failed', failures: [first, ...others] }, report }
  const said = firstLine(output.split('\n').findLast((line) => line.includes('Error')) ?? '')
  const by = `the test runner, exit code ${code ?? 'none'}: ${said}`
  return { run: { end: 'failed', failures: [{ file: '', test: undefined, by }] }, report }
}

/** Runs the test that failed once more, by itself; its whole file where it can't be found by its name. */
async function runAgain({ file, test }: Failure, options: RunOptions, limits: Omit<Process, 'args'>): Promise<RunEnd> {
  if (test !== undefined) {
    const { report, run } = await runTests(options, { ...limits, args: [file, '-t', literally(test)] })
    if (run.end !== 'passed' || ranAny(report)) return run
  }
  return (await runTests(options, { ...limits, args: [file] })).run
}

/** True when the simulation's last failed seed says something of this invariant. */
export function violates(output: string, invariant: Invariant): string | undefined {
  const last = output.split('\n').findLast((line) => /^seed \d+: /.test(line))
  return last?.includes(`"${invariant}"`) === true ? last : undefined
}

/** Scenarios until one violates the invariant that the mutant was made for; others do not count. */
async function simulate(tree: Tree, invariant: Invariant, options: Omit<Process, 'args'>): Promise<Outcome> {
  const args = ['test/simulation/main.ts', '--at-once', '1', '--seeds', String(invariantSeeds), '--until', invariant]
  const { end, output } = await runNode(tree, { ...options, args })
  if (end !== 'exited') return { end }
  const by = violates(output, invariant)
  return by === undefined ? { end: 'passed' } : { end: 'failed', by }
}

/** Runs a layer on the copy as it is; `mutant` is the one that stands in it, if any does. */
export async function runLayer(layer: Layer, mutant: Mutant | undefined, options: RunOptions): Promise<Outcome> {
  const { patience, signal, tree, unsteady } = options
  const timeoutMs = layer.timeoutSeconds * 1000 * patience
  if (layer.name === 'simulation' && mutant?.invariant !== undefined) {
    return simulate(tree, mutant.invariant, { timeoutMs, signal })
  }
  const limits = { timeoutMs, signal }
  const all = async (until: 'first failure' | 'end'): Promise<RunEnd> => {
    const args = filesOf(layer, tree.folder)
    return (await runTests(options, { ...limits, args, bail: until === 'end' ? 0 : 1 })).run
  }
  if (layer.repeats) return settled({ all, again: (failure) => runAgain(failure, options, limits) }, unsteady)
  const run = await all('first failure')
  return run.end === 'failed' ? { end: 'failed', by: run.failures[0].by } : run
}
