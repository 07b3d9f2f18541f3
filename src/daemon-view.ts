// What people and probes see of the daemon: its first line, the heartbeat, readiness, the status. Reads the parts, changes none.
import { formatDuration } from './config/duration.ts'
import type { Config } from './config/schema.ts'
import type { Engine } from './engine.ts'
import type { Fact } from './observe/events.ts'
import type { LogEventFields } from './observe/log-events.ts'
import type { History } from './observe/history.ts'
import { maxCauses, maxParked, maxSweeps, type StatusState, type SweepEnd } from './ops/status.ts'
import { groupByCause, type Causes } from './ops/causes.ts'
import { decisions } from './reconcile/decide.ts'

/** What has been seen to work since the start. Times in epoch ms of this host's clock. */
export interface Seen {
  startedAt: number
  token: boolean
  page: boolean
  /** When a sweep last ended without failing. */
  sweptAt: number | undefined
  /** When a full sweep last ended without failing, and when one last saw the whole window. */
  fullySweptAt: number | undefined
  completeAt: number | undefined
  /** How far attempts of retried records lay outside the time in which they were made, as last seen; in ms. */
  timeOffsetMs: number | undefined
  /** The last sweeps that ended, oldest first. */
  sweeps: SweepEnd[]
}

export function nothingSeen(now: number): Seen {
  return {
    startedAt: now,
    token: false,
    page: false,
    sweptAt: undefined,
    fullySweptAt: undefined,
    completeAt: undefined,
    timeOffsetMs: undefined,
    sweeps: [],
  }
}

function seeSweep(seen: Seen, { report }: Extract<Fact, { type: 'sweep' }>, now: number): void {
  const { continued, failure, kind, listed, result, seconds } = report
  if (result !== 'failed') seen.sweptAt = now
  if (kind === 'full' && !continued && result !== 'failed') {
    seen.fullySweptAt = now
    if (result === 'complete') seen.completeAt = now
  }
  const why = failure && `${failure.stage}: ${failure.reason}${failure.code === undefined ? '' : ` (${failure.code})`}`
  seen.sweeps = [...seen.sweeps, { kind, result, endedAt: now, seconds, listed, problem: why }].slice(-maxSweeps)
}

export function see(seen: Seen, fact: Fact, now: number): void {
  if (fact.type === 'token-refreshed' && fact.result === 'success') seen.token = true
  if (fact.type === 'platform-request' && fact.operation === 'list' && fact.reason === 'ok') seen.page = true
  if (fact.type === 'sweep') seeSweep(seen, fact, now)
  if (fact.type === 'outcome') seen.timeOffsetMs = fact.timeOffsetMs ?? seen.timeOffsetMs
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
export function heartbeat(engine: Engine, now: number, sweptAt: number | undefined): LogEventFields['heartbeat'] {
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
    trouble: engine.breaker.trouble(),
    paused,
    receiver: healthOf(receiverUp),
    circuitsOpen: circuits.open,
    circuitsProbing: circuits['half-open'],
  }
}

/** An address as a log may show it: a query may hold a token. */
function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url)
  return origin + pathname
}

export interface Identity {
  config: Config
  /** The proxies that calls go through, without credentials. */
  proxy?: string | undefined
  version: string
  nodeVersion: string
}

/** What a person wants to be sure of when it has started: where it points, and what it may do there. */
export function startedFields(
  { config, proxy, version, nodeVersion }: Identity,
  ports: { port: number; controlPort: number | undefined },
): LogEventFields['daemon_started'] {
  const { circuit, platform, receiver, retry, schedule, select, window } = config
  const selected = Object.entries(select).filter(([, names]) => names.length > 0)
  return {
    version,
    nodeVersion,
    port: ports.port,
    ...(ports.controlPort !== undefined && { controlPort: ports.controlPort }),
    platform: platform.baseUrl,
    issuer: config.auth.issuerUrl,
    ...(proxy !== undefined && { proxy }),
    schedule: schedule.cron,
    lookback: formatDuration(window.lookback),
    ...(window.notBefore !== undefined && { notBefore: new Date(window.notBefore).toISOString() }),
    ...(selected.length > 0 && { selectedBy: selected.map(([name]) => name) }),
    ...(receiver.healthUrl !== undefined && { receiverHealth: withoutQuery(receiver.healthUrl) }),
    ...(!circuit.enabled && { circuit: 'off: retries go at full pace, also into a receiver that is down' }),
    retries: retry.enabled ? 'enabled' : 'observe only',
  }
}

/** Missing deliveries of which only the number is known: there was no room for them. */
function onlyCountedOf({ backlog }: Pick<Engine, 'backlog'>): number {
  const counts = backlog.census.counts()
  return decisions.reduce((sum, decision) => (decision === 'excluded' ? sum : sum + counts[decision]), 0)
}

/** Deliveries that are missing, without a look at each of them: excluded ones are not kept, only counted. */
export function missingOf(engine: Pick<Engine, 'backlog'>): number {
  return engine.backlog.size() + onlyCountedOf(engine)
}

/** The causes at this moment. It looks at every record: the ops server shares one answer among those who ask within a second. */
export function causesOf({ backlog, client, gates, policy }: Engine): Causes {
  return groupByCause(backlog.entries(), { policy, now: client.now(), gateOf: gates.of, maxCauses, maxParked })
}

/** What the present moment is shown with. Times in epoch ms of this host's clock. */
export interface Moment {
  seen: Seen
  history: History
  causes: Causes
  now: number
  nextTickAt: number | undefined
}

/** What /status and the status page show. Times in epoch ms of this host's clock. */
export function statusState(
  engine: Engine,
  { config, version }: Identity,
  { seen, history, causes, now, nextTickAt }: Moment,
): StatusState {
  const state = engine.state()
  return {
    instance: config.instance.name,
    version,
    now,
    startedAt: seen.startedAt,
    gates: engine.gates.shut(),
    receiver: config.receiver.healthUrl === undefined ? undefined : { up: state.receiverUp },
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
    lastFullSweepAt: seen.fullySweptAt,
    lastCompleteSweepAt: seen.completeAt,
    nextTickAt,
    tokenExpiresAt: state.tokenExpiresAt,
    certificateExpiresAt: state.certificateExpiresAt,
    causes,
    onlyCounted: onlyCountedOf(engine),
    history: history.minutes(),
    recoveredPerMs: history.recoveredPerMs(),
    skewMs: state.skewMs,
    timeZone: config.platform.timeZone,
    timeOffsetMs: seen.timeOffsetMs,
  }
}
