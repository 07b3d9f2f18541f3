// The commands that talk to the running daemon on one address: `pause`, `resume`, `healthcheck`.
import { request } from 'undici'
import { loadSections } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { ConfigurationError, exitCode, type ExitCode } from '../runtime/errors.ts'
import { environmentName } from '../config/key.ts'
import { originOf } from './daemon-address.ts'
import type { Io } from './io.ts'
import { createMoments } from './format.ts'
import type { ConfigOption } from './service.ts'

type Wish = 'pause' | 'resume'

export interface ControlOptions extends ConfigOption {
  port?: string
  zone: string
  json?: true
}

/** The daemon's answer. */
interface Answer {
  paused: boolean
  since?: string
  changed: boolean
}

const timeoutMs = 5000

/** @throws ConfigurationError */
function tokenOf(control: Config['control']): string {
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
    const problem = `${url} answers HTTP ${statusCode}, and not as the daemon does: check server.host, server.port and its control.token`
    return { code: exitCode.incomplete, problem }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer'
    const problem =
      `${url} does not answer (${code}): run this where the daemon runs (kubectl exec), or forward the port; ` +
      'the daemon listens at server.host and server.port'
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

/** Runs `pause` and `resume`. */
export async function controlCommand(wish: Wish, io: Io, options: ControlOptions): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const { config, instance } = loadSections({ file: options.config, ...io }, ['control', 'server'])
  const { control, server } = config
  const url = `${originOf(server, options.port)}/-/${wish}`
  const answer = await send(url, tokenOf(control), io.signal)
  if ('problem' in answer) {
    io.stderr.write(`${answer.problem}\n`)
    return answer.code
  }
  const show = (text: string): string => moments.show(Date.parse(text))
  if (options.json === true) io.stdout.write(`${JSON.stringify({ schemaVersion: 1, instance, ...answer })}\n`)
  else io.stdout.write(`${inWords(wish, answer, instance, show)}\n`)
  return exitCode.done
}

export interface HealthcheckOptions extends ConfigOption {
  port?: string
}

const healthTimeoutMs = 3000

/** Runs `healthcheck`. */
export async function healthcheckCommand(io: Io, options: HealthcheckOptions): Promise<ExitCode> {
  const { server } = loadSections({ file: options.config, ...io }, ['server']).config
  const url = `${originOf(server, options.port)}/livez`
  try {
    const { statusCode, body } = await request(url, { headersTimeout: healthTimeoutMs, bodyTimeout: healthTimeoutMs })
    const text = await body.text()
    if (statusCode === 200) return exitCode.done
    io.stderr.write(`not alive: ${text}`)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer'
    io.stderr.write(`not alive: ${url} does not answer (${code})\n`)
  }
  return exitCode.incomplete
}
