// The whole daemon in virtual time, beside a sandbox or a platform that the test plays: it ticks when the test says so, and what it reports is kept.
import { Readable } from 'node:stream'
import { expect } from 'vitest'
import { platformEnv, type Sandbox } from '../../sandbox/sandbox.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import type { SeedOptions } from '../../sandbox/records/seed.ts'
import type { JobDocument } from '../../src/cli/retry.ts'
import { runDaemon } from '../../src/daemon.ts'
import type { LeaseClient } from '../../src/leader-election/lease-client.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { createLog, type CountedLog } from '../../src/observe/log/log.ts'
import { createJobsEndpoint } from '../../src/ops/jobs-endpoint.ts'
import { createRecordsEndpoint } from '../../src/ops/records-endpoint.ts'
import type { ExplainedRecord } from '../../src/records/shown-record.ts'
import type { Listener } from '../../src/ops/listen.ts'
import type { OpsServerOptions, startOpsServer } from '../../src/ops/server.ts'
import type { HttpRequest, HttpResponse, Transport } from '../../src/platform/http/http.ts'
import type { Certificate } from '../../src/platform/auth/certificate.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import type { Policy } from '../../src/reconcile/policy.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { finish } from '../../src/runtime/steps.ts'
import type { StatusDocument } from '../../src/ops/status-document.ts'
import { hourMs, minuteMs } from './backlog.ts'
import { load, requiredEnv } from './configuration.ts'
import { inProcessKey, inProcessTransport, quickKeys } from './in-process.ts'
import { keepingLog, type Line } from './log.ts'
import { startPlatform } from './platform.ts'
import { textOf } from './ops-server.ts'
import { parseSamples, sumOf } from './samples.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export { hourMs, minuteMs }
export const periodMs = 30_000
export const token = 'CANARY-0123456789abcdef0123456789abcdef'
export const withControl = { RECONCILER_CONTROL_TOKEN: token }
export const withReceiver = { RECONCILER_RECEIVER_HEALTH_URL: 'http://receiver.example/healthz' }

export type Reply = Partial<Pick<HttpResponse, 'status' | 'headers'>> & { body?: unknown }

export interface DaemonOptions {
  /** Default: one of its own, on which nothing may sleep when it has ended. */
  clock?: VirtualClock
  /** As its host has it. Default: `clock`. */
  hostClock?: Clock
  /** Environment variables besides those without which it does not start; undefined takes one of these away. */
  env?: Readonly<Record<string, string | undefined>>
  /** Its platform, on the same clock. Default: one without failed records. */
  sandbox?: Sandbox
  /** Another answer than that of the platform. */
  instead?: (request: HttpRequest) => Reply | Promise<Reply | undefined> | undefined
  /** Stands between the daemon and the platform. */
  between?: (transport: Transport) => Transport
  lease?: LeaseClient
  /** In place of what is no setting. */
  policy?: Partial<Policy>
  /** Gets each fact in the moment in which it is reported. */
  hear?: (fact: TelemetryEvent) => void
  /** Default: it listens nowhere. */
  startServer?: typeof startOpsServer
  /** True: what Node says of this process is among its metrics. */
  processMetrics?: boolean
  /** Default: none. */
  certificate?: Reloadable<Certificate>
  once?: boolean
  /** From a tick to the next one that the schedule knows of. Default 1 h. */
  gapMs?: number
}

/** What GET /records answers; `error` alone where the request is at fault. */
export interface RecordsDocument {
  source: string
  records: readonly (Omit<ExplainedRecord, 'event'> & { event: string })[]
  count: number
  notFound: readonly string[]
  incomplete: string | null
  next: string | null
  error: string | null
  leader?: string | null
}

/** A retry job, as its requests are answered; `error` alone where one is at fault. */
type JobAnswer = JobDocument & { status: number; error?: string }

/** The response of this server to a request of a retry job. */
export async function askJob(
  { control: { jobs } }: Pick<OpsServerOptions, 'control'>,
  method: string,
  id: string,
  body?: unknown,
): Promise<JobAnswer> {
  const sent = body === undefined ? [] : [Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))]
  const request = Object.assign(Readable.from(sent), { method, url: `/-/retry${id}` })
  const { status, ...answer } = await createJobsEndpoint(jobs)(request as never, 'token')
  return { ...(JSON.parse(await textOf(answer)) as JobDocument), status }
}

