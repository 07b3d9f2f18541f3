// `npm run test:mutants`: breaks the daemon in one known place after the other, and shows which layer of tests catches it.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { allMutants } from './all-mutants.ts'
import { filesOf, layerNamed, layers, type Layer } from './layers.ts'
import { mutated, type Mutant } from './mutant.ts'
import { formatRecords, recorded, type Records } from './record.ts'
import { belowTarget, line, lost, shares, table } from './report.ts'
import { runLayer } from './run-layer.ts'
import { drawSample } from './sample.ts'
import { copyTree, type Tree } from './tree.ts'
import { isCatch, layersFor, tryMutant, type Trial } from './trial.ts'

const usage = `npm run test:mutants -- [options]

Breaks a copy of the source in one place after the other, and runs the layers of tests on each:
${layers.map(({ name }) => name).join(', ')}. The first layer that fails, or hangs, has caught the mutant.
Ends with 1 when fewer than --target percent of all mutants are caught. With --only or --sample: when one
survives that test/mutants/record.json has as caught.

  --target PERCENT      share of all mutants that must be caught (default 85)
  --workers N           mutants tried at the same time (default 2)
  --only ID,ID          these mutants
  --layer NAME,NAME     these layers
  --all-layers          every layer tries every mutant, also after it is caught
  --sample MINUTES      mutants drawn by --seed from those that are recorded as caught, for at most so long,
                        each in the layer that caught it, and in the others only when that does not
  --seed TEXT           what decides the sample: the hash of a commit
  --minutes N           stops after so long; what was not tried to the end is reported (default: no end)
  --patience FACTOR     multiplies all time limits: for a machine that has other work to do (default 1)
  --record              writes what came of it into record.json
  --list                prints the mutants
`

const root = join(import.meta.dirname, '../..')
const recordPath = join(import.meta.dirname, 'record.json')

