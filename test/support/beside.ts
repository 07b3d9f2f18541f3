// A command beside a daemon that a test plays, over real HTTP.
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../../src/runtime/clock.ts'
import { runCommand, type CommandOptions, type Ran } from './command.ts'
import { incidentNow } from './incident.ts'
import { token } from './ops-server.ts'

export interface Reply {
  status?: number
  body: unknown
}
export type Script = (method: string, url: string) => Reply | object

export interface Beside extends Ran {
  /** `GET /records?...` in their order. */
  asked: string[]
}

/** Each sleep is over at once, and no deadline comes: what is asked is answered over real sockets. */
function hastyClock(): Clock {
  let passedMs = 0
  return {
    now: () => incidentNow + passedMs,
    monotonic: () => passedMs,
    timer: () => () => undefined,
    sleep(ms) {
      passedMs += ms
      return Promise.resolve()
    },
  }
}

/** Runs a command beside a daemon that answers so. */
export async function beside(script: Script, args: readonly string[], options: CommandOptions = {}): Promise<Beside> {
  const asked: string[] = []
  const clock = hastyClock()
  const server = createServer((request: IncomingMessage, response) => {
    const [method, url] = [request.method ?? '', request.url ?? '']
    asked.push(`${method} ${url}`)
    const reply = script(method, url)
    const { body, status = 200 } = 'body' in reply ? reply : { body: reply }
    response.writeHead(status, { connection: 'close' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const port = String((server.address() as AddressInfo).port)
  const env = { RECONCILER_SERVER_PORT: port, RECONCILER_CONTROL_TOKEN: token }
  try {
    const ran = await runCommand(args, { env, clock, ...options })
    return { ...ran, out: ran.out.replaceAll(/\s+/g, ' '), err: ran.err.replaceAll(/\s+/g, ' '), asked }
  } finally {
    server.closeAllConnections()
    server.close()
  }
}
