// The running daemon's /status, as other commands read it.
import { z } from 'zod/mini'
import type { Config } from '../config/schema.ts'
import { decisions, waits, type Situation } from '../reconcile/decide.ts'
import { circuitStates } from '../reconcile/retry/circuits.ts'
import { gateTable, reasonOf, stopsForMs, type Gate, type ShutGate } from '../reconcile/retry/gates.ts'
import { callDaemon, originOf } from './daemon-call.ts'
import type { Io } from './io.ts'

/** Parses a JSON text; undefined for one that does not fit. */
export function parseAs<S extends z.ZodMiniType>(schema: S, text: string): z.infer<S> | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

const time = z.nullable(z.iso.datetime())

/** The part of /status that other commands need. A daemon of another version may show more, or less of the rest. */
const gatesSchema = z.object({
  schemaVersion: z.literal(2),
  instance: z.string(),
  now: z.iso.datetime(),
  paused: z.nullable(z.looseObject({ since: time })),
  missing: z.optional(z.number()),
  gates: z.array(z.looseObject({ gate: z.string(), opensInSeconds: z.optional(z.nullable(z.number())) })),
  awaiting: z.number(),
  circuits: z.looseObject({
    list: z.array(
      z.looseObject({
        subscriptionId: z.string(),
        pausesForSeconds: z.number(),
        limit: z.optional(z.number()),
        outstanding: z.optional(z.number()),
      }),
    ),
  }),
})

/** The part of /status that `status` shows. */
const statusSchema = z.looseObject({
  ...gatesSchema.shape,
  version: z.string(),
  summary: z.looseObject({
    level: z.string(),
    headline: z.string(),
    detail: z.string(),
    advice: z.string(),
    notices: z.array(z.looseObject({ level: z.string(), text: z.string(), advice: z.string() })),
  }),
  missing: z.number(),
  failed: z.record(z.string(), z.number()),
  inFlight: z.number(),
  drain: z.looseObject({
    recoveredPerMinute: z.number(),
    seconds: z.nullable(z.number()),
    limitedBy: z.optional(z.nullable(z.enum(['pace', 'backoff']))),
  }),
  rate: z.looseObject({ callsPerSecond: z.number() }),
  causes: z.looseObject({
    total: z.number(),
    list: z.array(
      z.looseObject({
        subscriptionId: z.string(),
        responseStatusCode: z.nullable(z.number()),
        records: z.number(),
        eventTypes: z.object({
          total: z.number(),
          list: z.array(z.object({ eventType: z.string(), records: z.number() })),
        }),
        byDecision: z.record(z.enum(decisions), z.number()),
        oldestEvent: z.nullable(z.coerce.date()),
        nextRetry: z.nullable(z.coerce.date()),
        nextRetryBy: z.enum(waits),
        circuit: z.optional(z.enum(circuitStates)),
      }),
    ),
    more: z.looseObject({ records: z.number() }),
  }),
  lastFullSweep: time,
  nextTick: time,
})

export type DaemonStatus = z.infer<typeof statusSchema>

/** Its pause, gates and retries without an outcome, as in /status. */
export interface DaemonState extends Omit<z.infer<typeof gatesSchema>, 'circuits'> {
  /** Origin of the daemon. */
  url: string
  /** Circuits that let no retry out: the rest of each cooldown in ms, by subscription; 0 while a probe is under way. */
  shutCircuits: ReadonlyMap<string, number>
}

/** The daemon's state, or the reason why it is not known. */
export type AskedDaemon = { url: string; problem: string } | DaemonState

const statusTimeoutMs = 2000

/** The daemon's /status; rejects only with the signal's reason. */
async function readAs<S extends z.ZodMiniType>(
  schema: S,
  url: string,
  io: Pick<Io, 'clock' | 'signal'>,
): Promise<{ status: z.infer<S> } | { problem: string }> {
  const answer = await callDaemon({ url: `${url}/status`, method: 'GET', timeoutMs: statusTimeoutMs }, io)
  if ('problem' in answer) return answer
  const status = answer.status === 200 ? parseAs(schema, answer.body) : undefined
  return status === undefined ? { problem: `HTTP ${answer.status}, not a daemon's status` } : { status }
}

