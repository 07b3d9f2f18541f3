// An ops server with commands for a test, a real pause behind it, and a client that gives the commands.
import type { Probes } from '../../src/reconcile/retry/circuits.ts'
import { once } from 'node:events'
import { request as send, type IncomingMessage } from 'node:http'
import type { ControlOptions } from '../../src/ops/control.ts'
import type { OpsServerOptions } from '../../src/ops/server.ts'
import type { OperatorEvent, Pause } from '../../src/reconcile/retry/operator-pause.ts'
import { createPause } from '../../src/reconcile/retry/operator-pause.ts'
import { start, type Answer, type Running } from './ops-server.ts'

export const token = 'CANARY-b7f1c2d3e4a5968778695a4b3c2d1e0f'

export interface RunningControl extends Running {
  pause: Pause
  events: OperatorEvent[]
  /** How often the cooldowns were ended. */
  probes(): number
}

export interface ControlChanges extends Partial<Pick<ControlOptions, 'allowRemote' | 'probe'>> {
  server?: Partial<OpsServerOptions>
}

export async function startTestControl({ server: changes, ...control }: ControlChanges = {}): Promise<RunningControl> {
  const events: OperatorEvent[] = []
  let probes = 0
  let now = (): number => 0
  const pause = createPause({ now: () => now(), wake: () => undefined, emit: (event) => events.push(event) })
  const probe = (): Probes => ({ circuits: (probes += 1), underWay: 0 })
  const server = await start({ control: { token, allowRemote: false, pause, probe, ...control }, ...changes })
  now = server.clock.now
  return { ...server, pause, events, probes: () => probes }
}

export interface Command {
  method?: string
  /** Default: the right one. */
  authorization?: string | undefined
  headers?: Readonly<Record<string, string>>
  body?: string
  /** Default: 127.0.0.1. */
  host?: string
}

/** Gives one command, over a connection of its own. */
export async function command(port: number, path: string, options: Command = {}): Promise<Answer> {
  const { method = 'POST', headers = {}, host = '127.0.0.1', body } = options
  const authorization = 'authorization' in options ? options.authorization : `Bearer ${token}`
  const all = { ...headers, ...(authorization !== undefined && { authorization }) }
  const request = send({ host, port, path, method, agent: false, headers: all })
  request.end(body)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk)
  return { status: response.statusCode, headers: response.headers, body: text }
}
