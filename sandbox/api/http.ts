// HTTP of the sandbox: a request and its response, intact or broken on request. Uses node:http without a framework, because it
// resets sockets, truncates bodies and sends them slowly.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../../src/runtime/clock.ts'

/** `other`: no operation of the platform. */
export type CallKind = 'token' | 'list' | 'retry' | 'other'

export interface SandboxRequest {
  operation: CallKind
  method: string
  path: string
  query: URLSearchParams
  /** Names in lower case. */
  headers: Readonly<Record<string, string | readonly string[] | undefined>>
  body: string
  /** Of a retry: the id in the path, decoded. */
  webhookId: string | undefined
}

/** How the response is sent. */
export type Wire =
  | { kind: 'whole' }
  /** Closes the connection after half of the announced body. */
  | { kind: 'cut' }
  | { kind: 'drip'; bytes: number; everyMs: number }
  /** Resets the connection instead. */
  | { kind: 'reset' }
  /** Never sends anything. */
  | { kind: 'hang' }

export interface SandboxResponse {
  status: number
  headers: Record<string, string>
  body: string
  wire: Wire
}

export function jsonResponse(status: number, body: unknown, headers: Record<string, string> = {}): SandboxResponse {
  return jsonTextResponse(status, JSON.stringify(body), headers)
}

/** The same for a body that is already JSON text. */
export function jsonTextResponse(status: number, body: string, headers: Record<string, string> = {}): SandboxResponse {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body, wire: { kind: 'whole' } }
}

export function textResponse(status: number, body: string, headers: Record<string, string> = {}): SandboxResponse {
  return { status, headers: { 'content-type': 'text/plain', ...headers }, body, wire: { kind: 'whole' } }
}

export interface Sending {
  /** Clock and abort signal of a slow body. */
  clock: Pick<Clock, 'sleep'>
  signal: AbortSignal
  /** Value of the `Date` header, epoch milliseconds; undefined: no such header. */
  date: number | undefined
}

/** Sends the response as `wire` says. Resolves once it is sent, or cannot be. */
export async function send(
  response: ServerResponse,
  content: SandboxResponse,
  { clock, date, signal }: Sending,
): Promise<void> {
  const { wire } = content
  if (response.destroyed || wire.kind === 'hang') return
  if (wire.kind === 'reset') {
    response.socket?.resetAndDestroy()
    return
  }
  const body = Buffer.from(content.body)
  response.sendDate = false
  response.writeHead(content.status, headersOf(content, body.length, date))
  if (wire.kind === 'cut') {
    response.write(body.subarray(0, Math.floor(body.length / 2)), () => response.destroy())
    return
  }
  if (wire.kind === 'whole') {
    response.end(body)
    return
  }
  for (let at = 0; at < body.length; at += wire.bytes) {
    if (response.destroyed) return
    response.write(body.subarray(at, at + wire.bytes))
    await clock.sleep(wire.everyMs, signal)
  }
  response.end()
}

/** The sent headers of a response. */
export function headersOf(
  { headers }: SandboxResponse,
  length: number,
  date: number | undefined,
): Record<string, string | number> {
  return { ...headers, ...(date !== undefined && { date: new Date(date).toUTCString() }), 'content-length': length }
}

/** Path and query of a request target. */
export function splitTarget(target: string): { path: string; query: URLSearchParams } {
  const [path = '', ...query] = target.split('?')
  return { path, query: new URLSearchParams(query.join('?')) }
}

/**
 * Listens, and returns the origin, such as `http://127.0.0.1:41234`; for a server on all addresses, that of loopback.
 * Rejects if the port is taken.
 */
export async function listen(server: Server, host: string, port: number): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.removeListener('error', reject)
      resolve()
    })
  })
  // A client that disconnects must not end the process.
  server.on('clientError', (_error, socket) => socket.destroy())
  const address = server.address() as AddressInfo
  return `http://${hostOf(address)}:${address.port}`
}

function hostOf({ address, family }: AddressInfo): string {
  if (address === '0.0.0.0') return '127.0.0.1'
  if (address === '::') return '[::1]'
  return family === 'IPv6' ? `[${address}]` : address
}

/** Closes the server and its kept-alive connections at once. */
export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeAllConnections()
  await closed
}

/** The body as text. Rejects if it is longer than `maxBytes`, or the client disconnects. */
export async function readBody(request: IncomingMessage, maxBytes = 2 ** 20): Promise<string> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > maxBytes) throw new Error(`The body is longer than ${maxBytes} bytes.`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}