export interface RunningDaemon extends AsyncDisposable {
  clock: VirtualClock
  facts: TelemetryEvent[]
  /** What it logged at any level, as it was given. */
  lines: Line[]
  /** Its log as it is written at `log.level`. */
  written: string[]
  requests: HttpRequest[]
  /** Lists that were asked for. */
  lists(): number
  listening: Promise<Listener>
  /** What its ops server was started with: /status, probes and commands. */
  ops(): Omit<OpsServerOptions, 'status'> & { status(): StatusDocument }
  /** The response to GET /records with this query. */
  records(query: string, authorization?: string): Promise<RecordsDocument & { status: number }>
  /** The response to a request of a retry job: `/ID`, or nothing for all of them. */
  job(method: string, id: string, body?: unknown): Promise<JobAnswer>
  /** Sum of the series of one of our metrics whose labels contain these; NaN when there is none. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>
  /** Listeners that are open. */
  open(): number
  running: Promise<unknown>
  /** A tick of the schedule; the one at the start comes by itself. */
  tick(): void
  /** Ticks, and lets time pass after each: a minute by default. */
  goOn(ticks?: number, gapMs?: number): Promise<void>
  /** Asks it to end, as SIGTERM does. */
  stop(): void
  /** Ends it in good order. Rejects when it ended because of a bug. */
  end(): Promise<void>
}

/** All pages of a list. */
export async function pagesOf(daemon: RunningDaemon, query: string, cursor = ''): Promise<RecordsDocument[]> {
  const page = await daemon.records(`${query}${cursor}`)
  return page.next === null ? [page] : [page, ...(await pagesOf(daemon, query, `&cursor=${page.next}`))]
}

export const emptyPage = {
  data: { webhooks: [] },
  metadata: { page: { size: 100, number: 0, totalElements: 0, totalPages: 0 } },
}
const aToken = { access_token: 'token', token_type: 'Bearer', expires_in: 3600, scope: 'api' }