export function readStatus(
  url: string,
  io: Pick<Io, 'clock' | 'signal'>,
): Promise<{ status: DaemonStatus } | { problem: string }> {
  return readAs(statusSchema, url, io)
}

/** Pauses and circuits live in the daemon's memory: no other process knows them. */
export async function askDaemon(server: Config['server'], io: Pick<Io, 'clock' | 'signal'>): Promise<AskedDaemon> {
  if (server.port === 0) return { url: 'server.port 0', problem: 'any free port' }
  const url = originOf(server)
  const read = await readAs(gatesSchema, url, io)
  if ('problem' in read) return { url, ...read }
  const { circuits, ...state } = read.status
  const shutCircuits = circuits.list
    .filter(({ limit = Infinity, outstanding = 0, pausesForSeconds: rest }) => rest > 0 || outstanding >= limit)
    .map(({ pausesForSeconds, subscriptionId }) => [subscriptionId, pausesForSeconds * 1000] as const)
  return { ...state, url, shutCircuits: new Map(shutCircuits) }
}

function isGate(name: string): name is Gate {
  return Object.hasOwn(gateTable, name)
}

/** How many more deliveries the daemon missed before than after; 0 where that is not known. */
export function recoveredBetween(before: AskedDaemon, after: AskedDaemon): number {
  if ('problem' in before || 'problem' in after || before.instance !== after.instance) return 0
  return Math.max(0, (before.missing ?? 0) - (after.missing ?? Infinity))
}

/** Gates of the daemon that block everything; one of a newer version is ignored. */
function globalGatesOf({ gates }: DaemonState): Pick<ShutGate, 'gate' | 'opensInMs'>[] {
  return gates.flatMap(({ gate, opensInSeconds }) =>
    isGate(gate) && gateTable[gate].blocks === 'everything'
      ? [{ gate, opensInMs: opensInSeconds == null ? undefined : opensInSeconds * 1000 }]
      : [],
  )
}

/** Why the daemon retries nothing at all now; empty when it retries. `passed` names a gate to leave out. */
export function stopsOf(daemon: AskedDaemon, passed?: Gate): readonly string[] {
  if ('problem' in daemon) return []
  return globalGatesOf(daemon).flatMap(({ gate }) => (gate === passed ? [] : [reasonOf(gate)]))
}

/** Since when an operator has paused the daemon, as far as it is known. */
export function pausedSince(daemon: AskedDaemon): string | null {
  return 'problem' in daemon || daemon.paused === null ? null : (daemon.paused.since ?? daemon.now)
}

/** What the daemon has against retries of a subscription now, as far as it is known. `passed` names a gate to leave out. */
export function situationOf(daemon: AskedDaemon, subscriptionId: string, passed?: Gate): Omit<Situation, 'now'> {
  if ('problem' in daemon) return {}
  const stops = globalGatesOf(daemon).filter(({ gate }) => gate !== passed)
  const pausesForMs = daemon.shutCircuits.get(subscriptionId)
  const gate = stops[0]?.gate ?? (pausesForMs === undefined ? undefined : 'circuit')
  return { gate, stopsForMs: stopsForMs(stops), pausesForMs }
}

/** Subscriptions whose circuit is open. */
export function openCircuitsOf({ shutCircuits }: DaemonState): string[] {
  return [...shutCircuits].filter(([, pausesForMs]) => pausesForMs > 0).map(([subscriptionId]) => subscriptionId)
}

function openText(daemon: DaemonState): string[] {
  const open = openCircuitsOf(daemon)
  if (open.length === 0) return []
  const next = Math.ceil(Math.min(...open.map((id) => daemon.shutCircuits.get(id) ?? Infinity)) / 1000)
  const circuits = open.length === 1 ? 'a circuit is open' : `${open.length} circuits are open`
  return [`${circuits}, with the next probe in ${next} s`]
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
