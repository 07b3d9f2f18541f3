// The command line: one table of commands, each with its options; the modules of a command are loaded when it runs.
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { ConfigurationError, exitCode, isAbort, UsageError, type ExitCode } from '../runtime/errors.ts'
import { visibleText } from '../runtime/redact.ts'
import type { Io } from './io.ts'
import type { SessionOptions } from './session.ts'
import type { HealthcheckOptions } from './daemon-call.ts'
import type { ControlName, ControlFlags, StatusOptions } from './daemon-commands.ts'
import type { PrintOptions } from './print-config.ts'
import type { RoundOptions } from './round/round.ts'
import type { ConfigOption } from './service.ts'
import type { CompareOptions } from './compare/compare.ts'
import type { ExplainFlags } from './explain.ts'

const exitCodesHelp = `
Exit codes: 0 done; 1 refused, failed again or incomplete; 2 usage; 4 authentication rejected;
69 platform unreachable; 70 bug; 78 configuration; 130 interrupted while only reading.`

const programName = 'webhook-reconciler'

/** The last line of a usage error. */
const seeHelp = (command: string | undefined): string =>
  `See ${[programName, ...(command === undefined ? [] : [command]), '--help'].join(' ')}.`

type Run = (action: () => Promise<ExitCode>) => Promise<void>

function withConfig(command: Command): Command {
  return command.option(
    '-c, --config <file>',
    'configuration file (YAML); default: the file that RECONCILER_CONFIG names. RECONCILER_* environment variables override it',
  )
}

const withZone = (command: Command): Command =>
  command.option('--zone <name>', 'IANA time zone of the times, given and shown', 'UTC')

const withJson = (command: Command): Command =>
  command.option('--json', 'print one JSON document instead of text; its times are UTC')

/** The options of all commands that ask the platform. */
function withSession(command: Command): Command {
  return withJson(withZone(withConfig(command))).option('--verbose', 'write the log too, to stderr')
}

const collect = (value: string, before: string[] = []): string[] => [
  ...before,
  ...value
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== ''),
]

/** Reads a number of this range. */
function numberFrom(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = text.trim() === '' ? NaN : Number(text)
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`It takes a number from ${min} to ${max}.`)
  }
}

const perSecond = numberFrom(0.01, 1000)
const port = numberFrom(1, 65_535)

/** With --since: what narrows a span of events. */
function withSpan(command: Command): Command {
  return command
    .option('--until <time>', 'with --since: with events before then; default now')
    .option('--type <name>', 'with --since: only of this event type; repeatable', collect)
    .option('--subscription <id>', 'with --since: only of this subscription; repeatable', collect)
}

/** The selection of `plan` and `retry`. */
function withSelection(command: Command): Command {
  const selecting = withSession(command)
    .argument('[webhookIds...]', 'these records, even where select.* or window.notBefore leaves them out')
    .option('--event <id>', "this event's failed records")
    .option(
      '--since <time>',
      'failed records with events from then on: a moment with zone, a local one in --zone, or how long ago (6h)',
    )
  return withSpan(selecting)
    .option(
      '--response <code>',
      'with --since: only where the receiver last answered 503, 4xx, or none; repeatable',
      collect,
    )
    .option('--exhausted', 'also records that have reached retry.maxAttempts')
    .option('--rate <number>', 'retries a second at most; default retry.maxPerSecond', perSecond)
    .option('--records', 'list every selected record too')
}

function roundCommands(io: Io, run: Run): Command[] {
  const round = async (command: 'plan' | 'once' | 'retry', ids: string[], options: RoundOptions): Promise<void> =>
    run(async () => (await import('./round/round.ts')).roundCommand(command, ids, options, io))
  return [
    withSelection(new Command('plan'))
      .description('dry run of retry; without a selection, of once: what would be retried, by cause; changes nothing')
      .action((ids: string[], options: RoundOptions) => round('plan', ids, options)),
    withSession(new Command('once'))
      .description('one round of the daemon: list, retry what is due, follow it to its outcome, report, exit')
      .option('--records', 'list every failed record too, with --json')
      .action((options: RoundOptions) => round('once', [], options)),
    withSelection(new Command('retry'))
      .description('retry the selected failed records now, and wait for their outcome')
      .option('--yes', 'do not ask before retrying more than 100 records')
      .action((ids: string[], options: RoundOptions) => round('retry', ids, options)),
  ]
}

