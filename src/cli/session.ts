// What the commands for the person on call share: an reconciler of their own, where it points, and how trouble is told.
import type { Command } from 'commander'
import type { Clock } from '../runtime/clock.ts'
import type { Config } from '../config/schema.ts'
import { createConnection } from '../platform/connection.ts'
import { createReconciler, toPolicy, type Reconciler } from '../reconciler.ts'
import { exitCode, isAbort, type ExitCode } from '../runtime/errors.ts'
import type { TelemetryEvent } from '../observe/events.ts'
import { createLogReporter } from '../observe/log-reporter.ts'
import { TokenError } from '../platform/token-endpoint.ts'
import { isPlatformTrouble } from '../reconcile/platform-trouble.ts'
import type { Policy } from '../reconcile/policy.ts'
import { periodOf } from '../runtime/schedule.ts'
import { redact, redactedJson } from '../runtime/redact.ts'
import type { Io } from './io.ts'
import { createMoments, type Moments } from './moments.ts'
import { createProgress, type Progress } from './progress.ts'
import { configOption, openAudit, openService, type ConfigOption, type Service } from './service.ts'

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
  progress: Progress
  /** `payments at api.example.com`: stands in everything that is asked or shown. */
  target: string
  instance: string
  /** Host of the platform's base URL. */
  platform: string
  /** Aborted by the wish to stop. */
  stop: AbortSignal
  /** Resolves when the reconciler tells the next event of this kind. */
  next(type: TelemetryEvent['type']): Promise<void>
  /** Writes to stdout, redacted. */
  print(text: string): void
  /** Prints one document as JSON, redacted. */
  printJson(document: object): void
}

export interface SessionPlan {
  /** The configuration that the reconciler gets. Default: as it is. */
  change?: (config: Config) => Config
  /** Hears every event. */
  hear?: (event: TelemetryEvent) => void
}

/** The options that all of these commands have. */
export function withSessionOptions(command: Command): Command {
  return command
    .option(...configOption)
    .option('--zone <name>', 'IANA time zone in which times are taken and shown', 'UTC')
    .option('--json', 'print one JSON document instead of text; its times are always UTC')
    .option('--verbose', 'write the log too, to stderr')
}

function toJson(document: object): string {
  return `${redactedJson(document, 2)}\n`
}

/** What to say, and to end with, when a signal has ended a command before its end. */
export function tellStopped(io: Pick<Io, 'stderr'>): ExitCode {
  io.stderr.write('Stopped by a signal before the end.\n')
  return exitCode.incomplete
}

/** Says why the platform could not be asked, and which exit code that gives. */
export function tellTrouble(error: unknown, target: string, io: Pick<Io, 'stderr'>): ExitCode {
  if (!isPlatformTrouble(error)) throw error
  io.stderr.write(redact(`${target}: ${error.message}\nFor each step on the way there: webhook-reconciler check\n`))
  const isRejected =
    error instanceof TokenError
      ? error.kind === 'rejected'
      : error.reason === 'unauthorized' || error.reason === 'forbidden'
  return isRejected ? exitCode.authenticationRejected : exitCode.platformUnreachable
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
  const progress = createProgress(io.stderr, io.clock)
  const service = await openService(io, options, progress.output, { quiet: options.verbose !== true })
  const config = plan.change?.(service.config) ?? service.config
  const instance = config.instance.name
  const platform = new URL(config.platform.baseUrl).host
  const target = `${instance} at ${platform}`
  const reporter = options.verbose === true ? createLogReporter(service.log, io.clock) : undefined
  // On stdout stands what was asked for.
  const audit = openAudit(config, io, progress.output, 'asked-for')
  const waiting = new Map<TelemetryEvent['type'], PromiseWithResolvers<void>>()
  function emit(event: TelemetryEvent): void {
    reporter?.observe(event)
    audit?.tell(event)
    plan.hear?.(event)
    waiting.get(event.type)?.resolve()
    waiting.delete(event.type)
  }
  function next(type: TelemetryEvent['type']): Promise<void> {
    const known = waiting.get(type) ?? Promise.withResolvers<void>()
    waiting.set(type, known)
    return known.promise
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
      next,
      print,
      printJson(document) {
        progress.clear()
        io.stdout.write(toJson(document))
      },
    })
  } catch (error) {
    progress.clear()
    return isAbort(error, stop) ? tellStopped(io) : tellTrouble(error, target, io)
  } finally {
    await service.http.close()
  }
}
