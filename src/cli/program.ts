// The command line: one table of commands with their options. The module of a command is loaded when it runs.
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { parseDuration } from '../config/duration.ts'
import { CommandFailure, ConfigurationError, exitCode, isAbort, UsageError, type ExitCode } from '../runtime/errors.ts'
import { visibleText } from '../runtime/redact.ts'
import { createProgress } from './format.ts'
import type { Io, ProcessIo } from './io.ts'

const exitCodesHelp = `
Exit codes: 0 done; 1 rejected, failed again or incomplete; 2 usage; 4 authentication rejected;
69 platform or daemon unreachable; 70 bug; 78 configuration; 130 interrupted.`

const programName = 'webhook-reconciler'

/** An empty value, such as that of an unset variable, would remove the filter. */
function collect(value: string, before: string[] = []): string[] {
  const given = value
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
  if (given.length === 0) throw new InvalidArgumentError('Must not be empty.')
  return [...before, ...given]
}

function numberFrom(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = text.trim() === '' ? NaN : Number(text)
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`Must be a number from ${min} to ${max}.`)
  }
}

function durationMs(text: string): number {
  const ms = parseDuration(text)
  if (ms !== undefined) return ms
  throw new InvalidArgumentError('Must be a duration such as 90s, 30m or 2h.')
}

const perSecond = numberFrom(0.01, 1000)

const config = new Option(
  '-c, --config <file>',
  'configuration file (YAML); default: the file named by RECONCILER_CONFIG. RECONCILER_* environment variables override it',
)
const json = new Option('--json', 'print one JSON document instead of text; its times are UTC')
const zone = new Option('--zone <name>', 'IANA time zone of given and shown times').default('UTC')
const port = new Option('--port <number>', 'port of the daemon; default server.port (10964)').argParser(
  numberFrom(1, 65_535),
)

/** The options of commands that query the platform. */
const session = [config, zone, json, new Option('--verbose', 'also write the log to stderr')]

/** The options of commands for the running daemon. */
const daemon = [config, port, json]

const whose = new Option('--subscription <name or id>', 'only the retries of this subscription')

const moment = 'a time with zone, a local time in --zone, or an age'

const since = new Option('--since <time>', `events since then: ${moment}`)

/** Filters of a span of events, for use with --since. */
const narrowing = [
  new Option('--until <time>', 'with --since: only earlier events; default now'),
  new Option('--type <name>', 'with --since: only this event type; repeatable').argParser(collect),
  new Option('--subscription <name or id>', 'with --since: only this subscription; repeatable').argParser(collect),
]

const responseFlag = new Option(
  '--response <code>',
  'with --since: only with this last response: 503, 4xx or none; repeatable',
).argParser(collect)

/** The selection of `plan` and `retry`. */
const selection = [
  ...daemon,
  zone,
  new Option('--event <id>', "this event's failed records"),
  new Option('--since <time>', `failed records of events since then: ${moment} (6h)`),
  ...narrowing,
  responseFlag,
  new Option('--exhausted', 'also records that have reached retry.maxAttempts'),
  new Option('--rate <number>', 'max. retries per second; default retry.maxPerSecond').argParser(perSecond),
]
const webhookIds = ['[webhookIds...]', 'webhook ids, even if select.* or window.notBefore excludes them'] as const

/** Runs a command with its options and arguments. The table of commands defines their names. */
type Run = (io: Io, options: never, args: string[], name: never) => ExitCode | Promise<ExitCode>

/** Adds a command. Its module is loaded when it runs. */
type Add = (name: string, description: string, options: readonly Option[], load: () => Promise<Run>) => Command

