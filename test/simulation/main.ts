// `npm run simulate`: runs scenarios by their seeds, prints totals, what was drawn and exercised, and what replays a failure.
import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { createCensus } from './census.ts'
import { generate } from './generate.ts'
import { simulate, type Simulated } from './simulate.ts'

const usage = `npm run simulate -- [--seeds N] [--from S] [--until I]   runs seeds S to S+N-1 (default: 300 from 1),
                                                        or until one violates the invariant I
npm run simulate -- --seed S [--verbose]               runs one; --verbose prints everything that happens
`

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '300' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    until: { type: 'string' },
    verbose: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

function tellFailure(seed: number, { last, violation }: Simulated): void {
  if (violation === undefined) return
  print(last.join('\n'))
  print(`seed ${seed}: "${violation.invariant}" at ${(violation.at / 1000).toFixed(3)} s: ${violation.what}`)
  print(`again: npm run simulate -- --seed ${seed} --verbose\n`)
}

async function main(): Promise<void> {
  if (values.help) {
    print(usage)
    return
  }
  const first = Number(values.seed ?? values.from)
  const count = values.seed === undefined ? Number(values.seeds) : 1
  const failed: number[] = []
  const totals = { ms: 0, calls: 0, deliveries: 0, recovered: 0, processes: 0 }
  const census = createCensus()
  let slowest = { seed: 0, ms: 0 }
  let seed = first
  for (let isCaught = false; seed < first + count && !isCaught; seed += 1) {
    const startedAt = performance.now()
    const scenario = generate(seed)
    const result = await simulate(scenario, values.verbose ? { tell: print } : {})
    const ms = performance.now() - startedAt
    if (ms > slowest.ms) slowest = { seed, ms }
    totals.ms += ms
    totals.calls += result.calls
    totals.deliveries += result.deliveries
    totals.recovered += result.recovered
    totals.processes += result.processes
    census.add(scenario, result)
    if (result.violation === undefined) continue
    failed.push(seed)
    tellFailure(seed, result)
    isCaught = result.violation.invariant === values.until
  }
  const ran = seed - first
  const each = (totals.ms / ran).toFixed(0)
  print(
    `${ran} seeds from ${first}: ${failed.length} failed${failed.length > 0 ? ` (${failed.join(' ')})` : ''}; ` +
      `${totals.processes} processes, ${totals.calls} calls, ${totals.deliveries} deliveries, ${totals.recovered} recovered; ` +
      `${each} ms a seed, slowest ${slowest.ms.toFixed(0)} ms (seed ${slowest.seed})`,
  )
  for (const line of census.lines()) print(line)
  process.exitCode = failed.length > 0 ? 1 : 0
}

await main()
