// The commands for the running daemon: `status`, `pause`, `resume`, `probe`. They read server.* and control.* alone.
import { environmentName } from '../config/key.ts'
import { loadSections } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { ConfigurationError, exitCode, type ExitCode } from '../runtime/errors.ts'
import { redact, redactedJson } from '../runtime/redact.ts'
import { callDaemon, originOf } from './daemon-call.ts'
import { askDaemon, fieldsOf, readStatus, stopsOf } from './daemon-client.ts'
import { counted } from '../ops/words.ts'
import type { Probes } from '../reconcile/retry/subscriptions.ts'
import type { CommandFlags } from './flags.ts'
import { answer, createPaint, widthOf } from './format.ts'
import type { Io } from './io.ts'
import { createMoments, type Moments } from './moments.ts'
import { incidentText, statusText } from './status-text.ts'

const watchMs = 2000
const clearScreen = '\u001b[H\u001b[J'

/** Shows the status once. */
async function showStatus(url: string, options: CommandFlags, io: Io): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const read = await readStatus(url, io)
  const isScreen = options.watch === true && options.json !== true && io.stdout.isTTY === true
  const start = isScreen ? clearScreen : ''
  if ('problem' in read) {
    io.stderr.write(`${start}${url} does not answer (${read.problem}): ${toReach}.\n`)
    return exitCode.incomplete
  }
  const shown = { url, moments, paint: createPaint(io.stdout, io.env), width: widthOf(io.stdout) }
  const { incident, instance, schemaVersion } = read
  const [document, text] = options.incident
    ? [{ schemaVersion, instance, incident }, incidentText]
    : [{ ...read, url: undefined }, statusText]
  if (options.json && options.watch) io.stdout.write(`${redactedJson(document)}\n`)
  else answer(io.stdout, options, document, () => start + text(read, shown))
  return read.unreadable == null && read.unlisted == null ? exitCode.done : exitCode.incomplete
}

/** Runs `status`. With --watch it ends with a signal. */
export async function statusCommand(io: Io, options: CommandFlags): Promise<ExitCode> {
  const { server } = loadSections({ file: options.config, ...io }, ['server']).config
  const url = originOf(server, options.port)
  for (;;) {
    const code = await showStatus(url, options, io)
    if (options.watch !== true) return code
    await io.clock.sleep(watchMs, io.signal)
  }
}

/** @throws ConfigurationError */
function tokenOf(control: Config['control']): string {
  if (control.token !== undefined) return control.token
  const key = 'control.token'
  const message = `is required for this command: give the daemon and this command the same, such as by ${environmentName(key)}_FILE`
  throw new ConfigurationError([{ key, origin: 'missing', message }])
}

/** The answer to `pause` and `resume`. */
interface PauseAnswer {
  paused: boolean
  since?: Date
  changed: boolean
  outlivesRestart?: boolean
}

/** The daemon waits for up to 20 s for the Kubernetes API. */
const controlTimeoutMs = 25_000
const toReach = 'run this where the daemon runs (kubectl exec), or forward the port'

/** Refusals in other words than the daemon's own, which are for any client. */
const refusals: Readonly<Partial<Record<number, string>>> = {
  401: 'refuses the token: give the control.token that the daemon was started with',
  404: 'answers HTTP 404: the daemon there has no control.token, so pause, resume and probe are off',
}

/** The daemon's answer to a command, or why there is none. */
async function send(
  url: string,
  token: string,
  io: Io,
): Promise<PauseAnswer | Probes | { code: ExitCode; problem: string }> {
  const headers = { authorization: `Bearer ${token}` }
  const answer = await callDaemon({ url, method: 'POST', headers, timeoutMs: controlTimeoutMs }, io)
  if ('problem' in answer) {
    if (answer.problem === 'TIMEOUT') {
      const why = `has not answered within ${controlTimeoutMs / 1000} s: the command is sent, and not confirmed`
      return { code: exitCode.incomplete, problem: `${url} ${why}; ask for it with webhook-reconciler status` }
    }
    const why = `does not answer (${answer.problem}): ${toReach}; the daemon listens at server.host and server.port`
    return { code: exitCode.incomplete, problem: `${url} ${why}` }
  }
  const { body, status } = answer
  const fields = fieldsOf(body)
  if (status === 200 && ('circuits' in fields || 'changed' in fields)) return fields as unknown as PauseAnswer | Probes
  const unexpected = `answers HTTP ${status}, and not as the daemon does: check server.host and server.port`
  const told = 'error' in fields ? `refuses: ${redact(String(fields['error']))}` : unexpected
  const code = status === 401 || status === 403 ? exitCode.authenticationRejected : exitCode.incomplete
  return { code, problem: `${url} ${refusals[status] ?? told}` }
}

function probeText({ circuits, underWay }: Probes): string {
  if (circuits > 0) return `cooldowns ended: ${counted(circuits, 'circuit')}`
  if (underWay === 0) return 'no circuit was open'
  return `${counted(underWay, 'probe is', 'probes are')} under way: ask for the status in a few seconds`
}

function pauseText(name: string, { changed, outlivesRestart, since }: PauseAnswer, { show }: Moments): string {
  if (name === 'resume') return changed ? 'retries resumed' : 'was not paused'
  const atRestart = outlivesRestart === true ? '; a restart does not end the pause' : ' or a restart'
  if (changed) return `retries paused; resume with webhook-reconciler resume${atRestart}`
  return `paused already${since === undefined ? '' : ` since ${show(since)}`}`
}

/** Runs `pause`, `resume` and `probe`. */
export async function controlCommand(io: Io, options: CommandFlags, _: unknown, name: string): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const { config, instance } = loadSections({ file: options.config, ...io }, ['control', 'server'])
  const sent = await send(`${originOf(config.server, options.port)}/-/${name}`, tokenOf(config.control), io)
  if ('problem' in sent) {
    io.stderr.write(`${sent.problem}\n`)
    return sent.code
  }
  const text = 'circuits' in sent ? probeText(sent) : pauseText(name, sent, moments)
  const stops = name === 'resume' ? stopsOf(await askDaemon(config.server, io)) : []
  const blocked = stops.length === 0 ? '' : `; still blocked: ${stops.join('; ')}`
  if (options.json === true) io.stdout.write(`${redactedJson({ schemaVersion: 1, instance, ...sent })}\n`)
  else io.stdout.write(`${instance}: ${text}${blocked}\n`)
  return 'circuits' in sent && sent.circuits === 0 && sent.underWay > 0 ? exitCode.incomplete : exitCode.done
}
