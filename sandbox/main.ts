// The sandbox as a process: `npm run sandbox`.
import { readSmallText } from '../src/runtime/small-file.ts'
import { systemClock } from '../src/runtime/clock.ts'
import { exitCode, UsageError } from '../src/runtime/errors.ts'
import { sandboxCommand } from './command.ts'

const stop = new AbortController()
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.on(name, () => {
    stop.abort(new Error(name))
  })
}

const { stdout, stderr } = process
try {
  await sandboxCommand({ stdout, clock: systemClock, signal: stop.signal, readFile: readSmallText }).parseAsync()
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  stderr.write(`${error.message}\n`)
  process.exitCode = exitCode.usage
}
