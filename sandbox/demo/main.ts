// The demo as a process: `npm run demo`.
import { join } from 'node:path'
import { Command } from 'commander'
import { systemClock, systemRandom } from '../../src/runtime/clock.ts'
import { exitCode } from '../../src/runtime/errors.ts'
import { runDemo } from './demo.ts'

const stop = new AbortController()
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.on(name, () => {
    stop.abort(new Error(name))
  })
}

async function run(options: { keep?: true }): Promise<void> {
  const { stdout, stderr } = process
  const io = { stdout, stderr, clock: systemClock, random: systemRandom, signal: stop.signal }
  const program = [process.execPath, join(import.meta.dirname, '../../src/main.ts')] as const
  try {
    const equal = await runDemo(io, { keep: options.keep === true, program })
    process.exitCode = equal ? exitCode.done : exitCode.incomplete
  } catch (error) {
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCode.incomplete
  }
}

await new Command('demo')
  .description('start a sandbox platform with failed deliveries, watch the daemon recover them, compare the books')
  .option('--keep', 'stay up at the end, to look at the metrics')
  .action(run)
  .parseAsync()
