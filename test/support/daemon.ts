// The whole daemon in this process, with its own log and ops server, in a time that goes fast and ticks when a test says so.
import { request } from 'undici'
import { systemClock, systemRandom } from '../../src/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import { runDaemon } from '../../src/daemon.ts'
import { connectionsOf } from '../../src/engine.ts'
import type { Log } from '../../src/log.ts'
import { createLogger } from '../../src/logger.ts'
import type { Transport } from '../../src/platform/http.ts'
import { createKeySource } from '../../src/platform/private-key.ts'
import { createUndiciTransport } from '../../src/platform/undici-transport.ts'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import { sandboxEnv } from './engine.ts'
import type { OffsetClock } from './offset-clock.ts'

export interface DaemonOptions {
  clock: OffsetClock
  /** Environment variables besides those that the sandbox needs; undefined takes one of these away. */
  env?: Readonly<Record<string, string | undefined>>
  /** Gets every line of the log as it is written. */
  write?: (line: string) => void
  /** Stands between the daemon and the network. */
  between?: (transport: Transport, log: Log) => Transport
}

export interface RunningDaemon extends AsyncDisposable {
  /** The schedule's next tick, now. */
  tick(): void
  /** Asks the ops server. */
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
  const { source: key } = await createKeySource(
    file === undefined ? { pem: pem ?? '', origin: 'test', ...passphrase } : { file, ...passphrase },
  )
  // Deadlines are real, whatever clock the daemon lives by.
  const http = createUndiciTransport({ clock: systemClock, connections: connectionsOf(config) })
  const listening = Promise.withResolvers<number>()
  const log = listeningTo(createLogger({ ...config.log, instance: 'test', clock, write }), listening.resolve)
  const stop = new AbortController()
  let onTick = (): void => undefined

  const running = runDaemon({
    config,
    version: '0.0.0',
    nodeVersion: process.version,
    clock,
    random: systemRandom,
    log,
    transport: between(timedBy(clock, http.transport), log),
    schedule: {
      nextAt: () => undefined,
      periodMs: 30_000,
      start(tick) {
        onTick = tick
        tick()
        return Promise.resolve()
      },
      stop: () => Promise.resolve(),
    },
    key,
    certificate: undefined,
    stop: stop.signal,
  })
  running.catch(listening.reject)
  const port = await listening.promise

  async function end(): Promise<void> {
    stop.abort(new Error('SIGTERM'))
    await running.finally(() => http.close())
  }

  return {
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

/** Tells the port of the ops server, which stands in the first line. */
function listeningTo(log: Log, tell: (port: number) => void): Log {
  return {
    ...log,
    info(message, fields) {
      log.info(message, fields)
      if (typeof fields?.['port'] === 'number') tell(fields['port'])
    },
  }
}

function timedBy(clock: OffsetClock, transport: Transport): Transport {
  return async (sent) => {
    const sentAt = clock.now()
    const answer = await transport(sent)
    return { ...answer, sentAt, receivedAt: clock.now() }
  }
}
