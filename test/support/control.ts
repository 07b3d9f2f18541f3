// An ops server with commands for a test, a real pause behind it, and a client that gives the commands.
import type { Probes } from '../../src/reconcile/retry/circuits.ts'
import type { OpsServerOptions } from '../../src/ops/server.ts'
import { createPause, type Pause } from '../../src/reconcile/retry/operator-pause.ts'
import { ask, start, type Answer, type Ask, type Running } from './ops-server.ts'

export const token = 'CANARY-b7f1c2d3e4a5968778695a4b3c2d1e0f'

export interface RunningControl extends Running {
  pause: Pause
  /** How often the cooldowns were ended. */
  probes(): number
}

export async function startTestControl(changes: Partial<OpsServerOptions> = {}): Promise<RunningControl> {
  let probes = 0
  let now = (): number => 0
  const pause = createPause({ now: () => now(), wake: () => undefined, emit: () => undefined })
  const probe = (): Probes => ({ circuits: (probes += 1), underWay: 0 })
  const server = await start({ control: { token, allowRemote: false, pause, probe }, ...changes })
  now = server.clock.now
  return { ...server, pause, probes: () => probes }
}

export interface Command extends Ask {
  /** Default: the right one. */
  authorization?: string | undefined
}

/** Gives one command, over a connection of its own. */
export function command(port: number, path: string, options: Command = {}): Promise<Answer> {
  const { headers, authorization = undefined, ...how } = { authorization: `Bearer ${token}`, ...options }
  const all = { ...headers, ...(authorization !== undefined && { authorization }) }
  return ask(port, path, { method: 'POST', ...how, headers: all })
}
