// The real daemon on a virtual clock, without sockets: its listeners' options are the test's, and the platform answers as the test says.
import { expect } from 'vitest'
import { runDaemon } from '../../src/daemon.ts'
import type { DaemonHost } from '../../src/daemon-parts.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { createLog, type CountedLog } from '../../src/observe/log/log.ts'
import type { ControlOptions } from '../../src/ops/control.ts'
import type { OpsServerOptions } from '../../src/ops/server.ts'
import type { HttpRequest, HttpResponse, Transport } from '../../src/platform/http/http.ts'
import type { Certificate } from '../../src/platform/auth/certificate.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import type { SigningKey } from '../../src/platform/auth/private-key.ts'
import { keepingLog, type Line } from './log.ts'
import { loadWith } from './configuration.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

const key: Reloadable<SigningKey> = {
  current: () => ({ sign: () => Promise.resolve('assertion'), bits: 4096, fingerprint: 'none' }),
  reload: () => false,
  lastReload: () => undefined,
}
export const periodMs = 30_000
export const token = 'CANARY-0123456789abcdef0123456789abcdef'
export const withControl = { RECONCILER_CONTROL_TOKEN: token }
export const withReceiver = { RECONCILER_RECEIVER_HEALTH_URL: 'http://receiver.example/healthz' }

export type Reply = Partial<Pick<HttpResponse, 'status' | 'headers'>> & { body?: unknown }

export interface Scene {
  clock: VirtualClock
  facts: TelemetryEvent[]
  lines: Line[]
  requests: HttpRequest[]
  /** When lists were asked for, on the monotonic clock. */
  listedAt: number[]
  /** The options that the ops server got, and those of the commands; undefined without `control.token`. */
  server(): OpsServerOptions
  control(): ControlOptions | undefined
  /** Listeners that are open. */
  open(): number
  running: Promise<void>
  /** A tick of the schedule; the one at the start comes by itself. */
  tick(): void
  /** Aborts; the end is to be waited for. */
  stop(): void
  end(): Promise<void>
}

export interface SceneOptions {
  env?: Record<string, string>
  /** Text of its configuration file. Default: it has none. */
  yaml?: string
  /** Another answer than that of a platform without failed records. */
  instead?: (request: HttpRequest) => Reply | Promise<Reply> | undefined
  host?: Partial<DaemonHost>
  /** As the first line shows it. */
  proxy?: string
  /** Default: none. */
  certificate?: Reloadable<Certificate>
  /** From a tick to the next one that the schedule knows of. Default 1 h. */
  gapMs?: number
}

export const emptyPage = {
  data: { webhooks: [] },
  metadata: { page: { size: 100, number: 0, totalElements: 0, totalPages: 0 } },
}
const aToken = { access_token: 'token', token_type: 'Bearer', expires_in: 3600, scope: 'api' }

export function startScene({
  env = {},
  yaml,
  instead,
  host,
  proxy,
  certificate,
  gapMs = 3_600_000,
}: SceneOptions = {}): Scene {
  const clock = createVirtualClock()
  const facts: TelemetryEvent[] = []
  const lines: Line[] = []
  const requests: HttpRequest[] = []
  const listedAt: number[] = []
  const stop = new AbortController()
  let server: OpsServerOptions | undefined
  let open = 0
  let onTick = (): void => undefined
  let tickedAt = Infinity
  const listener = { port: 1, drain: () => undefined, close: () => Promise.resolve(void (open -= 1)) }
  const { config } = loadWith({ env, yaml })
  const written = createLog({ ...config.log, instance: 'test', clock, write: () => undefined })
  const kept = keepingLog((line) => lines.push(line))
  const log: CountedLog = {
    event(id, fields, level) {
      written.event(id, fields, level)
      kept.event(id, fields, level)
    },
    countLines: written.countLines,
  }

  const transport: Transport = async (request) => {
    requests.push(request)
    if (request.url.pathname.endsWith('/webhooks')) listedAt.push(clock.monotonic())
    const reply = (await instead?.(request)) ?? { body: request.method === 'POST' ? aToken : emptyPage }
    request.signal?.throwIfAborted()
    const { status = 200, headers = {}, body = {} } = reply
    return { status, headers, body: JSON.stringify(body), sentAt: clock.monotonic(), receivedAt: clock.monotonic() }
  }

  const running = runDaemon({
    config,
    log,
    key,
    transport,
    clock,
    random: { next: () => 0.5, uuid: () => '00000000-0000-4000-8000-000000000000' },
    certificate,
    proxy,
    version: '1.2.3',
    nodeVersion: 'v26',
    schedule: {
      periodMs,
      nextAt: () => clock.now() + gapMs,
      isLate: () => clock.monotonic() > tickedAt + gapMs + 120_000,
      start: (tick) => {
        onTick = () => {
          tickedAt = clock.monotonic()
          tick()
        }
        onTick()
        return Promise.resolve()
      },
      stop: () => Promise.resolve(),
    },
    stop: stop.signal,
    host: {
      startServer: (options) => {
        server = options
        open += 1
        return Promise.resolve(listener)
      },
      processMetrics: false,
      emit: (fact) => facts.push(fact),
      ...host,
    },
  })
  running.catch(() => undefined)
  const abort = (): void => {
    stop.abort(new Error('SIGTERM'))
  }
  return {
    clock,
    facts,
    lines,
    requests,
    listedAt,
    server() {
      if (server === undefined) throw new Error('the ops server was not started')
      return server
    },
    control: () => server?.control,
    open: () => open,
    running,
    tick: () => {
      onTick()
    },
    stop: abort,
    async end() {
      abort()
      await clock.run(running)
      expect(clock.sleepers()).toBe(0)
      expect(open).toBe(0)
    },
  }
}

/** Full sweeps that ended. */
export function fullSweeps({ facts }: Scene): number {
  return facts.filter((fact) => fact.type === 'sweep' && fact.report.kind === 'full').length
}

/** Value of a series, named as in the exposition without its prefix; a pattern. */
export async function metricOf(scene: Scene, series: string): Promise<number> {
  const { text } = await scene.server().metrics()
  return Number(new RegExp(`^webhook_reconciler_${series} (\\S+)$`, 'm').exec(text)?.[1])
}
