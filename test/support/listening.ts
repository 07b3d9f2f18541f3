// A server of a test on a free port of this host: it ends with all its connections.
import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'

export interface Listening extends AsyncDisposable {
  port: number
  /** Connections that are open. */
  open(): number
}

export async function startListening(server: Server, host = '127.0.0.1'): Promise<Listening> {
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => open.delete(socket))
  })
  server.listen(0, host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    open: () => open.size,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
