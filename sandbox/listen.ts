// Starting, reading from and ending the sandbox's HTTP servers.
import type { IncomingMessage, Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * Listens and tells the origin, such as `http://127.0.0.1:41234`; of a server on all addresses, that of loopback.
 * Rejects when the port is taken.
 */
export async function listen(server: Server, host: string, port: number): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.removeListener('error', reject)
      resolve()
    })
  })
  // A peer that lets go in the middle must not end the process.
  server.on('clientError', (_error, socket) => socket.destroy())
  const address = server.address() as AddressInfo
  return `http://${hostOf(address)}:${address.port}`
}

function hostOf({ address, family }: AddressInfo): string {
  if (address === '0.0.0.0') return '127.0.0.1'
  if (address === '::') return '[::1]'
  return family === 'IPv6' ? `[${address}]` : address
}

/** Ends kept-alive connections at once. */
export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeAllConnections()
  await closed
}

export class BodyTooLarge extends Error {}

/** The body as text. Rejects when it is longer than `maxBytes`, or the peer lets go. */
export async function readBody(request: IncomingMessage, maxBytes = 2 ** 20): Promise<string> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > maxBytes) throw new BodyTooLarge(`The body is longer than ${maxBytes} bytes.`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}
