// A real HTTP proxy on loopback that tunnels by CONNECT: for any host, the tunnel ends at one port of this machine.
import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import { startListening, type Listening } from './listening.ts'

export interface ConnectProxy extends Listening {
  /** `host:port` of each CONNECT, and its `Proxy-Authorization`. */
  tunnels: { to: string; authorization: string | undefined }[]
}

/** @param answer status of a refusal; `nothing`: it never answers */
export async function startConnectProxy(target: number, answer?: number | 'nothing'): Promise<ConnectProxy> {
  const tunnels: ConnectProxy['tunnels'] = []
  const server = createServer()
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
    far.on('error', () => undefined)
    near.on('close', () => far.destroy())
  })
  return { ...(await startListening(server)), tunnels }
}