function addCommands(add: Add): void {
  const control = async (): Promise<Run> => (await import('./daemon-commands.ts')).controlCommand
  add(
    'run',
    'run the daemon: sweep, retry, export metrics, until SIGTERM or SIGINT',
    [config],
    async () => (await import('./run.ts')).runCommand,
  ).option('--once', 'one full sweep, then retries until nothing is due; exit 0 if everything due has arrived')
  add(
    'plan',
    'show what the daemon would retry now, by cause; with a selection: dry run of retry; read-only',
    selection,
    async () => (await import('./plan.ts')).planCommand,
  ).argument(...webhookIds)
  add(
    'retry',
    'have the daemon retry the selected failed records now, and wait for their outcomes',
    selection,
    async () => (await import('./retry.ts')).retryCommand,
  )
    .argument(...webhookIds)
    .option('-y, --yes', 'do not ask before retrying more than 100 records')
    .option('--dry-run', 'show what would be retried; change nothing')
    .option('--timeout <duration>', 'stop after 30m, 2h: unsent records are left to the daemon', durationMs)
  add(
    'records',
    'list records with their decisions, as text, JSON or CSV; read-only',
    [config, port, zone, new Option('--event <id>', "this event's records"), since, ...narrowing, responseFlag],
    async () => (await import('./records.ts')).recordsCommand,
  )
    .addOption(
      new Option('--decision <name>', 'due, backing-off, blocked, awaiting, exhausted, excluded; repeatable').argParser(
        collect,
      ),
    )
    .addOption(
      new Option('-o, --format <name>', 'instead of text: json, one document, or csv').choices(['json', 'csv']),
    )
    .option('--limit <number>', 'max. records', numberFrom(1, 1_000_000))
  add(
    'explain',
    "show an event's records: decision, reason and next retry of each; read-only",
    [...daemon, zone],
    async () => (await import('./records.ts')).explainCommand,
  )
    .argument('<ids...>', 'ids of events, or of webhooks (UUID)')
    .option('--response', "also show the receiver's last response (terminal only)")
  add(
    'compare',
    'compare what the platform delivered with what your system has processed; read-only',
    [...session, new Option('--since <time>', `events since then: ${moment}`).makeOptionMandatory(), ...narrowing],
    async () => (await import('./compare/compare.ts')).compareCommand,
  )
    .argument(
      '[file]',
      'processed events: TYPE,ENTITY_ID lines, CSV or NDJSON; - for standard input; default: from ledger.url',
    )
    .addOption(
      new Option('--key <name>', 'key that both sides share; default ledger.key (entity)').choices([
        'entity',
        'eventId',
        'webhookId',
      ]),
    )
    .option('--rate <number>', 'max. list calls per second; default half of platform.maxRequestsPerSecond', perSecond)
    .option('--records', 'print each difference as NDJSON, and the report to stderr')
    .option('--output <file>', 'write to this file, not stdout')
    .option('--payloads <file>', 'write the payloads of unprocessed deliveries to this file, for an import')
  add(
    'payload',
    'write the payloads of these events as NDJSON, for an import into your receiver; read-only',
    session.filter((option) => option !== json),
    async () => (await import('./payload.ts')).payloadCommand,
  )
    .argument('<ids...>', 'ids of events, or of webhooks (UUID)')
    .option('--output <file>', 'write to this file, which only you can read, not to stdout')
    .option('--show', 'allow output to a terminal: payloads contain names and accounts')
  add(
    'check',
    'check configuration, key, certificate, token, list call, clock and time zone, and say how to fix them',
    session,
    async () => (await import('./check.ts')).checkCommand,
  )
  add(
    'print-config',
    'show every key with its value and source; secrets are hidden',
    [config, json],
    async () => (await import('./print-config.ts')).printConfigCommand,
  )
  add(
    'status',
    "show the running daemon's status: what is missing, why, and what to do",
    daemon,
    async () => (await import('./daemon-commands.ts')).statusCommand,
  )
    .option('--watch', 'refresh every two seconds until Ctrl-C')
    .addOption(
      new Option('--fail-on <level>', 'exit 1 at this level or worse').choices(['working', 'waiting', 'trouble']),
    )
    .option('--incident', 'show only the current or last incident')
  add(
    'wait',
    'wait until nothing is missing; exit 1 at the timeout, or if the rest is not retried',
    [config, port],
    async () => (await import('./daemon-commands.ts')).waitCommand,
  )
    .addOption(new Option('--until <state>', 'what to wait for').choices(['recovered']).default('recovered'))
    .option('--timeout <duration>', 'maximum wait: 30m, 2h; default unlimited', durationMs)
  add('pause', "pause the running daemon's retries until they are resumed", [...daemon, zone, whose], control)
    .option('--for <duration>', 'resume automatically after 30m, 2h or 3d; default: by resume or a restart')
    .option('--reason <text>', 'such as INC-7; shown on the page and in status, and logged in the audit')
  add('resume', "end an operator's pause of the running daemon", [...daemon, zone, whose], control)
  add(
    'probe',
    'probe failing receivers, and end the backoff after failed calls; for use after a repair',
    daemon,
    control,
  )
  add(
    'healthcheck',
    'check that the daemon on this host is alive; exit 0 if so, else 1',
    [config, port],
    async () => (await import('./daemon-call.ts')).healthcheckCommand,
  ).option('--ready', 'check readiness instead')
}

