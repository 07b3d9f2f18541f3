// Asks the running daemon for its /status: pauses and circuits live in its memory, and no other process knows them.
import { Agent } from 'undici'
import { z } from 'zod'
import type { Config } from '../config/schema.ts'
import { createHttpTransport, TransportError } from '../platform/http.ts'
import { gateTable, reasonOf, type Gate } from '../reconcile/retry/gates.ts'
import { originOf } from './daemon-address.ts'
import type { Io } from './io.ts'

/** The part of /status that is used here. A daemon of another version may show more. */
const document = z.object({
  schemaVersion: z.literal(1),
  instance: z.string(),
  paused: z.object({ since: z.iso.datetime() }).nullable(),
  holding: z.array(z.string()),
  circuits: z.object({
    list: z.array(z.object({ subscriptionId: z.string(), state: z.string(), pausesForSeconds: z.number() })),
  }),
})

export interface DaemonState {
  /** Origin of its ops server. */
  url: string
  instance: string
  /** Epoch ms; undefined unless an operator has paused it. */
  pausedSince: number | undefined
  /** Gates that are shut, as in /status. */
  holding: readonly string[]
  /** Seconds until the next probe of each open circuit, by subscription. */
  open: ReadonlyMap<string, number>
}

/** The daemon's state, or the reason why it is not known. */
export type AskedDaemon = { url: string; problem: string } | DaemonState

const timeoutMs = 2000
const maxBytes = 4 * 1024 * 1024

function parse(text: string): z.infer<typeof document> | undefined {
  try {
    return document.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

/** Never rejects, but for a stop: a command that could not ask goes on, and says so. */
export async function askDaemon(
  server: Config['server'],
  { clock, signal }: Pick<Io, 'clock' | 'signal'>,
): Promise<AskedDaemon> {
  if (server.port === 0) return { url: 'server.port 0', problem: 'any free port' }
  const url = originOf(server)
  // A dispatcher of its own: the daemon is on this host, never behind a proxy.
  const http = createHttpTransport({ clock, connections: 1, dispatcher: new Agent({ connections: 1 }) })
  try {
    const target = URL.parse(`${url}/status`)
    if (target === null) return { url, problem: 'not an address' }
    const { body, status } = await http.transport({
      method: 'GET',
      url: target,
      headers: {},
      timeoutMs,
      maxBytes,
      signal,
    })
    const found = status === 200 ? parse(body) : undefined
    if (found === undefined) return { url, problem: `HTTP ${status}, not a daemon's status` }
    const open = found.circuits.list.filter(({ state }) => state === 'open')
    return {
      url,
      instance: found.instance,
      pausedSince: found.paused === null ? undefined : Date.parse(found.paused.since),
      holding: found.holding,
      open: new Map(open.map(({ subscriptionId, pausesForSeconds }) => [subscriptionId, pausesForSeconds])),
    }
  } catch (error) {
    if (!(error instanceof TransportError)) throw error
    return { url, problem: error.code }
  } finally {
    await http.close()
  }
}

function isGate(name: string): name is Gate {
  return Object.hasOwn(gateTable, name)
}

/** Gates of the daemon that block everything; one of a newer version is passed over. */
function globalGatesOf(daemon: DaemonState): Gate[] {
  return daemon.holding.filter(isGate).filter((gate) => gateTable[gate].blocks === 'everything')
}

/** Why the daemon retries nothing at all now; empty when it retries. */
export function stopsOf(daemon: AskedDaemon | undefined): readonly string[] {
  if (daemon === undefined || 'problem' in daemon) return []
  return globalGatesOf(daemon).map(reasonOf)
}

/** The gate of the daemon that blocks a subscription now. */
export function gateOf(daemon: AskedDaemon | undefined, subscriptionId: string): Gate | undefined {
  if (daemon === undefined || 'problem' in daemon) return undefined
  return globalGatesOf(daemon)[0] ?? (daemon.open.has(subscriptionId) ? 'circuit' : undefined)
}

function openText(open: DaemonState['open']): string[] {
  if (open.size === 0) return []
  const next = Math.ceil(Math.min(...open.values()))
  const circuits = open.size === 1 ? 'a circuit is open' : `${open.size} circuits are open`
  return [`${circuits}, with the next probe in ${next} s`]
}

/** One line for people. */
export function inWords(daemon: AskedDaemon): string {
  if ('problem' in daemon) {
    return (
      `Without the running daemon's knowledge of pauses and circuits: ` +
      `${daemon.url} does not answer (${daemon.problem}; server.host, server.port).`
    )
  }
  const holds = [...stopsOf(daemon), ...openText(daemon.open)]
  const text = holds.length === 0 ? 'holds no retries' : `holds retries: ${holds.join('; ')}`
  return `The daemon (${daemon.instance} at ${daemon.url}) ${text}.`
}
