// What people and probes see of the daemon: its first line, the heartbeat, readiness, the status. Reads the parts, changes none.
import { formatDuration } from './config/duration.ts'
import type { Config } from './config/schema.ts'
import type { Engine } from './engine.ts'
import type { Fact } from './facts.ts'
import type { LogFields } from './log.ts'
import { maxSweeps, type StatusState, type SweepEnd } from './ops/status.ts'

/** What has been seen to work since the start. Times in epoch ms of this host's clock. */
export interface Seen {
  startedAt: number
  token: boolean
  page: boolean
  /** When a sweep last ended without failing. */
  sweptAt: number | undefined
  /** The last sweeps that ended, oldest first. */
  sweeps: SweepEnd[]
}

export function nothingSeen(now: number): Seen {
  return { startedAt: now, token: false, page: false, sweptAt: undefined, sweeps: [] }
}

export function see(seen: Seen, fact: Fact, now: number): void {
  if (fact.type === 'token-refreshed' && fact.result === 'success') seen.token = true
  if (fact.type === 'platform-request' && fact.operation === 'list' && fact.reason === 'ok') seen.page = true
  if (fact.type !== 'sweep') return
  const { kind, result, seconds, listed } = fact.report
  if (result !== 'failed') seen.sweptAt = now
  seen.sweeps = [...seen.sweeps, { kind, result, endedAt: now, seconds, listed }].slice(-maxSweeps)
}

export function notReady(seen: Seen, stopping: boolean): string[] {
  return [
    ...(stopping ? ['stopping'] : []),
    ...(seen.token ? [] : ['no access token yet']),
    ...(seen.page ? [] : ['no list page of the platform yet']),
  ]
}

/** How the receiver's health is told in a line; undefined while nobody knows. */
function healthOf(up: boolean | undefined): string | undefined {
  if (up === undefined) return undefined
  return up ? 'up' : 'down'
}

/** The line that comes again and again, so that a quiet log is seen to be that of a daemon that works. */
export function heartbeat(engine: Engine, now: number, sweptAt: number | undefined): LogFields {
  const { awaiting, backlogRecords, circuits, inFlight, paused, rateLimit, receiverUp, summary } = engine.state()
  const { oldestOpenAt } = summary
  const seconds = (since: number | undefined): number | undefined =>
    since === undefined ? undefined : Math.round((now - since) / 1000)
  return {
    ...summary.counts,
    awaiting,
    backlogRecords,
    inFlight,
    oldestAgeSeconds: seconds(oldestOpenAt) ?? 0,
    lastSweepAgeSeconds: seconds(sweptAt),
    requestsPerSecond: Math.round(rateLimit * 10) / 10,
    trouble: engine.guard.trouble(),
    paused,
    receiver: healthOf(receiverUp),
    circuitsOpen: circuits.open,
    circuitsProbing: circuits.probing,
  }
}

export interface Identity {
  config: Config
  version: string
  nodeVersion: string
}

/** What a person wants to be sure of when it has started: where it points, and what it may do there. */
export function startedFields(
  { config, version, nodeVersion }: Identity,
  ports: { port: number; controlPort: number | undefined },
): LogFields {
  const { circuit, platform, receiver, retry, schedule, select, window } = config
  const selected = Object.entries(select).filter(([, names]) => names.length > 0)
  return {
    version,
    nodeVersion,
    port: ports.port,
    ...(ports.controlPort !== undefined && { controlPort: ports.controlPort }),
    platform: platform.baseUrl,
    issuer: config.auth.issuerUrl,
    schedule: schedule.cron,
    lookback: formatDuration(window.lookback),
    ...(window.notBefore !== undefined && { notBefore: new Date(window.notBefore).toISOString() }),
    ...(selected.length > 0 && { selectedBy: selected.map(([name]) => name) }),
    ...(receiver.healthUrl !== undefined && { receiverHealth: receiver.healthUrl }),
    ...(!circuit.enabled && { circuit: 'off: retries go at full pace, also into a receiver that is down' }),
    retries: retry.enabled ? 'enabled' : 'observe only',
  }
}

/** What /status shows. Times in epoch ms of this host's clock. */
export function statusState(
  engine: Engine,
  { config, version }: Identity,
  { seen, now, nextTickAt }: { seen: Seen; now: number; nextTickAt: number | undefined },
): StatusState {
  const state = engine.state()
  return {
    instance: config.instance.name,
    version,
    now,
    startedAt: seen.startedAt,
    retriesEnabled: config.retry.enabled,
    pausedSince: engine.pause.since(),
    receiver: config.receiver.healthUrl === undefined ? undefined : { up: state.receiverUp },
    trouble: engine.guard.trouble(),
    throttledForMs: engine.throttledForMs(),
    rateLimit: state.rateLimit,
    failed: state.summary.counts,
    oldestOpenAt: state.summary.oldestOpenAt,
    expiring: state.expiring,
    awaiting: state.awaiting,
    inFlight: state.inFlight,
    stuckProcessing: state.stuckProcessing,
    beyondWindow: state.beyondWindow,
    circuits: engine.circuits(),
    sweeps: seen.sweeps,
    nextTickAt,
    tokenExpiresAt: state.tokenExpiresAt,
  }
}