function readCommands(io: Io, run: Run): Command[] {
  return [
    withSession(new Command('explain'))
      .description('show the records of an event: the decision on each, its reason, its next retry; changes nothing')
      .argument('<id>', 'id of the event, or of one webhook (UUID)')
      .option('--response', "also the receiver's last answer in its own words, on a terminal only")
      .action((id: string, options: ExplainFlags) =>
        run(async () => (await import('./explain.ts')).explainCommand(id, io, options)),
      ),
    withSpan(
      withSession(new Command('compare'))
        .description('compare what the platform delivered with what your system has processed; changes nothing')
        .argument('<file>', 'what was processed: TYPE,ENTITY_ID a line, CSV or NDJSON; - for standard input')
        .requiredOption(
          '--since <time>',
          'events from then on: a moment with zone, a local one in --zone, or how long ago',
        ),
    )
      .addOption(
        new Option('--key <name>', 'what the two sides have in common')
          .choices(['entity', 'eventId', 'webhookId'])
          .default('entity'),
      )
      .option(
        '--rate <number>',
        'list calls a second at most; default half of platform.maxRequestsPerSecond',
        perSecond,
      )
      .option('--records', 'print each difference as NDJSON, and the report to stderr')
      .option('--output <file>', 'write there in place of stdout')
      .action((file: string, options: CompareOptions) =>
        run(async () => (await import('./compare/compare.ts')).compareCommand(file, io, options)),
      ),
    withSession(new Command('check'))
      .description('check configuration, key, certificate, token, list call, clock and time zone, and say what to do')
      .action((options: SessionOptions) =>
        run(async () => (await import('./check/check.ts')).checkCommand(io, options)),
      ),
    withJson(withConfig(new Command('print-config')))
      .description('show every key with the value in use and its origin; secrets are hidden')
      .action((options: PrintOptions) =>
        run(async () => (await import('./print-config.ts')).printConfigCommand(io, options)),
      ),
  ]
}

function daemonCommands(io: Io, run: Run): Command[] {
  const withPort = (command: Command): Command =>
    withConfig(command).option('--port <number>', 'port of the daemon; default server.port (10964)', port)
  const control = (name: ControlName, description: string): Command =>
    withJson(withZone(withPort(new Command(name))))
      .description(description)
      .action((options: ControlFlags) =>
        run(async () => (await import('./daemon-commands.ts')).controlCommand(name, io, options)),
      )
  return [
    withJson(withZone(withPort(new Command('status'))))
      .description('show what the running daemon does and what it needs, as its status page does')
      .option('--watch', 'show it again every two seconds, until Ctrl-C')
      .option('--incident', 'show the incident under way, or the last one, alone')
      .action((options: StatusOptions) =>
        run(async () => (await import('./daemon-commands.ts')).statusCommand(io, options)),
      ),
    control('pause', 'have the running daemon hold its retries until it is resumed or restarted'),
    control('resume', "end an operator's pause of the running daemon"),
    control('probe', 'end the cooldowns of open circuits now: after you fixed the receiver'),
    withPort(new Command('healthcheck'))
      .description('ask the daemon on this host whether it is alive; exit 0 when it is, 1 when not')
      .option('--ready', 'ask whether it is ready instead')
      .action((options: HealthcheckOptions) =>
        run(async () => (await import('./daemon-call.ts')).healthcheckCommand(io, options)),
      ),
  ]
}

function createProgram(io: Io, run: Run): Command {
  const commands = [
    withConfig(new Command('run'))
      .description('run the daemon: sweep, retry, export metrics, until SIGTERM or SIGINT')
      .action((options: ConfigOption) => run(async () => (await import('./run.ts')).runCommand(io, options))),
    ...roundCommands(io, run),
    ...readCommands(io, run),
    ...daemonCommands(io, run),
    new Command('version').description('show the version').action(() => {
      io.stdout.write(`${io.version}\n`)
    }),
  ]
  const root = new Command(programName)
    .description('Finds webhook deliveries that failed, has the platform send them again, and exports metrics.')
    .version(io.version, '-V, --version')
    .addHelpText('after', exitCodesHelp)
  for (const command of commands) root.addCommand(command)
  for (const command of [root, ...commands]) {
    command.exitOverride().showHelpAfterError(seeHelp(command === root ? undefined : command.name()))
    command.configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(visibleText(text)),
    })
  }
  return root
}

function printProblems(error: ConfigurationError, io: Io): void {
  const count = error.problems.length
  io.stderr.write(`The configuration has ${count === 1 ? 'a problem' : `${count} problems`}:\n`)
  for (const { key, origin, message } of error.problems)
    io.stderr.write(visibleText(`  ${key} (${origin}): ${message}\n`))
  io.stderr.write('Every key with its default and meaning: config/default.yaml and docs/configuration.md.\n')
}

/** Reports an error, and returns its exit code. */
async function reportError(error: unknown, command: string | undefined, io: Io): Promise<ExitCode> {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.done : exitCode.usage
  if (error instanceof UsageError) {
    io.stderr.write(`error: ${visibleText(error.message)}\n${seeHelp(command)}\n`)
    return exitCode.usage
  }
  if (error instanceof ConfigurationError) {
    printProblems(error, io)
    return exitCode.configuration
  }
  if (isAbort(error, io.signal)) {
    io.stderr.write('Interrupted before the end. Nothing was changed.\n')
    return exitCode.interrupted
  }
  const { reportBug } = await import('./bug.ts')
  reportBug(error, io)
  return exitCode.bug
}

/** Runs one command line (without node and script). Never rejects. */
export async function main(args: readonly string[], io: Io): Promise<ExitCode> {
  let code: ExitCode = exitCode.done
  const root = createProgram(io, async (action) => {
    code = await action()
  })
  try {
    await root.parseAsync([...args], { from: 'user' })
    return code
  } catch (error) {
    return reportError(
      error,
      root.commands.map((command) => command.name()).find((name) => name === args[0]),
      io,
    )
  }
}