const { values } = parseArgs({
  options: {
    target: { type: 'string', default: '85' },
    workers: { type: 'string', default: '2' },
    only: { type: 'string' },
    layer: { type: 'string' },
    'all-layers': { type: 'boolean', default: false },
    sample: { type: 'string' },
    seed: { type: 'string' },
    minutes: { type: 'string' },
    patience: { type: 'string', default: '1' },
    record: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** @throws Error for what is no positive number */
function positive(option: string, text: string): number {
  const value = Number(text)
  if (!(value > 0)) throw new Error(`--${option} takes a number above 0, not "${text}"`)
  return value
}

/** @throws Error for an id that no mutant has */
function mutantsOf(ids: string): Mutant[] {
  return ids.split(',').map((id) => {
    const mutant = allMutants.find((one) => one.id === id)
    if (mutant === undefined) throw new Error(`--only: there is no mutant "${id}"; --list shows them`)
    return mutant
  })
}

/** All of them, before any is tried: one whose text has moved fails the program at once. */
async function checkThatAllApply(): Promise<void> {
  const problems: string[] = []
  for (const mutant of allMutants) {
    try {
      mutated(await readFile(join(root, 'src', mutant.file), 'utf8'), mutant)
    } catch (error) {
      problems.push(error instanceof Error ? error.message : String(error))
    }
  }
  if (problems.length > 0) throw new Error(problems.join('\n'))
}

interface Work {
  mutants: readonly Mutant[]
  layers: readonly Layer[]
  records: Records
  signal: AbortSignal
  patience: number
}

function unsteady(by: string): void {
  print(`    failed once, and not again: ${by}`)
}

/** A layer that fails on the source as it is would catch every mutant. @throws Error when one does */
async function checkUnbroken(tree: Tree, { layers: wanted, patience, signal }: Work): Promise<void> {
  for (const layer of wanted) {
    const startedAt = performance.now()
    const outcome = await runLayer(layer, undefined, { tree, signal, patience, unsteady })
    print(`unbroken: ${layer.name} ${outcome.end} (${((performance.now() - startedAt) / 1000).toFixed(0)} s)`)
    if (!isCatch(outcome)) continue
    const by = outcome.end === 'failed' ? outcome.by : 'it hangs'
    throw new Error(`layer ${layer.name} fails without any mutant: ${by}`)
  }
}

async function tryIn(tree: Tree, mutant: Mutant, work: Work): Promise<Trial> {
  const { patience, records, signal } = work
  const mend = await tree.apply(mutant)
  try {
    // A sample asks whether what was caught still is.
    const first = values.sample === undefined ? undefined : (records[mutant.id]?.layer ?? undefined)
    return await tryMutant(mutant, {
      layers: layersFor(mutant, work.layers, first),
      allLayers: values['all-layers'],
      run: (layer) => runLayer(layer, mutant, { tree, signal, patience, unsteady }),
      now: () => performance.now(),
    })
  } finally {
    await mend()
  }
}

/** The trials, in the order of the mutants. */
async function tryAll(trees: readonly Tree[], work: Work): Promise<Trial[]> {
  const trials = new Map<string, Trial>()
  const ahead = work.mutants.values()
  async function worker(tree: Tree): Promise<void> {
    for (const mutant of ahead) {
      const trial = work.signal.aborted ? { mutant, tried: [] } : await tryIn(tree, mutant, work)
      trials.set(mutant.id, trial)
      if (trial.tried.length > 0) print(line(trial))
    }
  }
  await Promise.all(trees.map(worker))
  return work.mutants.flatMap(({ id }) => trials.get(id) ?? [])
}

/** Ends when it is interrupted, or its time is over; then the copies go, and what was found is reported. */
function endOfTime(minutes: number | undefined): AbortController {
  const ended = new AbortController()
  const end = (): void => {
    ended.abort()
  }
  process.once('SIGINT', end).once('SIGTERM', end)
  if (minutes !== undefined) setTimeout(end, minutes * 60_000).unref()
  return ended
}

function chosen(records: Records, workers: number): readonly Mutant[] {
  if (values.only !== undefined) return mutantsOf(values.only)
  if (values.sample === undefined) return allMutants
  if (values.seed === undefined) throw new Error('--sample takes a --seed, such as the hash of the commit')
  const budgetSeconds = positive('sample', values.sample) * 60 * workers
  return drawSample(allMutants, { seed: values.seed, budgetSeconds, records })
}

async function run(workers: number, work: Work): Promise<Trial[]> {
  await using copies = new AsyncDisposableStack()
  const trees: Tree[] = []
  for (let made = 0; made < Math.min(workers, work.mutants.length); made += 1) {
    trees.push(copies.use(await copyTree(root)))
  }
  const [first] = trees
  if (first !== undefined && work.mutants === allMutants) await checkUnbroken(first, work)
  return await tryAll(trees, work)
}

async function main(): Promise<void> {
  if (values.help) {
    print(usage)
    return
  }
  await checkThatAllApply()
  const records = JSON.parse(await readFile(recordPath, 'utf8')) as Records
  const workers = Math.ceil(positive('workers', values.workers))
  const target = positive('target', values.target)
  const minutes = values.minutes ?? values.sample
  const mutants = chosen(records, workers)
  const wanted = values.layer === undefined ? layers : values.layer.split(',').map(layerNamed)
  for (const layer of wanted) filesOf(layer, root)
  if (values.list || values.sample !== undefined) {
    print(mutants.map(({ breaks, file, id }) => `${id} ${file}: ${breaks}`).join('\n'))
    print(
      `${mutants.length} of ${allMutants.length} mutants${values.sample === undefined ? '' : ` drawn by ${values.seed ?? ''}`}\n`,
    )
    if (values.list) return
  }

  const ended = endOfTime(minutes === undefined ? undefined : positive('minutes', minutes))
  const patience = positive('patience', values.patience)
  const trials = await run(workers, { mutants, layers: wanted, records, signal: ended.signal, patience })
  const names = wanted.map(({ name }) => name)
  print(`\n${table(trials, names)}\n\n${shares(trials, names)}`)
  if (values.record) await writeFile(recordPath, formatRecords(recorded(records, trials, allMutants)))
  const problems = mutants === allMutants ? belowTarget(trials, target) : lost(trials, records)
  for (const problem of problems) print(problem)
  process.exitCode = problems.length > 0 ? 1 : 0
}

await main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 2
})
