// Calls to the daemon on this host, including `healthcheck`. Docker runs that every 30 s: importing no undici and no log saves memory.
import { request, type IncomingMessage } from 'node:http'
import { loadSections } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { deadline } from '../runtime/clock.ts'
import { exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import { visibleText } from '../runtime/redact.ts'
import { textUpTo } from '../runtime/text-up-to.ts'
import { userAgentOf } from '../runtime/user-agent.ts'
import type { CommandFlags } from './flags.ts'
import type { Io } from './io.ts'

/** The wildcard addresses, as this host reaches them. */
const own: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/**
 * Origin of the daemon as this host reaches it: `http://127.0.0.1:10964`.
 * @param given - `--port`, which overrides the configuration.
 * @throws UsageError where the port is not known
 */
export function originOf({ host, port }: Pick<Config['server'], 'host' | 'port'>, given = port): string {
  if (given === 0) {
    throw new UsageError("server.port is 0, which takes any free port: give the one in the daemon's log with --port")
  }
  const name = own[host] ?? host
  return `http://${name.includes(':') ? `[${name}]` : name}:${given}`
}

export interface DaemonCall {
  url: string
  method?: 'POST' | 'DELETE'
  headers?: Record<string, string>
  body?: string
  timeoutMs: number
}

/** The daemon's response, or a system error code. `isSent`: it may have received the request. */
export type DaemonResponse = { status: number; body: string } | { problem: string; isSent: boolean }

/** A status is far smaller. Another program may use the port, and never end its response. */
const maxBodyLength = 4 * 1024 * 1024

/** One exchange on a connection of its own, bypassing any proxy. Rejects only with the signal's reason. */
export async function callDaemon(
  { body: sent, headers, timeoutMs, url, ...options }: DaemonCall,
  { clock, signal, version }: Pick<Io, 'clock' | 'signal' | 'version'>,
): Promise<DaemonResponse> {
  using late = deadline(clock, timeoutMs, new Error('the daemon did not respond in time'))
  let isSent = false
  try {
    const outgoing = request(url, {
      ...options,
      headers: { ...headers, 'user-agent': userAgentOf(version) },
      agent: false,
      signal: AbortSignal.any([signal, late.signal]),
    })
    outgoing.on('socket', (socket) => socket.once('connect', () => (isSent = true)))
    const responded = Promise.withResolvers<IncomingMessage>()
    outgoing.on('response', responded.resolve).on('error', responded.reject).end(sent)
    const response = await responded.promise
    const body = await textUpTo(maxBodyLength, response)
    return body === undefined ? { problem: 'response over 4 MiB', isSent } : { status: response.statusCode ?? 0, body }
  } catch (error) {
    signal.throwIfAborted()
    if (late.signal.aborted) return { problem: 'TIMEOUT', isSent }
    return { problem: error instanceof Error && 'code' in error ? String(error.code) : 'no response', isSent }
  }
}

const healthTimeoutMs = 3000

export async function healthcheckCommand(io: Io, options: CommandFlags): Promise<ExitCode> {
  const { server } = loadSections({ file: options.config, ...io }, ['server']).config
  const [path, word] = options.ready === true ? ['readyz', 'ready'] : ['livez', 'alive']
  const url = `${originOf(server, options.port)}/${path}`
  const response = await callDaemon({ url, timeoutMs: healthTimeoutMs }, io)
  if ('problem' in response) io.stderr.write(`not ${word}: ${url} is unreachable (${response.problem})\n`)
  else if (response.status !== 200) io.stderr.write(visibleText(`not ${word}: ${response.body}`))
  else return exitCode.done
  return exitCode.incomplete
}
