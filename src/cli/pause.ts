// `webhook-reconciler pause` and `resume`: tell the running daemon, by its control listener, to hold its retries or to go on.
import { Command } from 'commander'
import { request } from 'undici'
import { loadConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { ConfigurationError, exitCode, UsageError, type ExitCode } from '../errors.ts'
import { environmentName } from '../config/key.ts'
import type { End, Io } from './io.ts'
import { createMoments } from './moments.ts'
import type { ConfigOption } from './service.ts'

type Wish = 'pause' | 'resume'

interface PauseOptions extends ConfigOption {
  port?: string
  zone: string
  json?: true
}

/** What the control listener answers. */
interface Answer {
  paused: boolean
  since?: string
  changed: boolean
}

const timeoutMs = 5000

function addressOf({ control }: Config, options: PauseOptions): string {
  const port = options.port ?? String(control.port)
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    throw new UsageError(`--port: a port from 1 to 65535, not "${port}"`)
  }
  if (Number(port) === 0) {
    throw new UsageError('control.port is 0, which takes any free port: name the one that the daemon told with --port')
  }
  // A listener on all addresses is on this host's own too.
  const own: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }
  const host = own[control.host] ?? control.host
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** @throws ConfigurationError */
function tokenOf({ control }: Config): string {
  if (control.token !== undefined) return control.token
  const key = 'control.token'
  const message = `is required for this command: give the daemon and this command the same, such as by ${environmentName(key)}_FILE`
  throw new ConfigurationError([{ key, origin: 'missing', message }])
}

function isAnswer(value: unknown): value is Answer {
  return (
    typeof value === 'object' &&
    value !== null &&
    'paused' in value &&
    typeof value.paused === 'boolean' &&
    'changed' in value &&
    typeof value.changed === 'boolean' &&
    (!('since' in value) || typeof value.since === 'string')
  )
}

function parse(text: string): Answer | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isAnswer(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** The answer, or what to say in its place. */
async function send(
  url: string,
  token: string,
  signal: AbortSignal,
): Promise<Answer | { code: ExitCode; problem: string }> {
  try {
    const headers = { authorization: `Bearer ${token}` }
    const deadlines = { headersTimeout: timeoutMs, bodyTimeout: timeoutMs }
    const { body, statusCode } = await request(url, { method: 'POST', headers, signal, ...deadlines })
    const answer = parse(await body.text())
    if (statusCode === 200 && answer !== undefined) return answer
    if (statusCode === 401) {
      const problem = `${url} refuses the token: give the control.token that the daemon was started with`
      return { code: exitCode.authenticationRejected, problem }
    }
    const problem = `${url} answers HTTP ${statusCode}, and not as a control listener does: check control.host and control.port`
    return { code: exitCode.incomplete, problem }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer'
    const problem =
      `${url} does not answer (${code}): run this where the daemon runs (kubectl exec), or forward the port; ` +
      'the daemon listens there only with control.token'
    return { code: exitCode.incomplete, problem }
  }
}

function inWords(wish: Wish, { changed, since }: Answer, instance: string, show: (text: string) => string): string {
  if (wish === 'resume') return changed ? `${instance}: retries go on` : `${instance}: was not paused`
  const from = since === undefined ? '' : ` since ${show(since)}`
  return changed
    ? `${instance}: no retries from now on; go on with: webhook-reconciler resume (a restart forgets the pause)`
    : `${instance}: paused already${from}`
}

async function tell(wish: Wish, io: Io, options: PauseOptions): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const { config } = loadConfig({ file: options.config, ...io })
  const url = `${addressOf(config, options)}/-/${wish}`
  const answer = await send(url, tokenOf(config), io.signal)
  if ('problem' in answer) {
    io.stderr.write(`${answer.problem}\n`)
    return answer.code
  }
  const { name } = config.instance
  const show = (text: string): string => moments.show(Date.parse(text))
  if (options.json === true) io.stdout.write(`${JSON.stringify({ schemaVersion: 1, instance: name, ...answer })}\n`)
  else io.stdout.write(`${inWords(wish, answer, name, show)}\n`)
  return exitCode.done
}

function command(wish: Wish, description: string, io: Io, end: End): Command {
  return new Command(wish)
    .description(description)
    .option('--config <file>', 'configuration file (YAML); environment variables RECONCILER_* go before it')
    .option('--port <number>', 'port of the control listener; else control.port')
    .option('--zone <name>', 'IANA time zone in which times are shown', 'UTC')
    .option('--json', 'print one JSON document instead of a sentence')
    .action(async (options: PauseOptions) => {
      end(await tell(wish, io, options))
    })
}

export function pauseCommand(io: Io, end: End): Command {
  return command('pause', 'have the running daemon hold its retries until it is resumed or restarted', io, end)
}

export function resumeCommand(io: Io, end: End): Command {
  return command('resume', "end an operator's pause of the running daemon", io, end)
}
