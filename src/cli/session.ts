// The session of a command: a reconciler of its own, its target, and how trouble is reported.
import type { Clock } from '../runtime/clock.ts'
import type { Config } from '../config/schema.ts'
import type { SigningKey } from '../platform/auth/private-key.ts'
import type { Reloadable } from '../platform/auth/reloadable.ts'
import { createConnection, type Connection } from '../platform/connection.ts'
import type { Transport } from '../platform/http/http.ts'
import { createReconciler, toPolicy, type Reconciler } from '../reconciler.ts'
import { exitCode, isAbort, type ExitCode } from '../runtime/errors.ts'
import type { TelemetryEvent } from '../observe/events.ts'
import { auditOnly } from '../observe/log/log.ts'
import { createLogReporter } from '../observe/log/log-reporter.ts'
import type { Policy } from '../reconcile/policy.ts'
import { failureOf, type CallFailure } from '../reconcile/platform-trouble.ts'
import { periodOf } from '../runtime/schedule.ts'
import { redact, redactedJson } from '../runtime/redact.ts'
import { createMoments, createProgressLine, paragraph, widthOf, type Moments, type ProgressLine } from './format.ts'
import type { Io } from './io.ts'
import { openService, type ConfigOption, type Service } from './service.ts'

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
  /** Stands in log and audit in the place of the rule. */
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

/** Everything that asks the platform, for a command. It starts nothing. */
export interface Platform {
  connection: Connection
  policy: Policy
  reconciler: Reconciler
}

export function openPlatform(
  config: Config,
  { clock, random }: Pick<Io, 'clock' | 'random'>,
  parts: { key: Reloadable<SigningKey>; transport: Transport; emit: (event: TelemetryEvent) => void },
): Platform {
  const { emit, key, transport } = parts
  const policy = toPolicy(config, periodOf(config.schedule))
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const reconciler = createReconciler(config, { policy, connection, transport, clock, random, emit })
  return { connection, policy, reconciler }
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
  const reporter = createLogReporter(options.verbose === true ? service.log : auditOnly(service.log), io.clock)
  const listeners: ((event: TelemetryEvent) => void)[] = []
  function emit(given: TelemetryEvent): void {
    const event = given.type === 'retry' && plan.why !== undefined ? { ...given, why: plan.why } : given
    reporter.observe(event)
    for (const listener of listeners) listener(event)
  }
  const { clock, signal: stop } = io
  const { key } = service
  const { transport } = service.http
  const { policy, reconciler } = openPlatform(config, io, { key, transport, emit })
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

/**
 * Asks the receiver's health address once. `answered` resolves when the reconciler reports its answer.
 * Rejects with the signal's reason, or with a bug.
 */
export async function askReceiver(
  reconciler: Reconciler,
  answered: Promise<void>,
  stop: AbortSignal,
): Promise<boolean | undefined> {
  const over = new AbortController()
  const asking = reconciler.receiver.run(AbortSignal.any([stop, over.signal])).catch((error: unknown) => {
    if (!over.signal.aborted) throw error
  })
  try {
    await Promise.race([answered, asking])
  } finally {
    over.abort(new Error('it has been asked'))
    await asking
  }
  return reconciler.receiver.up()
}
