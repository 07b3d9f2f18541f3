// `npm run bench`: recovers failed records against the sandbox in its own process, beside a bare loop that makes the same calls.
// It ends with 1 when the ratio of the best rates is more than a tenth below its target: other work only ever slows a round down, and
// then there are more of them.
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startForked } from '../support/forked.ts'
import { testKeys } from '../support/keys.ts'
import { token as tokenOf } from '../sandbox/client.ts'
import { bareLoop, reconcile, type Measured, type Run } from './runs.ts'
import type { BenchCommand, BenchSandbox } from './sandbox-process.ts'

const { values } = parseArgs({
  options: {
    latency: { type: 'string', default: '20' },
    concurrency: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '5' },
    /** Only the rows whose name holds this. */
    only: { type: 'string', default: '' },
    /** Of the rows with circuits on: records, and the time of a delivery in ms. */
    records: { type: 'string', default: '100000' },
    delivery: { type: 'string', default: '300' },
  },
})
const [concurrency, rounds] = [Number(values.concurrency), Number(values.rounds)]
const listConcurrency = 4
const warmUpRecords = 20_000

/** What is compared with the bare loop, and the ratio of the rates that it has to reach. */
interface Row {
  name: string
  run: Omit<Run, 'concurrency'>
  deliversAfterMs?: number
  target: number
  rounds: number
}

const rows: readonly Row[] = [
  {
    name: 'plain: 10,000 records, circuits off, delivered before the answer, to the last accepted retry',
    run: { records: 10_000, circuits: false, until: 'accepted' },
    target: 0.9,
    rounds,
  },
  {
    name: `safe: ${values.records} records, circuits on, delivered ${values.delivery} ms after the answer, to the last record seen to be recovered`,
    run: { records: Number(values.records), circuits: true, until: 'recovered' },
    deliversAfterMs: Number(values.delivery),
    target: 0.85,
    rounds: 1,
  },
]

const keys = await testKeys()
const child = await startForked(join(import.meta.dirname, 'sandbox-process.ts'), [keys.certificatePem, values.latency])

function line(name: string, measured: Measured): string {
  const { accepted, calls, confirms, cpuMicroseconds, lists, seconds } = measured
  const rss = (process.resourceUsage().maxRSS / 1024).toFixed(0)
  const rate = (accepted / seconds).toFixed(0)
  const perRecord = (calls / accepted).toFixed(4)
  const cpu = (cpuMicroseconds / accepted).toFixed(0)
  return `  ${name.padEnd(12)} ${seconds.toFixed(2)} s · ${rate} records/s · ${perRecord} calls/record (${lists} lists, ${confirms} looks) · ${cpu} us CPU/record · peak RSS so far ${rss} MiB\n`
}

/** Both on the same number of records, each on fresh ones. */
async function measure({
  deliversAfterMs,
  run,
}: Pick<Row, 'run' | 'deliversAfterMs'>): Promise<{ ours: Measured; bare: Measured }> {
  const seed: BenchCommand = { seed: run.records, ...(deliversAfterMs !== undefined && { deliversAfterMs }) }
  const fresh = async (): Promise<BenchSandbox> => (await child.ask(seed)) as BenchSandbox
  const ours = await reconcile(await fresh(), keys.privateKeyFile, { ...run, concurrency })
  const sandbox = await fresh()
  const token = await tokenOf(sandbox)
  const shape = { lists: ours.lists, records: run.records, concurrency, listConcurrency }
  return { ours, bare: await bareLoop(sandbox, token, shape) }
}

async function compare(row: Row): Promise<void> {
  process.stdout.write(`${row.name}\n`)
  const rounds: Awaited<ReturnType<typeof measure>>[] = []
  let ratio = 0
  while (rounds.length < row.rounds || (ratio < row.target && rounds.length < 3 * row.rounds)) {
    const round = await measure(row)
    process.stdout.write(line('reconciler', round.ours) + line('bare loop', round.bare))
    rounds.push(round)
    const best = (of: 'ours' | 'bare'): number => Math.min(...rounds.map((one) => one[of].seconds))
    ratio = best('bare') / best('ours')
  }
  const verdict = ratio >= row.target ? 'reached' : 'MISSED'
  process.stdout.write(
    `  ratio of the best rates of ${rounds.length}: ${ratio.toFixed(3)}; target at least ${row.target}: ${verdict}\n`,
  )
  if (ratio < 0.9 * row.target) process.exitCode = 1
}

process.stdout.write(`${values.latency} ms platform latency, concurrency ${concurrency}\n`)
// What is compared is the work, not how long each program takes to be compiled: neither is measured cold.
await measure({ run: { records: warmUpRecords, circuits: true, until: 'recovered' } })
for (const row of rows.filter(({ name }) => name.includes(values.only))) await compare(row)
process.stdout.write(`peak RSS of the measuring process: ${(process.resourceUsage().maxRSS / 1024).toFixed(0)} MiB\n`)
await child[Symbol.asyncDispose]()
