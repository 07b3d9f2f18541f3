// The commands for the running daemon: `status`, `pause`, `resume`, `probe`. They read server.* and control.* alone.
import { z } from 'zod/mini'
import { environmentName } from '../config/key.ts'
import { loadSections } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { ConfigurationError, exitCode, isAbort, type ExitCode } from '../runtime/errors.ts'
import { redact, redactedJson } from '../runtime/redact.ts'
import { callDaemon, originOf, type DaemonFlags } from './daemon-call.ts'
import { askDaemon, parseAs, readStatus, stopsOf } from './daemon-client.ts'
import { counted } from '../ops/words.ts'
import { createMoments, createPaint, widthOf } from './format.ts'
import type { Io } from './io.ts'
import { interrupted } from './session.ts'
import { incidentText, statusText } from './status-text.ts'

export interface ControlFlags extends DaemonFlags {
  zone: string
  json?: true
}

export interface StatusOptions extends ControlFlags {
  watch?: true
  incident?: true
}

const watchMs = 2000
const clearScreen = '\u001b[H\u001b[J'

/** Shows the status once. */
async function showStatus(url: string, options: StatusOptions, io: Io): Promise<ExitCode> {
  const read = await readStatus(url, io)
  const isScreen = options.watch === true && options.json !== true && io.stdout.isTTY === true
  const start = isScreen ? clearScreen : ''
  if ('problem' in read) {
    io.stderr.write(
      `${start}${url} does not answer (${read.problem}): run this where the daemon runs (kubectl exec), or forward the port.\n`,
    )
    return exitCode.incomplete
  }
  if (options.json === true) {
    const { incident, instance, schemaVersion } = read
    const shown = options.incident === true ? { schemaVersion, instance, incident } : { ...read, url: undefined }
    io.stdout.write(`${redactedJson(shown, options.watch === true ? undefined : 2)}\n`)
  } else {
    const shown = {
      url,
      moments: createMoments(options.zone),
      paint: createPaint(io.stdout, io.env),
      width: widthOf(io.stdout),
    }
    io.stdout.write(start + redact((options.incident === true ? incidentText : statusText)(read, shown)))
  }
  return exitCode.done
}

/** Runs `status`. With --watch it ends with a signal. */
export async function statusCommand(io: Io, options: StatusOptions): Promise<ExitCode> {
  const { server } = loadSections({ file: options.config, ...io }, ['server']).config
  const url = originOf(server, options.port)
  try {
    if (options.watch !== true) return await showStatus(url, options, io)
    for (;;) {
      await showStatus(url, options, io)
      await io.clock.sleep(watchMs, io.signal)
    }
  } catch (error) {
    if (!isAbort(error, io.signal)) throw error
    return interrupted(io)
  }
}

/** @throws ConfigurationError */
function tokenOf(control: Config['control']): string {
  if (control.token !== undefined) return control.token
  const key = 'control.token'
  const message = `is required for this command: give the daemon and this command the same, such as by ${environmentName(key)}_FILE`
  throw new ConfigurationError([{ key, origin: 'missing', message }])
}

const pauseSchema = z.object({
  paused: z.boolean(),
  since: z.optional(z.iso.datetime()),
  changed: z.boolean(),
  outlivesRestart: z.optional(z.boolean()),
})
const refusalSchema = z.object({ error: z.string() })
const probeSchema = z.object({ circuits: z.number(), underWay: z.number() })
const answers = { pause: pauseSchema, resume: pauseSchema, probe: probeSchema }

export type ControlName = keyof typeof answers

type ControlAnswer = z.infer<typeof pauseSchema> | z.infer<typeof probeSchema>

const controlTimeoutMs = 5000

/** The answer, or the problem with its exit code. */
async function send(
  name: ControlName,
  { token, url }: { token: string; url: string },
  io: Io,
): Promise<ControlAnswer | { code: ExitCode; problem: string }> {
  const headers = { authorization: `Bearer ${token}` }
  const answer = await callDaemon({ url, method: 'POST', headers, timeoutMs: controlTimeoutMs }, io)
  if ('problem' in answer) {
    const problem =
      `${url} does not answer (${answer.problem}): run this where the daemon runs (kubectl exec), or forward the port; ` +
      'the daemon listens at server.host and server.port'
    return { code: exitCode.incomplete, problem }
  }
  const parsed = answer.status === 200 ? parseAs(answers[name], answer.body) : undefined
  if (parsed !== undefined) return parsed
  if (answer.status === 401) {
    const problem = `${url} refuses the token: give the control.token that the daemon was started with`
    return { code: exitCode.authenticationRejected, problem }
  }
  if (answer.status === 403) {
    const problem = `${url} takes commands from its own host alone: run this there (kubectl exec), or set control.allowRemote`
    return { code: exitCode.authenticationRejected, problem }
  }
  const refused = answer.status === 503 ? parseAs(refusalSchema, answer.body) : undefined
  if (refused !== undefined) return { code: exitCode.incomplete, problem: `${url}: ${refused.error}` }
  const problem =
    answer.status === 404
      ? `${url} answers HTTP 404: the daemon there has no control.token, so pause, resume and probe are off`
      : `${url} answers HTTP ${answer.status}, and not as the daemon does: check server.host and server.port`
  return { code: exitCode.incomplete, problem }
}

function probeText({ circuits, underWay }: z.infer<typeof probeSchema>): string {
  if (circuits > 0) return `cooldowns ended: ${counted(circuits, 'circuit')}`
  if (underWay === 0) return 'no circuit was open'
  return `${counted(underWay, 'probe is', 'probes are')} under way: ask for the status in a few seconds`
}

function controlText(name: ControlName, answer: ControlAnswer, show: (iso: string) => string): string {
  if ('circuits' in answer) return probeText(answer)
  const { changed, outlivesRestart, since } = answer
  if (name === 'resume') return changed ? 'retries resumed' : 'was not paused'
  const atRestart = outlivesRestart === true ? '; a restart does not end the pause' : ' or a restart'
  if (changed) return `retries paused; resume with webhook-reconciler resume${atRestart}`
  return `paused already${since === undefined ? '' : ` since ${show(since)}`}`
}

/** Runs `pause`, `resume` and `probe`. */
export async function controlCommand(name: ControlName, io: Io, options: ControlFlags): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const { config, instance } = loadSections({ file: options.config, ...io }, ['control', 'server'])
  const url = `${originOf(config.server, options.port)}/-/${name}`
  const answer = await send(name, { url, token: tokenOf(config.control) }, io)
  if ('problem' in answer) {
    io.stderr.write(`${answer.problem}\n`)
    return answer.code
  }
  const show = (iso: string): string => moments.show(Date.parse(iso))
  const stops = name === 'resume' ? stopsOf(await askDaemon(config.server, io)) : []
  const blocked = stops.length === 0 ? '' : `; still blocked: ${stops.join('; ')}`
  if (options.json === true) io.stdout.write(`${redactedJson({ schemaVersion: 1, instance, ...answer })}\n`)
  else io.stdout.write(`${instance}: ${controlText(name, answer, show)}${blocked}\n`)
  return 'circuits' in answer && answer.circuits === 0 && answer.underWay > 0 ? exitCode.incomplete : exitCode.done
}
