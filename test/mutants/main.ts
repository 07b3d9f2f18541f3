// `npm run test:mutants`: breaks a copy of the program in one place after the other, and shows which layer of tests notices.
import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { drawMutants } from './draw.ts'
import { formatMutant, mutated, parseMutants, type Mutant } from './mutant.ts'
import { copyTree, layers, type Layer, type Tree } from './run.ts'

const usage = `npm run test:mutants -- [options]

Tries mutants drawn from the source, each in one layer of tests after the other until one fails or hangs. Ends with 1
when fewer than --floor percent are caught.

  --draw N --seed TEXT   so many, drawn by this seed (default: 40)
  --under FOLDER         draws them below this folder of src/
  --fresh FILE           instead: the mutants of this file, in the form in which they are printed
  --layers NAME,NAME     of ${layers.map(({ name }) => name).join(', ')} (default: all)
  --floor PERCENT        share that must be caught (default: 100)
  --workers N            mutants tried at the same time (default: 2)
  --patience FACTOR      multiplies all time limits, for a machine that has other work to do (default: 1)
  --list                 only prints the mutants
`

const root = join(import.meta.dirname, '../..')

const { values } = parseArgs({
  options: {
    draw: { type: 'string', default: '40' },
    seed: { type: 'string', default: '' },
    under: { type: 'string', default: '' },
    fresh: { type: 'string' },
    layers: { type: 'string', default: layers.map(({ name }) => name).join() },
    floor: { type: 'string', default: '100' },
    workers: { type: 'string', default: '2' },
    patience: { type: 'string', default: '1' },
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

interface Trial {
  mutant: Mutant
  /** Undefined for a survivor. */
  caughtIn: string | undefined
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

function layerNamed(name: string): Layer {
  const layer = layers.find((one) => one.name === name)
  if (layer === undefined) throw new Error(`--layers: there is no layer "${name}"; --help names them`)
  return layer
}

async function chosen(): Promise<Mutant[]> {
  if (values.fresh !== undefined) return parseMutants(await readFile(values.fresh, 'utf8'))
  const src = join(root, 'src')
  const paths = globSync(join(src, values.under, '**/*.ts')).sort()
  const sources = paths.map(async (path) => ({ file: relative(src, path), text: await readFile(path, 'utf8') }))
  return drawMutants(await Promise.all(sources), values.seed, Number(values.draw))
}

async function tryMutant(tree: Tree, mutant: Mutant, wanted: readonly Layer[]): Promise<Trial> {
  const mend = await tree.apply(mutant)
  try {
    for (const layer of wanted) {
      const failure = await tree.failureIn(layer, { file: mutant.file, patience: Number(values.patience) })
      if (failure === undefined) continue
      print(`${formatMutant(mutant)}\n# caught in ${layer.name} by ${failure}\n`)
      return { mutant, caughtIn: layer.name }
    }
    print(`${formatMutant(mutant)}\n# SURVIVES ${values.layers}\n`)
    return { mutant, caughtIn: undefined }
  } finally {
    await mend()
  }
}

/** A layer that fails on the source as it is would catch every mutant. @throws Error when one does */
async function checkUnbroken(tree: Tree, wanted: readonly Layer[]): Promise<void> {
  for (const layer of wanted) {
    const failure = await tree.failureIn(layer, { file: undefined, patience: Number(values.patience) })
    if (failure !== undefined) throw new Error(`layer ${layer.name} fails without any mutant: ${failure}`)
  }
}

async function tryAll(mutants: readonly Mutant[], wanted: readonly Layer[]): Promise<Trial[]> {
  const trials: Trial[] = []
  const ahead = mutants.values()
  async function work(tree: Tree): Promise<void> {
    for (const mutant of ahead) trials.push(await tryMutant(tree, mutant, wanted))
  }
  const trees: Tree[] = []
  for (let made = 0; made < Number(values.workers); made += 1) trees.push(await copyTree(root))
  const [first] = trees
  if (first !== undefined) await checkUnbroken(first, wanted)
  await Promise.all(trees.map(work))
  return trials
}

function share(name: string, trials: readonly Trial[]): string {
  const caught = trials.filter(({ caughtIn }) => caughtIn !== undefined).length
  return `${name}: ${caught} of ${trials.length} caught (${Math.floor((100 * caught) / trials.length)} %)`
}

function report(trials: readonly Trial[], wanted: readonly Layer[]): void {
  const survivors = trials.filter(({ caughtIn }) => caughtIn === undefined)
  if (survivors.length > 0)
    print(`# Survivors\n\n${survivors.map(({ mutant }) => formatMutant(mutant)).join('\n\n')}\n`)
  const folderOf = ({ mutant: { file } }: Trial): string => (file.includes('/') ? (file.split('/', 1)[0] ?? '') : '')
  const byFolder = Object.entries(Object.groupBy(trials, folderOf)).toSorted()
  for (const [folder, own = []] of byFolder) print(share(`src/${folder}`, own))
  for (const { name } of wanted)
    print(`first caught in ${name}: ${trials.filter(({ caughtIn }) => caughtIn === name).length}`)
  print(share('all', trials))
  process.exitCode = 100 * survivors.length > (100 - Number(values.floor)) * trials.length ? 1 : 0
}

async function main(): Promise<void> {
  // What runs, and the copies, go on exit.
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130))
  if (values.help) {
    print(usage)
    return
  }
  const mutants = await chosen()
  const wanted = values.layers.split(',').map(layerNamed)
  // All of them, before any is tried: one whose text has moved fails the program at once.
  for (const mutant of mutants) mutated(await readFile(join(root, 'src', mutant.file), 'utf8'), mutant)
  if (values.list) print(mutants.map(formatMutant).join('\n\n'))
  else report(await tryAll(mutants, wanted), wanted)
}

await main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 2
})
