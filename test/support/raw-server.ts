// A TCP server that answers with any bytes a test gives it: what no HTTP server would send.
import { createServer, type Socket } from 'node:net'
import { expect } from 'vitest'
import { startListening } from './listening.ts'

export interface RawServer extends AsyncDisposable {
  url: URL
  /** Whole requests as they came, head and body. */
  requests: string[]
  /** Connections so far. */
  connections(): number
  /** Resolves when so many connections have come, or so many whole requests. */
  connected(count: number): Promise<void>
  received(count: number): Promise<void>
  /** Resolves when no connection is open. */
  idle(): Promise<void>
}

/** Called for each whole request, with its index over all connections. */
export type OnRequest = (socket: Socket, index: number) => void

/** Length of the first whole request in the text; undefined while it is not whole. */
function requestLength(text: string): number | undefined {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const length = headEnd + 4 + Number(/^content-length: (\d+)/im.exec(text)?.[1] ?? 0)
  return text.length >= length ? length : undefined
}

/** Listens on loopback, on any free port. `greeting` is written as soon as a client has connected. */
export async function startRawServer(onRequest: OnRequest, greeting?: string): Promise<RawServer> {
  const requests: string[] = []
  let connections = 0

  const server = createServer((socket) => {
    connections += 1
    if (greeting !== undefined) socket.write(greeting)
    let text = ''
    socket.setEncoding('latin1')
    socket.on('data', (chunk: string) => {
      text += chunk
      for (let length = requestLength(text); length !== undefined; length = requestLength(text)) {
        requests.push(text.slice(0, length))
        text = text.slice(length)
        onRequest(socket, requests.length - 1)
      }
    })
  })
  const listening = await startListening(server)

  const atLeast = (counted: () => number, count: number): Promise<void> =>
    expect.poll(counted, { interval: 5 }).toBeGreaterThanOrEqual(count)

  return {
    url: new URL(`http://127.0.0.1:${listening.port}/webhooks`),
    requests,
    connections: () => connections,
    connected: (count) => atLeast(() => connections, count),
    received: (count) => atLeast(() => requests.length, count),
    idle: () => expect.poll(listening.open, { interval: 5 }).toBe(0),
    [Symbol.asyncDispose]: () => listening[Symbol.asyncDispose](),
  }
}
