// `run` in this process, with sockets, files and time of the host: a process is only started where signals and exits of the process count.
import { runCommand, type CommandOptions, type Ran } from './command.ts'
import { keepOutput, readMetrics, type DaemonMetrics, type LogLine } from './process.ts'
import type { LogEventId } from '../../src/observe/log/log-events.ts'

export interface LocalDaemon extends AsyncDisposable {
  /** Origin of its ops server. */
  readonly url: string
  metrics(): Promise<DaemonMetrics>
  /** Lines of its log so far. */
  log(): LogLine[]
  /** The first line of this event (and with these fields); rejects when it ends, or the test's time is over, without one. */
  said(event: LogEventId, fields?: Readonly<Record<string, unknown>>): Promise<LogLine>
  /** Ends it as SIGTERM does; resolves when it has ended. */
  stop(): Promise<Ran>
}

const own = { RECONCILER_SERVER_HOST: '127.0.0.1', RECONCILER_SERVER_PORT: '0', RECONCILER_LOG_LEVEL: 'debug' }

/** Starts `run` with its ops server on a free port of this host, and waits until it listens. */
export async function startLocalDaemon(
  env: Readonly<Record<string, string>>,
  options: Pick<CommandOptions, 'queued'> = {},
): Promise<LocalDaemon> {
  const end = new AbortController()
  const output = keepOutput()
  const running = runCommand(['run'], {
    ...options,
    env: { ...own, ...env },
    signal: end.signal,
    onOut: (text) => {
      output.add('stdout', text)
    },
    onErr: (text) => {
      output.add('stderr', text)
    },
  }).finally(output.end)

  function stop(): Promise<Ran> {
    end.abort(new Error('SIGTERM'))
    return running
  }

  try {
    const { port } = await output.said('daemon_started')
    const url = `http://127.0.0.1:${String(port)}`
    const metrics = (): Promise<DaemonMetrics> => readMetrics(url)
    return {
      url,
      metrics,
      log: output.log,
      said: output.said,
      stop,
      [Symbol.asyncDispose]: async () => void (await stop()),
    }
  } catch (error) {
    await stop()
    throw error
  }
}
