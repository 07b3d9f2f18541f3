// The command line: parses, calls the subcommand, and maps how it ended to an exit code.
import { Command, CommanderError } from 'commander'
import { ConfigurationError, exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import { createLog, errorFields } from '../observe/log.ts'
import { redact } from '../runtime/redact.ts'
import type { End, Io } from './io.ts'

const exitCodesHelp = `
Exit codes: 0 done; 1 refused, failed again or incomplete; 2 usage; 4 authentication rejected;
69 platform unreachable; 70 bug; 78 configuration.`

type Loader = (io: Io, end: End) => Promise<Command>

/** Each command's modules are loaded only for it. */
const loaders: Readonly<Record<string, Loader>> = {
  run: async (io, end) => (await import('./run.ts')).runCommand(io, end),
  once: async (io, end) => (await import('./once.ts')).onceCommand(io, end),
  plan: async (io, end) => (await import('./plan.ts')).planCommand(io, end),
  explain: async (io, end) => (await import('./explain.ts')).explainCommand(io, end),
  retry: async (io, end) => (await import('./retry.ts')).retryCommand(io, end),
  check: async (io, end) => (await import('./check.ts')).checkCommand(io, end),
  'print-config': async (io) => (await import('./print-config.ts')).printConfigCommand(io),
  pause: async (io, end) => (await import('./pause.ts')).pauseCommand(io, end),
  resume: async (io, end) => (await import('./pause.ts')).resumeCommand(io, end),
  healthcheck: async (io, end) => (await import('./healthcheck.ts')).healthcheckCommand(io, end),
}

/** The command that is named, or all of them, for help. */
async function load(name: string | undefined, io: Io, end: End): Promise<Command[]> {
  const named = name === undefined || !Object.hasOwn(loaders, name) ? undefined : loaders[name]
  const wanted = named === undefined ? Object.values(loaders) : [named]
  return Promise.all(wanted.map((loader) => loader(io, end)))
}

async function program(args: readonly string[], io: Io, end: End): Promise<Command> {
  const commands = await load(args[0], io, end)
  const root = new Command('webhook-reconciler')
    .description('Finds webhook deliveries that failed, has the platform send them again, and exports what it sees.')
    .version(io.version, '--version')
    .addHelpText('after', exitCodesHelp)
  for (const command of commands) root.addCommand(command)
  for (const command of [root, ...commands]) {
    command.exitOverride().configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
    })
  }
  return root
}

function tellConfigurationProblems(error: ConfigurationError, io: Io): void {
  const count = error.problems.length
  io.stderr.write(`The configuration has ${count === 1 ? 'a problem' : `${count} problems`}:\n`)
  for (const { key, origin, message } of error.problems) io.stderr.write(redact(`  ${key} (${origin}): ${message}\n`))
  io.stderr.write('Every key with its default and meaning: config/default.yaml, or docs/configuration.md.\n')
}

/** Says what is to be said of an error, and which exit code it gives. A bug's message is not shown: it may hold anything. */
function tellError(error: unknown, io: Io): ExitCode {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.done : exitCode.usage
  if (error instanceof UsageError) {
    io.stderr.write(`${redact(error.message)}\nSee --help.\n`)
    return exitCode.usage
  }
  if (error instanceof ConfigurationError) {
    tellConfigurationProblems(error, io)
    return exitCode.configuration
  }
  tellBug(error, io)
  return exitCode.bug
}

/** For errors that nobody expected, from here or from the process itself. */
export function tellBug(error: unknown, { clock, identity, stderr }: Pick<Io, 'clock' | 'identity' | 'stderr'>): void {
  const write = (line: string): unknown => stderr.write(line)
  const log = createLog({ level: 'fatal', instance: identity.instance, clock, write })
  log.event('unexpected_error', errorFields(error))
}

/** Runs one command line (without node and script). Never rejects. */
export async function main(args: readonly string[], io: Io): Promise<ExitCode> {
  let code: ExitCode = exitCode.done
  try {
    const root = await program(args, io, (given) => {
      code = given
    })
    await root.parseAsync([...args], { from: 'user' })
    return code
  } catch (error) {
    return tellError(error, io)
  }
}