export function startDaemon(options: DaemonOptions = {}): RunningDaemon {
  const { clock = createVirtualClock(), gapMs = hourMs, instead, sandbox } = options
  const { hostClock = clock, between = (transport) => transport } = options
  const { startServer = () => Promise.resolve({ port: 1, close: () => Promise.resolve() }) } = options
  const facts: TelemetryEvent[] = []
  const lines: Line[] = []
  const written: string[] = []
  const requests: HttpRequest[] = []
  const stop = new AbortController()
  const listening = Promise.withResolvers<Listener>()
  let server: OpsServerOptions | undefined
  let open = 0
  let onTick: (() => void) | undefined

  const required = sandbox
    ? { ...platformEnv(sandbox, '/run/key.pem'), RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000' }
    : requiredEnv
  const { config } = load({ env: { ...required, ...options.env } })
  const writing = createLog({
    ...config.log,
    instance: 'test',
    clock: hostClock,
    write: (line) => void written.push(line),
  })
  const keeping = keepingLog((line) => lines.push(line))
  const log: CountedLog = {
    event(id, fields, level) {
      writing.event(id, fields, level)
      keeping.event(id, fields, level)
    },
    countLines: writing.countLines,
  }

  const wire = sandbox && inProcessTransport(sandbox, clock)
  const platform: Transport = async (request) => {
    requests.push(request)
    const reply = await instead?.(request)
    if (reply === undefined && wire !== undefined) return wire(request)
    request.signal?.throwIfAborted()
    const { status = 200, headers = {}, body = {} } = reply ?? { body: request.method === 'POST' ? aToken : emptyPage }
    return { status, headers, body: JSON.stringify(body), sentAt: clock.monotonic(), receivedAt: clock.monotonic() }
  }

  const running = runDaemon({
    config,
    log,
    key: inProcessKey(quickKeys().privateKeyPem),
    transport: between(platform),
    clock: hostClock,
    random: { next: () => 0.5, uuid: () => crypto.randomUUID() },
    lease: options.lease,
    once: options.once,
    certificate: options.certificate,
    secrets: () => ({ token, proofs: [] }),
    proxy: undefined,
    version: '1.2.3',
    nodeVersion: 'v26',
    schedule: {
      periodMs,
      nextAt: () => onTick && hostClock.monotonic() + gapMs,
      start(tick) {
        onTick = tick
        tick()
      },
      stop: () => undefined,
    },
    stop: stop.signal,
    host: {
      async startServer(ops) {
        const listener = await startServer(ops)
        server = ops
        open += 1
        listening.resolve(listener)
        return { ...listener, close: () => listener.close().finally(() => (open -= 1)) }
      },
      processMetrics: options.processMetrics ?? false,
      policy: options.policy ?? {},
      emit(fact) {
        facts.push(fact)
        options.hear?.(fact)
      },
    },
  })
  running.catch(listening.reject)
  listening.promise.catch(() => undefined)

  const ops: RunningDaemon['ops'] = () => {
    if (server === undefined) throw new Error('the ops server was not started')
    const { status } = server
    return { ...server, status: () => finish(status()) }
  }
  const abort = (): void => {
    stop.abort(new Error('SIGTERM'))
  }
  const end = async (): Promise<void> => {
    abort()
    await clock.run(running)
    expect(open).toBe(0)
    if (options.clock === undefined) expect(clock.sleepers()).toBe(0)
  }
  return {
    clock,
    facts,
    lines,
    written,
    requests,
    lists: () => requests.filter(({ url }) => url.pathname.endsWith('/webhooks')).length,
    listening: listening.promise,
    ops,
    async records(query, authorization = `Bearer ${token}`) {
      const asker = { headers: { authorization }, socket: { remoteAddress: '127.0.0.1' } } as never
      const { status, ...answer } = await clock.run(createRecordsEndpoint(ops().records)(query, asker))
      return { ...(JSON.parse(await clock.run(textOf(answer))) as RecordsDocument), status }
    },
    job: (method, id, body) => askJob(ops(), method, id, body),
    async metric(name, labels) {
      return sumOf(parseSamples(await ops().metrics()), `webhook_reconciler_${name}`, labels)
    },
    open: () => open,
    running,
    tick: () => {
      onTick?.()
    },
    async goOn(ticks = 1, gap = minuteMs) {
      for (let turn = 0; turn < ticks; turn += 1) {
        onTick?.()
        await clock.advance(gap)
      }
    },
    stop: abort,
    end,
    [Symbol.asyncDispose]: end,
  }
}

/** The daemon drops payloads; those of the specification would take a quarter of a scene's time to render and parse. */
const ofSmallPayload = ['card-created', 'card-blocked', 'card-closed', 'card-renewed'] as const

export interface Day extends AsyncDisposable {
  clock: VirtualClock
  sandbox: Sandbox
  /** Adds failed records of events between so many hours ago. Default: tried once. Returns their ids. */
  seed(count: number, hoursAgo: readonly [from: number, to: number], more?: Partial<SeedOptions>): string[]
  /** Starts a daemon beside it, with its first tick, and lets a minute pass. */
  start(env?: DaemonOptions['env'], instead?: DaemonOptions['instead'], more?: DaemonOptions): Promise<RunningDaemon>
}

/** A sandbox in virtual time, for a test to fill before the daemon starts. `startMs` is the wall clock at the start, in epoch ms. */
export async function beginDay(options: Partial<SandboxOptions> = {}, startMs?: number): Promise<Day> {
  const clock = createVirtualClock(startMs)
  await using starting = new AsyncDisposableStack()
  const sandbox = starting.use(await startPlatform({ inProcess: true, clock, ...options }))
  const running = starting.move()
  return {
    clock,
    sandbox,
    seed(count, hoursAgo, more) {
      const [from, to] = hoursAgo.map((hours) => clock.now() - hours * hourMs) as [number, number]
      return sandbox.seed({ count, from, to, attempts: 1, eventTypes: [...ofSmallPayload], ...more })
    },
    async start(env = {}, instead = () => undefined, more = {}) {
      const daemon = running.use(startDaemon({ clock, sandbox, env, instead, ...more }))
      await clock.advance(minuteMs)
      return daemon
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
