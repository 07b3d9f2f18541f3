// `npm run simulate`: runs scenarios by their seeds, prints totals, what was drawn and exercised, and what replays a failure.
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { createCensus } from './census.ts'
import { generate } from './generate.ts'
import type { Simulated } from './simulate.ts'

const usage = `npm run simulate -- [--seeds N] [--from S]   runs seeds S to S+N-1 (default: 10000 from 1)
npm run simulate -- --seed S [--verbose]   runs one; --verbose prints everything that happens

--at-once N (default: one for each core) plays so many seeds side by side.
`

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    'at-once': { type: 'string', default: String(availableParallelism()) },
    verbose: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

/** Each fault is drawn among so many, and each promise put to the test; some come in few seeds. */
const enoughSeeds = 1000

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

function tellFailure(seed: number, { last, violation }: Simulated): void {
  if (violation === undefined) return
  print(last.join('\n'))
  print(`seed ${seed}: "${violation.invariant}" at ${(violation.at / 1000).toFixed(3)} s: ${violation.what}`)
  print(`again: npm run simulate -- --seed ${seed} --verbose\n`)
}

interface Played {
  simulated: Simulated
  ms: number
}

interface Player extends AsyncDisposable {
  play(seed: number): Promise<Played>
}

/** Plays in a thread of its own. */
function startPlayer(): Player {
  const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData: { isVerbose: values.verbose } })
  return {
    async play(seed) {
      worker.postMessage(seed)
      const [played] = (await once(worker, 'message')) as [Played]
      return played
    },
    async [Symbol.asyncDispose]() {
      // What it has printed arrives before it ends.
      worker.postMessage('end')
      await once(worker, 'exit')
    },
  }
}

async function main(): Promise<void> {
  if (values.help) {
    print(usage)
    return
  }
  const first = Number(values.seed ?? values.from)
  const count = values.seed === undefined ? Number(values.seeds) : 1
  const atOnce = Math.min(count, Number(values['at-once']))
  const failed: number[] = []
  const totals = { seeds: 0, ms: 0, calls: 0, deliveries: 0, recovered: 0, processes: 0 }
  const census = createCensus()
  const startedAt = performance.now()
  let slowest = { seed: 0, ms: 0 }
  let seed = first

  function take(played: number, { ms, simulated }: Played): void {
    if (ms > slowest.ms) slowest = { seed: played, ms }
    totals.seeds += 1
    totals.ms += ms
    totals.calls += simulated.calls
    totals.deliveries += simulated.deliveries
    totals.recovered += simulated.recovered
    totals.processes += simulated.processes
    census.add(generate(played), simulated)
    if (simulated.violation === undefined) return
    failed.push(played)
    tellFailure(played, simulated)
  }

  async function playAll(): Promise<void> {
    await using player = startPlayer()
    while (seed < first + count) {
      const next = seed
      seed += 1
      take(next, await player.play(next))
    }
  }

  await Promise.all(Array.from({ length: atOnce }, playAll))
  failed.sort((a, b) => a - b)
  print(
    `${totals.seeds} seeds from ${first}: ${failed.length} failed${failed.length > 0 ? ` (${failed.join(' ')})` : ''}; ` +
      `${totals.processes} processes, ${totals.calls} calls, ${totals.deliveries} deliveries, ${totals.recovered} recovered; ` +
      `${(totals.ms / totals.seeds).toFixed(0)} ms a seed, slowest ${slowest.ms.toFixed(0)} ms (seed ${slowest.seed}); ` +
      `${((performance.now() - startedAt) / 1000).toFixed(0)} s`,
  )
  for (const line of census.lines()) print(line)
  const missing = totals.seeds < enoughSeeds ? [] : census.missing()
  for (const what of missing) print(`never drawn, or never put to the test: ${what}`)
  process.exitCode = failed.length + missing.length > 0 ? 1 : 0
}

await main()
