// `webhook-reconciler once`: one full sweep, a retry of what is due in it, and a report.
import { Command } from 'commander'
import type { Config } from '../config/schema.ts'
import { createEngine, type Engine } from '../engine.ts'
import { exitCode, type ExitCode } from '../errors.ts'
import type { Fact } from '../facts.ts'
import type { Log } from '../log.ts'
import { createNarrator } from '../narrate.ts'
import { retryResults, type RetryResult } from '../platform/client.ts'
import type { Counts } from '../reconcile/census.ts'
import { decisions } from '../reconcile/decide.ts'
import type { SweepReport } from '../reconcile/sweeper.ts'
import { createSchedule } from '../schedule.ts'
import { createGrace } from '../shutdown.ts'
import type { End, Io } from './io.ts'
import { openService, type ConfigOption, type Service } from './service.ts'

interface OnceOptions extends ConfigOption {
  dryRun?: true
  json?: true
}

/** The report, as `--json` prints it. `schemaVersion` follows SemVer's major: fields are added, not changed. */
export interface OnceReport {
  schemaVersion: 1
  instance: string
  platform: string
  dryRun: boolean
  startedAt: string
  seconds: number
  sweep: {
    result: SweepReport['result']
    listed: number
    slices: number
    incompleteSlices: number
    skippedSlices: number
    failure?: { stage: string; reason: string }
  }
  /** Failed records of the window by decision, when the sweep had ended. */
  failed: Counts
  /** Records for which there was no room in memory; another run comes to them. */
  leftOut: boolean
  /** Retries that were answered, by result. */
  retries: Record<RetryResult, number>
  /** Retries that were in flight when `shutdown.grace` was over: what came of them is not known. */
  cutOff: number
  /** What stopped the retries before all that was due had been sent. */
  stoppedBy: 'unauthorized' | 'platform' | 'signal' | null
  exitCode: ExitCode
}

/** Results after which a record is as good as it can be for now. */
const good = new Set<RetryResult>(['accepted', 'already-resolved'])

function told({ result, listed, slices, incompleteSlices, skippedSlices, failure }: SweepReport): OnceReport['sweep'] {
  return {
    result,
    listed,
    slices,
    incompleteSlices,
    skippedSlices,
    ...(failure && { failure: { stage: failure.stage, reason: failure.reason } }),
  }
}

function judge(report: Omit<OnceReport, 'exitCode'>, sweep: SweepReport | undefined): ExitCode {
  if (report.stoppedBy === 'unauthorized' || sweep?.failure?.rejected === true) return exitCode.authenticationRejected
  if (report.stoppedBy === 'platform' || sweep?.result === 'failed') return exitCode.platformUnreachable
  const bad = retryResults.some((result) => !good.has(result) && report.retries[result] > 0)
  const partial = report.sweep.result === 'incomplete' || report.leftOut || report.stoppedBy === 'signal'
  return bad || partial ? exitCode.incomplete : exitCode.done
}

