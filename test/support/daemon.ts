// The whole daemon in this process, with its own log and ops server, on a virtual clock; it ticks when a test says so.
import { request } from 'undici'
import { systemRandom } from '../../src/runtime/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import { runDaemon } from '../../src/daemon.ts'
import { startOpsServer, type OpsServerOptions } from '../../src/ops/server.ts'
import { createLog, type Log } from '../../src/observe/log/log.ts'
import type { Transport } from '../../src/platform/http/http.ts'
import { loadKey, type SigningKey } from '../../src/platform/auth/private-key.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { sandboxEnv } from './reconciler.ts'
import { inProcessKey, inProcessTransport } from './in-process.ts'
import { testKeys } from './keys.ts'
import type { VirtualClock } from './virtual-clock.ts'

export interface DaemonOptions {
  clock: VirtualClock
  /** Environment variables besides those that the sandbox needs; undefined takes one of these away. */
  env?: Readonly<Record<string, string | undefined>>
  /** Gets every line of the log as it is written. */
  write?: (line: string) => void
  /** True: what Node says of this process is among its metrics. */
  processMetrics?: boolean
  /** Stands between the daemon and the platform. */
  between?: (transport: Transport, log: Log) => Transport
}

export interface RunningDaemon extends AsyncDisposable {
  /** The schedule's next tick, now. */
  tick(): void
  /** What its ops server was started with. */
  ops(): OpsServerOptions
  /** Asks the ops server, over a socket. */
  get(path: string): Promise<{ status: number; body: string }>
  /** Ends it in good order. Rejects when it ended because of a bug. */
  stop(): Promise<void>
}

const env = {
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000',
  RECONCILER_SERVER_HOST: '127.0.0.1',
  RECONCILER_SERVER_PORT: '0',
  RECONCILER_SHUTDOWN_GRACE: '1s',
}

/** Starts a daemon for this sandbox; resolves when its ops server listens. */
export async function startDaemon(sandbox: Sandbox, options: DaemonOptions): Promise<RunningDaemon> {
  const { clock, write = () => undefined, between = (transport) => transport } = options
  const { config } = loadConfig({
    env: { ...env, ...(await sandboxEnv(sandbox)), ...options.env },
    hostName: 'test',
    readFile: () => '',
  })
  const { privateKey: pem, privateKeyFile: file, privateKeyPassphrase: value } = config.auth
  const passphrase = value === undefined ? {} : { passphrase: { value, origin: 'test' } }
  const source = loadKey(
    file === undefined ? { pem: pem ?? '', origin: 'test', ...passphrase } : { file, ...passphrase },
  )
  const listening = Promise.withResolvers<{ ops: OpsServerOptions; port: number }>()
  const log = createLog({ ...config.log, instance: 'test', clock, write })
  const stop = new AbortController()
  let onTick = (): void => undefined

  const running = runDaemon({
    config,
    version: '0.0.0',
    nodeVersion: process.version,
    clock,
    random: systemRandom,
    log,
    transport: between(inProcessTransport(sandbox, clock), log),
    schedule: {
      nextAt: () => undefined,
      isLate: () => false,
      periodMs: 30_000,
      start(tick) {
        onTick = tick
        tick()
        return Promise.resolve()
      },
      stop: () => Promise.resolve(),
    },
    key: await signingAtOnce(source),
    certificate: undefined,
    stop: stop.signal,
    host: {
      async startServer(ops) {
        const server = await startOpsServer(ops)
        listening.resolve({ ops, port: server.port })
        return server
      },
      emit: () => undefined,
      processMetrics: options.processMetrics ?? false,
    },
  })
  running.catch(listening.reject)
  const { ops, port } = await listening.promise

  function end(): Promise<void> {
    stop.abort(new Error('SIGTERM'))
    return clock.run(running)
  }

  return {
    ops: () => ops,
    tick() {
      onTick()
    },
    async get(path) {
      const { statusCode, body } = await request(`http://127.0.0.1:${port}${path}`)
      return { status: statusCode, body: await body.text() }
    },
    stop: end,
    [Symbol.asyncDispose]: end,
  }
}

/** The key as it was loaded; it is the test key, in any form. */
async function signingAtOnce(source: Reloadable<SigningKey>): Promise<Reloadable<SigningKey>> {
  const { sign } = inProcessKey((await testKeys()).privateKeyPem).current()
  return { ...source, current: () => ({ ...source.current(), sign }) }
}
