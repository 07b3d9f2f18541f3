// The metrics of a real daemon minute by minute, in virtual time, as series for promtool: an hour passes in a second.
import { jitterOf, jitterSeed } from '../../../src/reconcile/backoff.ts'
import type { ReadingsInput } from '../../../sandbox/options.ts'
import type { Sandbox } from '../../../sandbox/sandbox.ts'
import { beginDay, startDaemon, type RunningDaemon } from '../../support/daemon.ts'
import { parseSamples } from '../../support/samples.ts'
import type { Series } from './scenario.ts'

const minuteMs = 60_000
export type Environment = Readonly<Record<string, string>>

export interface Recording extends AsyncDisposable {
  readonly sandbox: Sandbox
  /** Minutes that are recorded. */
  minutes(): number
  /** Failed records of the time since the start: promtool knows no time before. They are due; or not yet, when tried just now. */
  fail(count: number, lastAttempt?: 'just now'): void
  /** Ends the daemon in good order. Prometheus can't scrape it from then on. */
  stop(): Promise<void>
  /** Starts it, with settings besides those of before. */
  start(changes?: Environment): Promise<void>
  /** Lets time pass: a tick of the schedule each half minute, a scrape each minute. */
  pass(minutes: number): Promise<void>
  /** What it serves at /metrics now. */
  exposition(): Promise<string>
  /** What Prometheus scraped so far, at its minute 0 first. */
  series(): Series
}

/** The id of a record whose first backoff is hardly cut by its jitter: the test knows when it ends. */
const unjittered =
  Array.from({ length: 1000 }, (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`).find(
    (id) => jitterOf(jitterSeed(id), 1) < 0.01,
  ) ?? ''

/** A daemon that has been started, beside a platform of its own. */
export async function startRecording(readings: ReadingsInput & { timeZone?: string } = {}): Promise<Recording> {
  await using starting = new AsyncDisposableStack()
  const { clock, sandbox } = starting.use(await beginDay(readings))
  const beganAt = clock.now() / 1000
  const values = new Map<string, string[]>()
  let daemon: RunningDaemon | undefined
  let startedAt = 0
  let minutes = 0
  let env: Environment = {}

  /** Times are exported as Unix time, and promtool's begins with the recording; 0 stands for none. */
  const shifted = (name: string, value: number): number =>
    value > 0 && /_timestamp_seconds(\{|$)/.test(name) ? value - beganAt : value

  const exposition = async (): Promise<string> => (await daemon?.ops().metrics()) ?? ''

  async function scrape(): Promise<void> {
    const samples = new Map(daemon === undefined ? [] : parseSamples(await exposition()))
    samples.set('up', daemon === undefined ? 0 : 1)
    if (daemon !== undefined) samples.set('process_start_time_seconds', startedAt)
    for (const name of samples.keys()) if (!values.has(name)) values.set(name, Array<string>(minutes).fill('_'))
    for (const [name, series] of values) {
      const value = samples.get(name)
      series.push(value === undefined ? 'stale' : String(shifted(name, value)).replace('Infinity', 'Inf'))
    }
    minutes += 1
  }

  const stop = async (): Promise<void> => {
    await daemon?.end()
    daemon = undefined
  }
  starting.defer(stop)
  const running = starting.move()

  return {
    sandbox,
    minutes: () => minutes,
    fail(count, lastAttempt) {
      const now = clock.now()
      for (let index = 0; index < count; index += 1) {
        const eventInstant = 1000 * beganAt + minuteMs + 1000 * index
        const due = { eventInstant, attempts: 1, lastAttempt: eventInstant }
        sandbox.addWebhook(lastAttempt === undefined ? due : { ...due, id: unjittered, lastAttempt: now })
      }
    },
    stop,
    async start(changes = {}) {
      env = { ...env, ...changes }
      startedAt = clock.now() / 1000 - beganAt
      daemon = startDaemon({
        clock,
        sandbox,
        env,
        gapMs: minuteMs / 2,
        // The receiver's health address, which the sandbox without sockets does not have.
        instead: ({ url }) =>
          url.href === sandbox.receiverHealthUrl ? { status: sandbox.receiver.isUp ? 200 : 503 } : undefined,
        processMetrics: true,
      })
      await daemon.listening
    },
    async pass(count) {
      for (let minute = 0; minute < count; minute += 1) {
        await scrape()
        for (let half = 0; half < 2; half += 1) {
          daemon?.tick()
          await clock.advance(minuteMs / 2)
        }
      }
    },
    exposition,
    series: () => Object.fromEntries([...values].map(([name, series]) => [name, series.join(' ')])),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
