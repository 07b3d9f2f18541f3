// A daemon beside a sandbox in virtual time: a test lets it tick, lets time pass, and reads its metrics and its log.
import type { LogLine } from './process.ts'
import type { OpsServerOptions } from '../../src/ops/server.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { startPlatform } from './platform.ts'
import type { ReadingsInput } from '../../sandbox/options.ts'
import { startDaemon, type DaemonOptions, type RunningDaemon } from './daemon.ts'
import { parseSamples, sumOf } from './samples.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

const minuteMs = 60_000

export interface Day extends AsyncDisposable {
  clock: VirtualClock
  sandbox: Sandbox
  /** Lines of the log so far. */
  log: LogLine[]
  /** Starts it; the first tick comes with that. */
  start(env?: Record<string, string>, between?: DaemonOptions['between']): Promise<void>
  /** Ticks, and lets time pass after each: a minute by default. */
  tick(times?: number, gapMs?: number): Promise<void>
  /** Sum of the series of one of our metrics whose labels contain these. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>
  /** What its ops server shows, and the commands of the operator. */
  ops(): OpsServerOptions
  /** Ends the daemon as SIGTERM does. */
  stop(): Promise<void>
}

export async function beginDay(readings: ReadingsInput = {}): Promise<Day> {
  const clock = createVirtualClock()
  const log: LogLine[] = []
  await using starting = new AsyncDisposableStack()
  const sandbox = starting.use(await startPlatform({ inProcess: true, clock, ...readings }))
  const running = starting.move()
  let daemon: RunningDaemon | undefined
  const started = (): RunningDaemon => {
    if (daemon === undefined) throw new Error('the daemon was not started')
    return daemon
  }

  return {
    clock,
    sandbox,
    log,
    async start(env = {}, between) {
      const write = (line: string): void => void log.push(JSON.parse(line) as LogLine)
      daemon = running.use(await startDaemon(sandbox, { clock, env, write, ...(between && { between }) }))
      await clock.advance(minuteMs)
    },
    async tick(times = 1, gapMs = minuteMs) {
      for (let turn = 0; turn < times; turn += 1) {
        started().tick()
        await clock.advance(gapMs)
      }
    },
    async metric(name, labels) {
      const { text } = await started().ops().metrics()
      return sumOf(parseSamples(text), `webhook_reconciler_${name}`, labels)
    },
    ops: () => started().ops(),
    stop: () => started().stop(),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
