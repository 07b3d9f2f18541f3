// A real HTTP proxy on loopback that tunnels by CONNECT: for any host, the tunnel ends at one port of this machine.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'

export interface ConnectProxy extends AsyncDisposable {
  port: number
  /** `host:port` of each CONNECT, and its `Proxy-Authorization`. */
  tunnels: { to: string; authorization: string | undefined }[]
}

/** @param answer status of a refusal; `nothing`: it never answers */
export async function startConnectProxy(target: number, answer?: number | 'nothing'): Promise<ConnectProxy> {
  const tunnels: ConnectProxy['tunnels'] = []
  const open = new Set<Socket>()
  const server = createServer()
  const keep = (socket: Socket): void => {
    open.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => open.delete(socket))
  }
  server.on('connection', keep)
  server.on('connect', ({ headers, url = '' }, near: Socket) => {
    tunnels.push({ to: url, authorization: headers['proxy-authorization'] })
    if (answer === 'nothing') return
    if (answer !== undefined) {
      near.end(`HTTP/1.1 ${answer} No\r\nContent-Length: 0\r\n\r\n`)
      return
    }
    const far = connect(target, '127.0.0.1', () => {
      near.write('HTTP/1.1 200 Connection established\r\n\r\n')
      near.pipe(far)
      far.pipe(near)
    })
    keep(far)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    tunnels,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
