// `webhook-reconciler once`: one full sweep, a retry of what is due in it, the outcomes of these, and a report.
import { Command } from 'commander'
import { createEngine, toPolicy, type Engine } from '../engine.ts'
import type { TelemetryEvent } from '../observe/events.ts'
import { createLogReporter } from '../observe/log-reporter.ts'
import { decide } from '../reconcile/decide.ts'
import type { Policy } from '../reconcile/policy.ts'
import type { SweepReport } from '../reconcile/sweep/sweep-report.ts'
import { periodOf } from '../runtime/schedule.ts'
import { createGrace } from '../daemon.ts'
import type { End, Io } from './io.ts'
import { runRound, type Signals } from './round.ts'
import {
  asText,
  emptyTally,
  judge,
  stoppedSweep,
  tallyRetry,
  toldSweep,
  type OnceReport,
  type StoppedBy,
} from './once-report.ts'
import { configOption, openAudit, openService, type ConfigOption, type Service } from './service.ts'

interface OnceOptions extends ConfigOption {
  dryRun?: true
  json?: true
}

/** The full sweep; undefined when it was stopped before its end. */
async function sweepOnce(engine: Engine, stop: AbortSignal): Promise<SweepReport | undefined> {
  try {
    return await engine.sweeper.full(stop)
  } catch (error) {
    if (stop.aborted) return undefined
    throw error
  }
}

/** Records that were due at that moment and have not been retried since. */
function countDue(engine: Engine, policy: Policy, now: number): number {
  return [...engine.backlog.entries()].filter((entry) => decide(entry, policy, { now }).decision === 'due').length
}

/**
 * Retries what was due when the sweep ended, and follows it to its outcome; what becomes due meanwhile is for another
 * run. Returns how many of these records were left. Rejects with the first bug that any part met.
 */
async function retryDue(engine: Engine, policy: Policy, signals: Signals): Promise<number> {
  const onlyDueAt = engine.client.now()
  await runRound(engine, signals, onlyDueAt)
  return countDue(engine, policy, onlyDueAt)
}

/** What ended the run while something was left; null when nothing did. */
function whatStopped(engine: Engine, stop: AbortSignal, left: { held: number; awaiting: number }): StoppedBy | null {
  if (stop.aborted) return 'signal'
  const trouble = engine.breaker.trouble()
  if (trouble !== undefined) return trouble
  if (left.held + left.awaiting > 0 && engine.receiver.up() === false) return 'receiver'
  return left.held > 0 && engine.circuits().some(({ state }) => state === 'open') ? 'circuit' : null
}

async function reconcileOnce(service: Service, options: OnceOptions, io: Io): Promise<OnceReport> {
  const { config, log, http } = service
  const { clock, random, signal: stop } = io
  const periodMs = periodOf(config.schedule)
  const tally = emptyTally()
  const reporter = createLogReporter(log, clock)
  const audit = openAudit(config, io, io.stderr)
  function emit(event: TelemetryEvent): void {
    if (event.type === 'retry' && event.answer.sent) tallyRetry(tally, event.answer)
    if (event.type === 'outcome') tally.outcomes[event.outcome] += 1
    reporter.observe(event)
    audit?.tell(event)
    // A receiver that is down wakes nobody by itself, but here it ends the run.
    if (event.type === 'receiver') engine.dispatcher.wake()
  }
  const engine = createEngine({ ...service, periodMs, clock, random, transport: http.transport, emit })
  const { inFlight } = engine.dispatcher
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log })
  const startedAt = clock.now()
  const started = clock.monotonic()
  const sweep = await sweepOnce(engine, stop)
  const { counts: failed } = engine.backlog.summary(engine.client.now(), () =>
    config.retry.enabled ? undefined : 'disabled',
  )
  const mayRetry = options.dryRun !== true && config.retry.enabled && sweep !== undefined && sweep.result !== 'failed'
  const signals = { stop, kill: grace.signal }
  const held = mayRetry ? await retryDue(engine, toPolicy(config, periodMs), signals) : 0
  grace.end()
  const awaiting = engine.outcomes.pending().size
  const body: Omit<OnceReport, 'exitCode'> = {
    schemaVersion: 1,
    instance: config.instance.name,
    platform: new URL(config.platform.baseUrl).host,
    dryRun: options.dryRun === true,
    startedAt: new Date(startedAt).toISOString(),
    seconds: Math.round(clock.monotonic() - started) / 1000,
    sweep: sweep === undefined ? stoppedSweep(failed) : toldSweep(sweep),
    failed,
    leftOut: engine.backlog.leftOut.any(),
    retries: tally.retries,
    outcomes: tally.outcomes,
    held,
    awaiting,
    cutOff: grace.cutOff(),
    stoppedBy: whatStopped(engine, stop, { held, awaiting }),
  }
  return {
    ...body,
    exitCode: judge(body, { rejected: sweep?.failure?.rejected === true, refused: tally.refused }),
  }
}

export function onceCommand(io: Io, end: End): Command {
  return new Command('once')
    .description('make one full sweep, retry what is due in it, see what became of it, report, and exit')
    .option(...configOption)
    .option('--dry-run', 'decide, but touch nothing')
    .option('--json', 'print the report as JSON')
    .action(async (options: OnceOptions) => {
      const service = await openService(io, options, io.stderr)
      try {
        const report = await reconcileOnce(service, options, io)
        const enabled = service.config.retry.enabled
        io.stdout.write(options.json === true ? `${JSON.stringify(report, null, 2)}\n` : asText(report, enabled))
        end(report.exitCode)
      } finally {
        await service.http.close()
      }
    })
}
