// `webhook-reconciler once`: one full sweep, a retry of what is due in it, the outcomes of these, and a report.
import { Command } from 'commander'
import { createConnection } from '../platform/connection.ts'
import { createReconciler, toPolicy, type Reconciler, type RetrySignals } from '../reconciler.ts'
import type { TelemetryEvent } from '../observe/events.ts'
import { createLogReporter } from '../observe/log-reporter.ts'
import { decide } from '../reconcile/decide.ts'
import type { Policy } from '../reconcile/policy.ts'
import type { SweepReport } from '../reconcile/sweep/sweep-report.ts'
import { periodOf } from '../runtime/schedule.ts'
import { createGrace } from '../daemon.ts'
import type { End, Io } from './io.ts'
import { runRound } from './round.ts'
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
async function sweepOnce(reconciler: Reconciler, stop: AbortSignal): Promise<SweepReport | undefined> {
  try {
    return await reconciler.sweeper.make('full', stop)
  } catch (error) {
    if (stop.aborted) return undefined
    throw error
  }
}

/** Records that were due at that moment and have not been retried since. */
function countDue(reconciler: Reconciler, policy: Policy, now: number): number {
  return [...reconciler.backlog.entries()].filter((entry) => decide(entry, policy, { now }).decision === 'due').length
}

/**
 * Retries what was due when the sweep ended, and follows it to its outcome; what becomes due meanwhile is for another
 * run. Returns how many of these records were left. Rejects with the first bug that any part met.
 */
async function retryDue(reconciler: Reconciler, policy: Policy, signals: RetrySignals): Promise<number> {
  const onlyDueAt = reconciler.client.now()
  await runRound(reconciler, signals, onlyDueAt)
  return countDue(reconciler, policy, onlyDueAt)
}

/** What ended the run while something was left; null when nothing did. */
function whatStopped(
  reconciler: Reconciler,
  { clock, signal: stop }: Io,
  left: { held: number; awaiting: number },
): StoppedBy | null {
  if (stop.aborted) return 'signal'
  const trouble = reconciler.breaker.trouble()
  if (trouble !== undefined) return trouble
  if (left.held + left.awaiting > 0 && reconciler.receiver.up() === false) return 'receiver'
  return left.held > 0 && reconciler.circuits.views(clock.monotonic()).some(({ state }) => state === 'open')
    ? 'circuit'
    : null
}

async function reconcileOnce(service: Service, options: OnceOptions, io: Io): Promise<OnceReport> {
  const { config, http, key, log } = service
  const { clock, random, signal: stop } = io
  const tally = emptyTally()
  const reporter = createLogReporter(log, clock)
  const audit = openAudit(config, io, io.stderr)
  function emit(event: TelemetryEvent): void {
    if (event.type === 'retry' && event.answer.sent) tallyRetry(tally, event.answer)
    if (event.type === 'outcome') tally.outcomes[event.outcome] += 1
    reporter.observe(event)
    audit?.tell(event)
  }
  const { transport } = http
  const policy = toPolicy(config, periodOf(config.schedule))
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const reconciler = createReconciler(config, { policy, connection, transport, clock, random, emit })
  const { inFlight } = reconciler.dispatcher
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log })
  const startedAt = clock.now()
  const started = clock.monotonic()
  const sweep = await sweepOnce(reconciler, stop)
  const { counts: failed } = reconciler.backlog.summary(reconciler.client.now(), () =>
    config.retry.enabled ? undefined : 'disabled',
  )
  const mayRetry = options.dryRun !== true && config.retry.enabled && sweep !== undefined && sweep.result !== 'failed'
  const signals = { stop, kill: grace.signal }
  const held = mayRetry ? await retryDue(reconciler, policy, signals) : 0
  grace.end()
  const awaiting = reconciler.outcomes.pending().size
  const body: Omit<OnceReport, 'exitCode'> = {
    schemaVersion: 1,
    instance: config.instance.name,
    platform: new URL(config.platform.baseUrl).host,
    dryRun: options.dryRun === true,
    startedAt: new Date(startedAt).toISOString(),
    seconds: Math.round(clock.monotonic() - started) / 1000,
    sweep: sweep === undefined ? stoppedSweep(failed) : toldSweep(sweep),
    failed,
    leftOut: reconciler.backlog.leftOut.any(),
    retries: tally.retries,
    outcomes: tally.outcomes,
    held,
    awaiting,
    cutOff: grace.cutOff(),
    stoppedBy: whatStopped(reconciler, io, { held, awaiting }),
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
