// A command beside a daemon that a test plays, over real HTTP.
import { createServer, type IncomingMessage } from 'node:http'
import type { Clock } from '../../src/runtime/clock.ts'
import { runCommand, type CommandOptions, type Ran } from './command.ts'
import { incidentNow } from './incident.ts'
import { startListening } from './listening.ts'
import { token } from './ops-server.ts'

export interface Reply {
  /** 0: it hangs up. */
  status?: number
  body: unknown
}
export type Script = (method: string, url: string) => Reply | object

export interface Beside extends Ran {
  /** `GET /records?...` in their order. */
  asked: string[]
  /** What was written to stdout, with all its spaces and lines. */
  text: string
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

/** `server.commandPrefix`, which stands before each command that is printed; help is had where the command was typed. */
const prefix = 'podman exec app'
const bare = new RegExp(`(?<!${prefix} )webhook-reconciler (?!run |[a-z]+ --help)[a-z].*`)

/** Runs a command beside a daemon that answers so. Rejects for a command that its text prints without the prefix. */
export async function beside(script: Script, args: readonly string[], options: CommandOptions = {}): Promise<Beside> {
  const asked: string[] = []
  const clock = hastyClock()
  const server = createServer((request: IncomingMessage, response) => {
    const [method, url] = [request.method ?? '', request.url ?? '']
    asked.push(`${method} ${url}`)
    const reply = script(method, url)
    const { body, status = 200 } = 'body' in reply ? reply : { body: reply }
    if (status === 0) response.destroy()
    else response.writeHead(status, { connection: 'close' }).end(JSON.stringify(body))
  })
  await using listening = await startListening(server)
  const env = {
    ...{ RECONCILER_SERVER_PORT: String(listening.port), RECONCILER_CONTROL_TOKEN: token },
    RECONCILER_SERVER_COMMAND_PREFIX: prefix,
  }
  const ran = await runCommand(args, { clock, ...options, env: { ...env, ...options.env } })
  const [without] = args.includes('--json') ? [] : (bare.exec(ran.out + ran.err) ?? [])
  if (without !== undefined) throw new Error(`printed without server.commandPrefix: ${without}`)
  return { ...ran, text: ran.out, out: ran.out.replaceAll(/\s+/g, ' '), err: ran.err.replaceAll(/\s+/g, ' '), asked }
}
