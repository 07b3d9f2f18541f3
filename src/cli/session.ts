// The session of a command: a reconciler of its own, its target, and how trouble is reported.
import type { Clock } from '../runtime/clock.ts'
import type { Config } from '../config/schema.ts'
import { createConnection } from '../platform/connection.ts'
import { createReconciler, toPolicy, type Reconciler } from '../reconciler.ts'
import { exitCode, isAbort, type ExitCode } from '../runtime/errors.ts'
import type { TelemetryEvent } from '../observe/events.ts'
import { createLogReporter } from '../observe/log/log-reporter.ts'
import type { Policy } from '../reconcile/policy.ts'
import { failureOf, type CallFailure } from '../reconcile/platform-trouble.ts'
import { periodOf } from '../runtime/schedule.ts'
import { redact, redactedJson } from '../runtime/redact.ts'
import { createMoments, createProgressLine, paragraph, widthOf, type Moments, type ProgressLine } from './format.ts'
import type { Io } from './io.ts'
import { openAudit, openService, type ConfigOption, type Service } from './service.ts'

export interface SessionOptions extends ConfigOption {
  json?: true
  verbose?: true
  zone: string
}

export interface Session {
  /** As it is in use here. */
  config: Config
  reconciler: Reconciler
  policy: Policy
  service: Service
  clock: Clock
  moments: Moments
  progress: ProgressLine
  /** `payments at api.example.com`: stands in everything that is asked or shown. */
  target: string
  instance: string
  /** Host of the platform's base URL. */
  platform: string
  /** Aborted by the wish to stop. */
  stop: AbortSignal
  /** Calls the listener with every event of the reconciler from now on. */
  listen(listener: (event: TelemetryEvent) => void): void
  /** Of the terminal behind stdout, in characters; undefined without one. */
  width: number | undefined
  /** Writes to stdout, redacted. */
  print(text: string): void
  /** Prints one document as JSON, redacted. */
  printJson(document: object): void
}

export interface SessionPlan {
  /** The configuration that the reconciler gets. Default: as it is. */
  change?: (config: Config) => Config
  /** Stands in the audit in the place of the rule. */
  why?: 'asked-for' | undefined
}

function toJson(document: object): string {
  return `${redactedJson(document, 2)}\n`
}

/** Says that a signal came before the end of a command that only reads. */
export function interrupted(io: Pick<Io, 'stderr'>): ExitCode {
  io.stderr.write('Interrupted before the end. Nothing was changed.\n')
  return exitCode.interrupted
}

/** Says why nothing is known, and returns the exit code. */
export function unavailable(
  { advice, message, rejected }: CallFailure,
  target: string,
  io: Pick<Io, 'stderr'>,
): ExitCode {
  const width = widthOf(io.stderr)
  const why = paragraph(`${target}: nothing is known, because the list call failed: ${message}`, width)
  const next = 'To check each step on the way: webhook-reconciler check\n'
  io.stderr.write(redact(why + paragraph(advice, width, '-> ') + next))
  return rejected ? exitCode.authenticationRejected : exitCode.platformUnreachable
}

/**
 * Opens a session, runs the body in it, and closes it. Starts nothing by itself.
 * @returns the body's exit code, or the one of what kept it from its end
 * @throws ConfigurationError, UsageError, and bugs
 */
export async function inSession(
  io: Io,
  options: SessionOptions,
  plan: SessionPlan,
  body: (session: Session) => Promise<ExitCode>,
): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const progress = createProgressLine(io.stderr, io.clock)
  const service = openService(io, options, progress.output, { quiet: options.verbose !== true })
  const config = plan.change?.(service.config) ?? service.config
  const instance = config.instance.name
  const platform = new URL(config.platform.baseUrl).host
  const target = `${instance} at ${platform}`
  const reporter = options.verbose === true ? createLogReporter(service.log, io.clock) : undefined
  // Stdout is for the report.
  const audit = openAudit(config, io, progress.output, plan.why)
  const listeners: ((event: TelemetryEvent) => void)[] = []
  function emit(event: TelemetryEvent): void {
    reporter?.observe(event)
    audit?.tell(event)
    for (const listener of listeners) listener(event)
  }
  const { clock, random, signal: stop } = io
  const { key } = service
  const { transport } = service.http
  const policy = toPolicy(config, periodOf(config.schedule))
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const reconciler = createReconciler(config, { policy, connection, transport, clock, random, emit })
  const print = (text: string): void => {
    progress.clear()
    io.stdout.write(redact(text))
  }
  try {
    return await body({
      config,
      reconciler,
      policy,
      service,
      clock,
      moments,
      progress,
      target,
      instance,
      platform,
      stop,
      width: widthOf(io.stdout),
      listen: (listener) => {
        listeners.push(listener)
      },
      print,
      printJson(document) {
        progress.clear()
        io.stdout.write(toJson(document))
      },
    })
  } catch (error) {
    progress.clear()
    if (isAbort(error, stop)) return interrupted(io)
    const failure = failureOf(error)
    if (failure === undefined) throw error
    return unavailable(failure, target, io)
  } finally {
    await service.http.close()
  }
}
