// One process of the daemon: the real one, with clock, randomness, schedule and network from here. It can die in any moment.
import { sleepBy, type Clock } from '../../src/runtime/clock.ts'
import { runDaemon } from '../../src/daemon.ts'
import type { DaemonHost } from '../../src/daemon-parts.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { metricPrefix } from '../../src/observe/metrics.ts'
import { keepingLog } from '../support/log.ts'
import { readJob } from '../../src/ops/jobs-endpoint.ts'
import type { AskedJob } from './promises/watcher.ts'
import { parseSampleLine, parseSamples } from '../support/samples.ts'
import type { StatusDocument } from '../../src/ops/status-document.ts'
import type { Transport } from '../../src/platform/http/http.ts'
import type { Sequence } from '../../sandbox/records/hash.ts'
import { createSchedule, type Schedule } from '../../src/runtime/schedule.ts'
import { finish } from '../../src/runtime/steps.ts'
import type { World } from './world.ts'

export interface Life {
  isAlive(): boolean
  /** It is gone from one moment to the next: nothing that it waits for comes any more. */
  crash(): void
  /** SIGTERM. Resolves when it has ended; rejects with what it ended of, if that is a bug. */
  stop(): Promise<unknown>
  /** Rejects when it ends because of a bug. */
  ended: Promise<unknown>
  /** What Prometheus would get: value by name and labels, without the prefix. Undefined before it listens. */
  metrics(): Promise<ReadonlyMap<string, number>> | undefined
  /** What GET /status would give. Undefined before it listens. */
  status(): StatusDocument | undefined
  /** Ids of what it names as delivered and not processed; a hundred at most. */
  unprocessed(): Promise<readonly string[]>
  /** What keeps it from being alive, as /livez says it. */
  problems(): readonly string[]
  /** The operator's commands; nothing happens before it listens, or without `control.token`. */
  /** A pause is of one subscription, and ends by itself after `forMs`, if these are given. */
  command(what: 'pause' | 'probe' | 'resume', subscriptionId?: string, forMs?: number): void
  /** An operator asks for retries: a job; undefined before it listens, or where it retries nothing. */
  ask(body: object): { job: AskedJob; cancel: () => void } | undefined
  /** Things that it waits for. */
  waiting(): number
}

export interface LifeOptions extends World {
  /** Draws for this process alone. */
  sequence: Sequence
  /** Host's wall clock, epoch ms. */
  hostNow: () => number
  transport: Transport
  report: (fact: TelemetryEvent) => void
  onTick: () => void
  /** Gets the metrics as they are in the last moment of an end in good order. */
  onLastMetrics: (metrics: ReadonlyMap<string, number>) => void
  onWarning: (message: string) => void
}

export function startLife(options: LifeOptions): Life {
  const { config, hostNow, scenario, sequence, timeline } = options
  const stop = new AbortController()
  let isAlive = true
  let waiting = 0
  let server: Parameters<DaemonHost['startServer']>[0] | undefined

  /** Of a process that was killed, no timer fires. */
  function timer(ms: number, act: () => void): () => void {
    let isSet = true
    waiting += 1
    const unset = (): void => {
      if (isSet) waiting -= 1
      isSet = false
    }
    const cancel = timeline.after(ms, () => {
      if (!isAlive) return
      unset()
      act()
    })
    return () => {
      unset()
      cancel()
    }
  }

  const clock: Clock = {
    now: hostNow,
    monotonic: () => timeline.monotonic(),
    timer,
    sleep: sleepBy(timer),
  }

  const random = { next: () => sequence.next(), uuid: () => sequence.uuid() }
  const schedule = createSchedule(config.schedule, { clock, random })
  const heardSchedule: Schedule = {
    ...schedule,
    start(onTick) {
      schedule.start(() => {
        options.onTick()
        onTick()
      })
    },
  }

  /** Most lines come again each minute: they are parsed once. */
  const lines = new Map<string, ReturnType<typeof parseSampleLine>>()
  const names = new Map<string, string>()
  const withoutPrefix = (series: string): string => series.slice(metricPrefix.length)
  async function read(): Promise<ReadonlyMap<string, number>> {
    const text = (await server?.metrics()) ?? '\n'
    const samples = parseSamples(text, (line) => lines.getOrInsertComputed(line, parseSampleLine))
    return new Map([...samples].map(([series, value]) => [names.getOrInsertComputed(series, withoutPrefix), value]))
  }

  const quiet = (): void => undefined
  const log = keepingLog(({ event, level }) => {
    if (level === 'warn' || level === 'error') options.onWarning(event)
  })

  const ended = runDaemon({
    config,
    version: '0.0.0',
    nodeVersion: 'simulated',
    clock,
    random,
    log,
    transport: options.transport,
    schedule: heardSchedule,
    ...options.keyFiles.open(),
    secrets: () => ({ token: undefined, proofs: [] }),
    stop: stop.signal,
    host: {
      processMetrics: false,
      policy: { sweep: scenario.sweep },
      emit(fact) {
        if (isAlive) options.report(fact)
      },
      startServer(served) {
        server = served
        return Promise.resolve({
          port: 1,
          drain: quiet,
          close: async () => {
            const last = await read()
            // Ended by a bug, it owes an explanation before its books.
            if (isAlive && stop.signal.aborted) options.onLastMetrics(last)
          },
        })
      },
    },
  })
  ended.catch(quiet)

  return {
    isAlive: () => isAlive,
    crash() {
      isAlive = false
      schedule.stop()
    },
    stop() {
      stop.abort(new Error('SIGTERM'))
      return ended
    },
    ended,
    metrics: () => (server === undefined ? undefined : read()),
    status: () => server && finish(server.status()),
    async unprocessed() {
      const filter = { group: 'unprocessed' } as const
      const page = await server?.records.records.fromMemory({ filter, limit: 100, after: undefined })
      const ids: string[] = []
      for await (const batch of page?.batches ?? []) ids.push(...batch.map(({ webhookId }) => webhookId.toLowerCase()))
      return ids
    },
    problems: () => server?.live() ?? [],
    command(what, subscriptionId, forMs) {
      const until = forMs === undefined ? undefined : clock.now() + forMs
      if (what === 'probe') void server?.control.probe()
      else if (what === 'resume') void server?.control.pause.resume(subscriptionId)
      else void server?.control.pause.pause({ subscriptionId, until })
    },
    ask(body) {
      const asked = server?.control.jobs
      if (asked === undefined || !asked.retriesEnabled || !isAlive) return undefined
      const { jobs } = asked
      const id = jobs.start(readJob(JSON.stringify(body), asked), 'token')?.job
      if (id === undefined) return undefined
      const job = { view: () => jobs.get(id), retried: () => jobs.retried(id, 0, Infinity) ?? [] }
      return { job, cancel: () => void jobs.cancel(id) }
    },
    waiting: () => waiting,
  }
}