/** What is known of a sweep that was stopped in the middle. */
function stoppedSweep(failed: Counts): OnceReport['sweep'] {
  const listed = Object.values(failed).reduce((sum, count) => sum + count, 0)
  return { result: 'incomplete', listed, slices: 0, incompleteSlices: 0, skippedSlices: 0 }
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

/** Retries what was due when the sweep ended; what becomes due meanwhile is for another run. */
async function retryDue(engine: Engine, signals: { stop: AbortSignal; kill: AbortSignal }): Promise<void> {
  const work = new AbortController()
  const probing = engine.guard.run(work.signal).catch(() => undefined)
  try {
    await engine.dispatcher.run(signals, { onlyDueAt: engine.client.now() })
  } finally {
    work.abort()
    await probing
  }
}

/** Counts the retries that were answered, and tells all facts on. */
function countRetries(log: Log): { retries: OnceReport['retries']; report: (fact: Fact) => void } {
  const narrator = createNarrator(log)
  const retries = Object.fromEntries(retryResults.map((result) => [result, 0])) as OnceReport['retries']
  return {
    retries,
    report(fact) {
      if (fact.type === 'retry' && fact.answer.sent) retries[fact.answer.result] += 1
      narrator.tell(fact)
    },
  }
}

async function reconcileOnce(service: Service, options: OnceOptions, io: Io): Promise<OnceReport> {
  const { config, log, http } = service
  const { clock, random, signal: stop } = io
  const { retries, report } = countRetries(log)
  const { periodMs } = createSchedule(config.schedule)
  const engine = createEngine({ ...service, periodMs, clock, random, transport: http.transport, report })
  const { inFlight } = engine.dispatcher
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log })
  const startedAt = clock.now()
  const started = clock.monotonic()
  const sweep = await sweepOnce(engine, stop)
  const { counts: failed } = engine.backlog.summary(engine.client.now(), false)
  const mayRetry = options.dryRun !== true && config.retry.enabled
  if (mayRetry && sweep !== undefined && sweep.result !== 'failed') await retryDue(engine, { stop, kill: grace.signal })
  grace.end()
  const body: Omit<OnceReport, 'exitCode'> = {
    schemaVersion: 1,
    instance: config.instance.name,
    platform: new URL(config.platform.baseUrl).host,
    dryRun: options.dryRun === true,
    startedAt: new Date(startedAt).toISOString(),
    seconds: Math.round(clock.monotonic() - started) / 1000,
    sweep: sweep === undefined ? stoppedSweep(failed) : told(sweep),
    failed,
    leftOut: engine.backlog.census.leftOut(),
    retries,
    cutOff: grace.cutOff(),
    stoppedBy: stop.aborted ? 'signal' : (engine.guard.trouble() ?? null),
  }
  return { ...body, exitCode: judge(body, sweep) }
}

function asText(report: OnceReport, config: Config): string {
  const nonZero = (counts: Readonly<Record<string, number>>, names: readonly string[]): string =>
    names
      .filter((name) => (counts[name] ?? 0) > 0)
      .map((name) => `${counts[name]} ${name}`)
      .join(', ') || 'none'
  const lines = [
    `${report.instance} at ${report.platform}: one full sweep in ${report.seconds} s, ${report.sweep.result}${
      report.sweep.failure ? ` (${report.sweep.failure.stage}: ${report.sweep.failure.reason})` : ''
    }`,
    `failed records in the window: ${nonZero(report.failed, decisions)}`,
  ]
  if (report.leftOut) lines.push('there was no room for all of them (backlog.maxRecords): run again for the rest')
  if (report.dryRun) lines.push('dry run: nothing was touched')
  else if (!config.retry.enabled) lines.push('retry.enabled is false: nothing was touched')
  else lines.push(`retries: ${nonZero(report.retries, retryResults)}`)
  if (report.cutOff > 0) lines.push(`cut off: ${report.cutOff}; what came of them is not known, the next run sees it`)
  if (report.stoppedBy !== null) lines.push(`stopped early by: ${report.stoppedBy}`)
  return `${lines.join('\n')}\n`
}

export function onceCommand(io: Io, end: End): Command {
  return new Command('once')
    .description('make one full sweep, retry what is due in it, report, and exit')
    .option('--config <file>', 'configuration file (YAML); environment variables RECONCILER_* go before it')
    .option('--dry-run', 'decide, but touch nothing')
    .option('--json', 'print the report as JSON')
    .action(async (options: OnceOptions) => {
      const service = await openService(io, options, io.stderr)
      try {
        const report = await reconcileOnce(service, options, io)
        io.stdout.write(options.json === true ? `${JSON.stringify(report, null, 2)}\n` : asText(report, service.config))
        end(report.exitCode)
      } finally {
        await service.http.close()
      }
    })
}
