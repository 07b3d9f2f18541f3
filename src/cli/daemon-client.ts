// The running daemon's /status, as other commands read it.
import type { Config } from '../config/schema.ts'
import type { StatusDocument } from '../ops/status-document.ts'
import { waitText } from '../ops/words.ts'
import type { Situation } from '../reconcile/decide.ts'
import { gateTable, reasonOf, stopsForMs, type Gate, type ShutGate } from '../reconcile/retry/gates.ts'
import { callDaemon, originOf } from './daemon-call.ts'
import { fieldsOf } from './ask.ts'
import type { Io } from './io.ts'

/** The daemon's state. */
export interface DaemonState extends StatusDocument {
  /** Origin of the daemon. */
  url: string
}

/** The daemon's state, or the reason why it is not known. */
export type AskedDaemon = { url: string; problem: string } | DaemonState

const statusTimeoutMs = 2000

/** The daemon's /status; rejects only with the signal's reason. */
export async function readStatus(url: string, io: Pick<Io, 'clock' | 'signal' | 'version'>): Promise<AskedDaemon> {
  const answer = await callDaemon({ url: `${url}/status`, timeoutMs: statusTimeoutMs }, io)
  if ('problem' in answer) return { url, ...answer }
  const fields = fieldsOf(answer.body)
  // The document has one meaning while its version is the same.
  const isStatus = answer.status === 200 && fields['schemaVersion'] === 2 && 'summary' in fields
  return isStatus
    ? { ...(fields as unknown as StatusDocument), url }
    : { url, problem: `HTTP ${answer.status}, not a daemon's status` }
}

/** Pauses and circuits live in the daemon's memory: no other process knows them. */
export async function askDaemon(
  server: Config['server'],
  io: Pick<Io, 'clock' | 'signal' | 'version'>,
): Promise<AskedDaemon> {
  if (server.port === 0) return { url: 'server.port 0', problem: 'any free port' }
  return readStatus(originOf(server), io)
}

/** Gates of the daemon that block everything; one of a newer version is ignored. */
function globalGatesOf({ gates }: DaemonState): Pick<ShutGate, 'gate' | 'opensInMs'>[] {
  return gates
    .filter(({ gate }) => Object.hasOwn(gateTable, gate) && gateTable[gate].blocks === 'everything')
    .map(({ gate, opensInSeconds }) => ({
      gate,
      opensInMs: opensInSeconds === null ? undefined : opensInSeconds * 1000,
    }))
}

/** Why the daemon retries nothing at all now; empty when it retries. `passed` names a gate to leave out. */
export function stopsOf(daemon: AskedDaemon, passed?: Gate): readonly string[] {
  if ('problem' in daemon) return []
  return globalGatesOf(daemon).flatMap(({ gate }) => (gate === passed ? [] : [reasonOf(gate)]))
}

/** Since when an operator has paused the daemon, as far as it is known. */
export function pausedSince(daemon: AskedDaemon): Date | null {
  if ('problem' in daemon) return null
  return daemon.pauses.find(({ subscriptionId }) => subscriptionId === null)?.since ?? null
}

/** What the daemon has against retries of a subscription now, as far as it is known. `passed` names a gate to leave out. */
export function situationOf(daemon: AskedDaemon, subscriptionId: string, passed?: Gate): Omit<Situation, 'now'> {
  if ('problem' in daemon) return {}
  const stops = globalGatesOf(daemon).filter(({ gate }) => gate !== passed)
  const circuit = daemon.circuits.list.find((one) => one.subscriptionId === subscriptionId)
  const { limit = Infinity, outstanding = 0, pausesForSeconds = 0 } = circuit ?? {}
  const isShut = pausesForSeconds > 0 || outstanding >= limit
  const gate = stops[0]?.gate ?? (isShut ? 'circuit' : undefined)
  const failing = circuit && { since: circuit.openSince.getTime(), responseStatusCode: circuit.responseStatusCode }
  return { gate, stopsForMs: stopsForMs(stops), ...(isShut && { pausesForMs: pausesForSeconds * 1000 }), failing }
}

/** Circuits whose cooldown goes on. */
export function openCircuitsOf({ circuits }: DaemonState): DaemonState['circuits']['list'] {
  return circuits.list.filter(({ pausesForSeconds }) => pausesForSeconds > 0)
}

function openText(daemon: DaemonState): string[] {
  const open = openCircuitsOf(daemon)
  if (open.length === 0) return []
  const next = Math.min(...open.map(({ pausesForSeconds }) => pausesForSeconds))
  const circuits = open.length === 1 ? 'a circuit is open' : `${open.length} circuits are open`
  return [`${circuits}, with the next probe in ${waitText(next * 1000)}`]
}

/** One line for people. */
export function inWords(daemon: AskedDaemon): string {
  if ('problem' in daemon) {
    return (
      `Pauses and circuits of the running daemon are not known: ` +
      `${daemon.url} does not answer (${daemon.problem}; server.host, server.port).`
    )
  }
  const holds = [...stopsOf(daemon), ...openText(daemon)]
  const text = holds.length === 0 ? 'holds no retries' : `holds retries: ${holds.join('; ')}`
  return `The daemon (${daemon.instance} at ${daemon.url}) ${text}.`
}
