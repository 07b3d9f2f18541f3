// `webhook-reconciler demo`: the quick start.
import { Command } from 'commander'
import { exitCode } from '../runtime/errors.ts'
import type { End, Io } from './io.ts'

export function demoCommand(io: Io, end: End): Command {
  return new Command('demo')
    .description('start a sandbox platform with failed deliveries, watch the daemon recover them, compare the books')
    .option('--keep', 'stay up at the end, to look at the metrics')
    .action(async (options: { keep?: true }) => {
      // Not for the daemon: the sandbox and the key maker are loaded only here.
      const { runDemo } = await import('../demo/demo.ts')
      try {
        const equal = await runDemo(io, { keep: options.keep === true, program: io.program })
        end(equal ? exitCode.done : exitCode.incomplete)
      } catch (error) {
        if (!io.signal.aborted) throw error
        end(exitCode.incomplete)
      }
    })
}
