// Where the running daemon is asked: the address on which it listens, as this host reaches it.
import { UsageError } from '../runtime/errors.ts'

/** A listener on all addresses is on this host's own too. */
const own: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

export interface Listening {
  host: string
  port: number
}

/**
 * Origin of a listener of the daemon: `http://127.0.0.1:10964`.
 * @param given the value of `--port`, which overrides the configuration
 * @throws UsageError when there is no such port
 */
export function originOf({ host, port }: Listening, given?: string): string {
  const text = given ?? String(port)
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) {
    throw new UsageError(`--port: a port from 1 to 65535, not "${text}"`)
  }
  if (Number(text) === 0) {
    throw new UsageError("server.port is 0, which takes any free port: give the one in the daemon's log with --port")
  }
  const name = own[host] ?? host
  return `http://${name.includes(':') ? `[${name}]` : name}:${text}`
}
