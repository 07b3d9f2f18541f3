// Requests to the running daemon: its address, the proof that authorizes a command, and its errors as messages.
import { loadSections } from '../config/load.ts'
import type { StatusDocument } from '../ops/status-document.ts'
import { prefixed } from '../ops/words.ts'
import { CommandFailure, ConfigurationError, exitCode, UsageError } from '../runtime/errors.ts'
import { redact } from '../runtime/redact.ts'
import { callDaemon, originOf } from './daemon-call.ts'
import type { CommandFlags } from './flags.ts'
import type { Io } from './io.ts'
import { keySetting, proofOf } from './secrets.ts'

/** The daemon of a command line. */
export interface Daemon {
  url: string
  /** `server.commandPrefix`. */
  commandPrefix: string
  /** The command's name, to show how to run it elsewhere. */
  name: string
  /** @throws ConfigurationError when neither control.token nor the key is available */
  token: () => Promise<string>
}

const keyNames = [
  ...['auth.privateKey', 'auth.privateKeyFile', 'auth.privateKeyPassphrase'],
  ...['auth.signCommand', 'auth.certificateFile'],
]

/** Reads only the needed sections: the others may be invalid. @throws ConfigurationError, UsageError */
export function findDaemon(io: Io, options: Pick<CommandFlags, 'config' | 'port'>, name: string): Daemon {
  const { server } = loadSections({ file: options.config, ...io }, ['server']).config
  return {
    url: originOf(server, options.port),
    commandPrefix: server.commandPrefix ?? '',
    name,
    async token() {
      const { control } = loadSections({ file: options.config, ...io }, ['control']).config
      if (control.token !== undefined) return control.token
      const { config, origins } = loadSections({ file: options.config, ...io }, ['auth'], keyNames)
      if (config.auth.signCommand !== undefined) throw noProof()
      const { loadKey } = await import('../platform/auth/private-key.ts')
      return proofOf(loadKey(keySetting(config.auth, origins, io)).current())
    },
  }
}

function noProof(): ConfigurationError {
  const message = 'is required for commands: with auth.signCommand there is no private key for a proof'
  return new ConfigurationError([{ key: 'control.token', origin: 'missing', message }])
}

/** Years after 9999 have six digits and a sign: a platform may use the end of time for a missing time. */
const isTime = /^(?:\d{4}|\+\d{6})-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** The fields of a JSON object, times as dates; empty for any other text. */
function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  const revive = (_: string, value: unknown): unknown =>
    typeof value === 'string' && isTime.test(value) ? new Date(value) : value
  try {
    return { ...(JSON.parse(text, revive) as object | null) }
  } catch {
    return {}
  }
}

/** No daemon responds there. Names the two ways to reach one. */
function notRunning({ commandPrefix, name, url }: Daemon, problem: string): CommandFailure {
  const there = prefixed(`webhook-reconciler ${name}`, commandPrefix || 'kubectl exec POD -c webhook-reconciler --')
  const why =
    problem === 'TIMEOUT'
      ? `${url} did not respond in time: try again`
      : `No daemon at ${url} (${problem}): start it there with webhook-reconciler run (with retry.enabled: false it retries nothing)`
  return new CommandFailure(exitCode.platformUnreachable, `${why}, or run this where it runs: ${there}.`)
}

/** For an interrupt before the response to a command. */
export function unconfirmed({ commandPrefix }: Daemon): CommandFailure {
  const why = 'Interrupted: the command may have taken effect. Check with webhook-reconciler status'
  return new CommandFailure(exitCode.interrupted, prefixed(why, commandPrefix))
}

/** The daemon's error, in its own words if it gave any. */
function refusalOf({ url }: Daemon, status: number, fields: Readonly<Record<string, unknown>>): Error {
  const told = 'error' in fields ? redact(String(fields['error'])) : undefined
  if (status === 400 && told !== undefined) return new UsageError(told)
  if (status === 401) {
    const why = `${url} rejects the token: use the daemon's control.token or its private key.`
    return new CommandFailure(exitCode.authenticationRejected, why)
  }
  if (status === 503 && told !== undefined) return new CommandFailure(exitCode.platformUnreachable, `${url}: ${told}`)
  const other = `${url} returns HTTP ${status}, unlike a daemon of this version: check server.host and server.port, or use the daemon's own version (kubectl exec).`
  const code = status === 403 ? exitCode.authenticationRejected : exitCode.incomplete
  return new CommandFailure(code, told === undefined ? other : `${url} rejects the request: ${told}`)
}

/** The daemon itself waits up to 20 s for the Kubernetes API. */
const controlTimeoutMs = 25_000
const statusTimeoutMs = 2000

/** @throws ConfigurationError when it is needed and unavailable */
async function tokenFor({ token }: Daemon, need: 'needed' | 'wanted' | undefined): Promise<string | undefined> {
  if (need === undefined) return undefined
  try {
    return await token()
  } catch (error) {
    if (need === 'needed' || !(error instanceof ConfigurationError)) throw error
    return undefined
  }
}

export interface DaemonRequest {
  path: string
  /** For a command; a GET has none. */
  method?: 'POST' | 'DELETE'
  body?: object
  /** True for a GET that may query the platform and so need the proof, which is sent if available. */
  opens?: true
  /** A field in every response of a daemon of this version. */
  has: string
}

/**
 * The fields of the daemon's response.
 * @throws CommandFailure, UsageError, ConfigurationError, or the signal's reason
 */
export async function ask(
  daemon: Daemon,
  { body, has, method, opens, path }: DaemonRequest,
  io: Pick<Io, 'clock' | 'signal' | 'version'>,
): Promise<Readonly<Record<string, unknown>>> {
  const url = daemon.url + path
  const isCommand = method !== undefined
  const token = await tokenFor(daemon, isCommand ? 'needed' : opens && 'wanted')
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const call = { url, headers, timeoutMs: isCommand || opens === true ? controlTimeoutMs : statusTimeoutMs }
  const response = await callDaemon(
    { ...call, ...(method && { method }), ...(body && { body: JSON.stringify(body) }) },
    io,
  )
  if ('problem' in response) {
    const { isSent, problem } = response
    if (!isCommand || !isSent) throw notRunning(daemon, problem)
    const what =
      problem === 'TIMEOUT'
        ? `did not respond within ${controlTimeoutMs / 1000} s`
        : `sent no full response (${problem})`
    const why = `${url} ${what}: the command was sent but not confirmed. It is safe to repeat it.`
    throw new CommandFailure(exitCode.incomplete, why)
  }
  const fields = fieldsOf(response.body)
  if (response.status === 200 && has in fields) return fields
  throw refusalOf(daemon, response.status, fields)
}

/** @throws as `ask` does */
export async function askStatus(daemon: Daemon, io: Pick<Io, 'clock' | 'signal' | 'version'>): Promise<StatusDocument> {
  const fields = await ask(daemon, { path: '/status', has: 'summary' }, io)
  const version = fields['schemaVersion']
  // The document's meaning depends on its version.
  if (version === 2) return fields as unknown as StatusDocument
  const why = `${daemon.url} returns schemaVersion ${String(version)}, but this version of the program knows 2`
  throw new CommandFailure(exitCode.incomplete, `${why}: use the daemon's own version (kubectl exec).`)
}
