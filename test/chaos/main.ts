// `npm run chaos`: rounds of kill -9, freeze, SIGTERM and network faults in the middle of a recovery, by real processes.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pLimit from 'p-limit'
import { setup } from '../support/build.ts'
import { describeRound, drawRound, faultKinds } from './plan.ts'
import { playRound, type RoundResult } from './round.ts'

const usage = `npm run chaos -- [--rounds N] [--from S] [--records R]   plays the rounds of seeds S to S+N-1 (default: 300 from 1)
npm run chaos -- --seed S [--records R]                  plays one

Each round recovers R failed records (default: 2000). What is drawn is the same for each seed; how the processes
meet it is up to the machine. --at-once N (default: 3) plays so many rounds side by side.
`
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '300' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    records: { type: 'string', default: '2000' },
    'at-once': { type: 'string', default: '3' },
    help: { type: 'boolean', default: false },
  },
})

/** Rounds that are sure to have drawn every fault. */
const enoughRounds = 20
/** Problems of one round that are printed. */
const shownProblems = 10

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

function printRound(seed: number, result: RoundResult): void {
  const plan = drawRound(seed, Number(values.records))
  const { daemons, late, outputs, exhausted, problems, recovered, retries, seconds } = result
  print(
    `${describeRound(plan)}\n  ${problems.length === 0 ? 'kept' : 'BROKEN'}: ${recovered} recovered, ${exhausted} exhausted, ` +
      `${retries} retries (${late} late), ${daemons} daemons, ${seconds.toFixed(1)} s`,
  )
  if (problems.length === 0) return
  for (const problem of problems.slice(0, shownProblems)) print(`  ${problem}`)
  if (problems.length > shownProblems) print(`  and ${problems.length - shownProblems} more`)
  const file = join(mkdtempSync(join(tmpdir(), 'chaos-')), `seed-${seed}.log`)
  writeFileSync(file, outputs.join('\n'))
  print(`  output of its daemons: ${file}; again: npm run chaos -- --seed ${seed} --records ${plan.records}`)
}

/** Plays the rounds. Returns the exit code. */
async function main(): Promise<number> {
  if (values.help) {
    print(usage)
    return 0
  }
  await setup()
  const first = Number(values.seed ?? values.from)
  const count = values.seed === undefined ? Number(values.rounds) : 1
  const seeds = Array.from({ length: count }, (_, index) => first + index)
  const limit = pLimit(Number(values['at-once']))
  const startedAt = performance.now()
  const results = await limit.map(seeds, async (seed) => {
    const result = await playRound(drawRound(seed, Number(values.records)))
    printRound(seed, result)
    // What was written is on disk if it is needed.
    return { ...result, outputs: [], seed }
  })
  const sum = (of: (result: RoundResult) => number): number => results.reduce((total, one) => total + of(one), 0)
  const hits = faultKinds.map((name) => [name, sum(({ harmed }) => harmed[name] ?? 0)] as const)
  const broken = results.filter(({ problems }) => problems.length > 0)
  const missing = count < enoughRounds ? [] : hits.filter(([, times]) => times === 0).map(([name]) => name)
  print(
    `${count} rounds from seed ${first}: ${broken.length} broken${broken.map(({ seed }) => ` ${seed}`).join(',')}; ` +
      `${sum(({ recovered }) => recovered)} recovered, ${sum(({ exhausted }) => exhausted)} exhausted, ` +
      `${sum(({ retries }) => retries)} retries (${sum(({ late }) => late)} late), ${sum(({ daemons }) => daemons)} daemons, ` +
      `${((performance.now() - startedAt) / 1000).toFixed(0)} s\n` +
      `requests harmed: ${hits.map(([name, times]) => `${name} ${times}`).join(', ')}`,
  )
  if (missing.length > 0) print(`never happened: ${missing.join(', ')}`)
  return broken.length > 0 || missing.length > 0 ? 1 : 0
}

// Its children end with it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const code = await main()
// Not process.exitCode: Node would first wait for what is left of the connections that were cut, in a busy loop and maybe for ever.
process.stdout.write('', () => process.exit(code))
