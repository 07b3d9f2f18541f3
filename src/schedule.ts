// The ticks: one at once, then by cron, jittered so that many sidecars don't ask the platform in the same moment.
import { createTask } from 'node-cron'

export interface Schedule {
  /** When the next tick is due, in epoch ms; undefined when there is none any more. */
  nextAt(): number | undefined
  /** Time between two ticks (the longest of the next few), in ms. */
  periodMs: number
  /** Ticks at once, then as scheduled. */
  start(onTick: () => void): Promise<void>
  stop(): Promise<void>
}

export interface ScheduleOptions {
  /** Six fields, seconds first. */
  cron: string
  /** IANA name. */
  timeZone: string
}

const jitterShare = 0.1
const longestJitterMs = 60_000
/** Runs that are looked at to find the period of an uneven schedule. */
const looksAhead = 10

/** Makes a schedule of node-cron's. How far ticks are spread by chance is node-cron's own draw. */
export function createSchedule(options: ScheduleOptions): Schedule {
  let onTick = (): void => undefined
  const settings = { timezone: options.timeZone, suppressMissedWarning: true }
  const probe = createTask(options.cron, () => undefined, settings)
  const periodMs = longestGap(probe.getNextRuns(looksAhead))
  void probe.destroy()
  const maxRandomDelay = Math.floor(Math.min(longestJitterMs, periodMs * jitterShare))
  const task = createTask(
    options.cron,
    () => {
      onTick()
    },
    { ...settings, maxRandomDelay },
  )
  // A tick that a busy process missed is not lost: it comes late.
  task.on('execution:missed', () => {
    onTick()
  })

  return {
    nextAt: () => task.getNextRun()?.getTime(),
    periodMs,
    async start(tick) {
      onTick = tick
      await task.start()
      tick()
    },
    async stop() {
      await task.destroy()
    },
  }
}

function longestGap(runs: readonly Date[]): number {
  const gaps = runs.slice(1).map((run, index) => run.getTime() - (runs[index]?.getTime() ?? 0))
  return Math.max(1000, ...gaps)
}