const examples: Readonly<Record<string, readonly string[]>> = {
  run: ['run --config config.yaml', 'run --once'],
  plan: ['plan', 'plan --since 6h --type account-activated'],
  retry: ['retry 123e4567-e89b-12d3-a456-426614174000', 'retry --since 6h --response 5xx --dry-run'],
  records: ['records --decision exhausted -o csv', 'records --since 6h --subscription payments-eu'],
  explain: ['explain 123e4567-e89b-12d3-a456-426614174000', 'explain --json 123e4567-e89b-12d3-a456-426614174000'],
  compare: ['compare processed.csv --since 24h', 'compare - --since 2026-01-02 --zone Europe/Riga --records'],
  payload: ['payload 123e4567-e89b-12d3-a456-426614174000 --output lost.ndjson'],
  check: ['check', 'check --json'],
  'print-config': ['print-config --config config.yaml'],
  status: ['status', 'status --watch', 'status --fail-on trouble', 'status --incident --json'],
  wait: ['wait --until recovered --timeout 30m'],
  pause: ['pause', 'pause --subscription payments-eu --for 2h --reason INC-7'],
  resume: ['resume', 'resume --subscription payments-eu'],
  probe: ['probe'],
  healthcheck: ['healthcheck', 'healthcheck --ready'],
}

/** Builds the command line: `ended` gets the exit code of the command. */
export function createProgram(io: Io, ended: (code: ExitCode) => void): Command {
  const root = new Command(programName)
    .description('Finds failed webhook deliveries, has the platform resend them, and exports metrics.')
    .version(io.version, '-V, --version')
    .addHelpText('after', exitCodesHelp)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(visibleText(text)),
    })
  addCommands((name, description, options, load) => {
    const command = root.command(name).description(description)
    for (const option of options) command.addOption(option)
    const lines = (examples[name] ?? []).map((example) => `  ${programName} ${example}\n`)
    command.addHelpText('after', `\nExamples:\n${lines.join('').trimEnd()}`)
    return command.action(async () => {
      const run = await load()
      ended(await run(io, command.opts<never>(), command.args, name as never))
    })
  })
  root
    .command('version')
    .description('show the version')
    .action(() => {
      io.stdout.write(`${io.version}\n`)
    })
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
  if (error instanceof CommanderError && error.exitCode === 0) return exitCode.done
  if (error instanceof CommanderError || error instanceof UsageError) {
    // Commander has printed its own errors, and the help if there is no command.
    if (error instanceof UsageError) io.stderr.write(`error: ${visibleText(error.message)}\n`)
    if (error.code !== 'commander.help')
      io.stderr.write(`See ${[programName, command ?? [], '--help'].flat().join(' ')}.\n`)
    return exitCode.usage
  }
  if (error instanceof CommandFailure) {
    io.stderr.write(`${visibleText(error.message)}\n`)
    return error.code
  }
  if (error instanceof ConfigurationError) {
    printProblems(error, io)
    return exitCode.configuration
  }
  if (isAbort(error, io.signal)) {
    io.stderr.write('Interrupted. Nothing was changed.\n')
    return exitCode.interrupted
  }
  const { reportBug } = await import('./bug.ts')
  reportBug(error, io)
  return exitCode.bug
}

/** Runs one command line, given without node and script. Never rejects. */
export async function main(args: readonly string[], given: ProcessIo): Promise<ExitCode> {
  const { clear, ...outputs } = createProgress(given)
  const io: Io = { ...given, ...outputs }
  let code: ExitCode = exitCode.done
  const root = createProgram(io, (ended) => {
    code = ended
  })
  try {
    await root.parseAsync([...args], { from: 'user' })
    return code
  } catch (error) {
    const name = root.commands.map((command) => command.name()).find((known) => known === args[0])
    return await reportError(error, name, io)
  } finally {
    clear()
  }
}
