// The session of a command: a reconciler of its own, its target, and how trouble is reported.
import type { Config } from '../config/schema.ts'
import type { SigningKey } from '../platform/auth/private-key.ts'
import type { Reloadable } from '../platform/auth/reloadable.ts'
import { createConnection, type Connection } from '../platform/connection.ts'
import type { Transport } from '../platform/http/http.ts'
import { createReconciler, toPolicy, type Reconciler } from '../reconciler.ts'
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import type { Emit, TelemetryEvent } from '../observe/events.ts'
import { auditOnly } from '../observe/log/log.ts'
import { createLogReporter } from '../observe/log/log-reporter.ts'
import type { Policy } from '../reconcile/policy.ts'
import { failureOf, problemOf, type CallFailure } from '../reconcile/platform-trouble.ts'
import { periodOf } from '../runtime/schedule.ts'
import { redact } from '../runtime/redact.ts'
import type { CommandFlags } from './flags.ts'
import { answer, createProgressLine, paragraph, widthOf } from './format.ts'
import type { Io } from './io.ts'
import { createMoments } from './moments.ts'
import { openService } from './service.ts'

/** Everything that asks the platform, for a command. It starts nothing. */
export interface Platform {
  connection: Connection
  policy: Policy
  reconciler: Reconciler
}

export interface SessionPlan {
  /** The configuration that the reconciler gets. Default: as it is. */
  change?: (config: Config) => Config
  /** Stands in log and audit in the place of the rule. */
  why?: 'asked-for' | undefined
}

/** Says why nothing is known, and returns the exit code. */
export function unavailable(
  { advice, rejected, ...failure }: Pick<CallFailure, 'advice' | 'message' | 'problem' | 'rejected'>,
  target: string,
  io: Pick<Io, 'stderr'>,
): ExitCode {
  const width = widthOf(io.stderr)
  const why = paragraph(`${target}: nothing is known, because the list call failed: ${problemOf(failure)}`, width)
  const next = 'To check each step on the way: webhook-reconciler check\n'
  io.stderr.write(redact(why + paragraph(advice, width, '-> ') + next))
  return rejected ? exitCode.authenticationRejected : exitCode.platformUnreachable
}

/** A command does not wait longer for a rate limit: somebody sits in front of it. */
const patienceMs = 300_000

export function openPlatform(
  config: Config,
  { clock, random }: Pick<Io, 'clock' | 'random'>,
  parts: { key: Reloadable<SigningKey>; transport: Transport; emit: Emit },
): Platform {
  const policy = toPolicy(config, periodOf(config.schedule))
  const connection = createConnection(config, { clock, random, maxPauseMs: patienceMs, ...parts })
  const { emit, transport } = parts
  const reconciler = createReconciler(config, { policy, connection, transport, clock, random, emit })
  return { connection, policy, reconciler }
}

/** Opens the session; starts nothing. @throws ConfigurationError, UsageError */
function openSession(io: Io, options: CommandFlags, plan: SessionPlan) {
  const moments = createMoments(options.zone)
  const progress = createProgressLine(io.stderr, io.clock)
  const service = openService(io, options, progress.output, { quiet: options.verbose !== true })
  const config = plan.change?.(service.config) ?? service.config
  const instance = config.instance.name
  const platform = new URL(config.platform.baseUrl).host
  const reporter = createLogReporter(options.verbose === true ? service.log : auditOnly(service.log), io.clock)
  let listener: Emit = () => undefined
  function emit(given: TelemetryEvent): void {
    const event = given.type === 'retry' && plan.why !== undefined ? { ...given, why: plan.why } : given
    reporter.observe(event)
    listener(event)
  }
  const { key } = service
  const { transport } = service.http
  return {
    ...openPlatform(config, io, { key, transport, emit }),
    /** As it is in use here; that of the service is as it was given. */
    config,
    service,
    clock: io.clock,
    moments,
    progress,
    instance,
    /** Host of the platform's base URL. */
    platform,
    /** `payments at api.example.com`: stands in everything that is asked or shown. */
    target: `${instance} at ${platform}`,
    /** Aborted by the wish to stop. */
    stop: io.signal,
    /** Of the terminal behind stdout, in characters; undefined without one. */
    width: widthOf(io.stdout),
    /** Calls the listener with every event of the reconciler from now on, in place of the one before. */
    listen(next: Emit) {
      listener = next
    },
    /** Prints the answer of the command. */
    answer(document: object, text: () => string) {
      progress.clear()
      answer(io.stdout, options, document, text)
    },
  }
}

export type Session = ReturnType<typeof openSession>

/**
 * Runs the body in a session of its own.
 * @returns the body's exit code, or the one of what kept it from its end
 * @throws ConfigurationError, UsageError, the reason of a signal, and bugs
 */
export async function inSession(
  io: Io,
  options: CommandFlags,
  plan: SessionPlan,
  body: (session: Session) => Promise<ExitCode>,
): Promise<ExitCode> {
  const session = openSession(io, options, plan)
  const { progress, service, target } = session
  try {
    return await body(session)
  } catch (error) {
    const failure = failureOf(error)
    if (failure === undefined) throw error
    return unavailable(failure, target, { stderr: progress.output })
  } finally {
    progress.clear()
    await service.http.close()
  }
}
