// The session of a command that calls the platform: its configuration, connection, log and target, and its error reports.
import type { Config } from '../config/schema.ts'
import type { Emit } from '../observe/events.ts'
import type { Log } from '../observe/log/log.ts'
import { createLogReporter } from '../observe/log/log-reporter.ts'
import type { Transport } from '../platform/http/http.ts'
import { failureOf, problemOf } from '../reconcile/platform-trouble.ts'
import { prefixed } from '../ops/words.ts'
import type { Policy } from '../reconcile/policy.ts'
import { toPolicy } from '../reconciler.ts'
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import { redact } from '../runtime/redact.ts'
import { gapsOf } from '../runtime/schedule.ts'
import type { CommandFlags } from './flags.ts'
import { paragraph, widthOf } from './format.ts'
import type { Io } from './io.ts'
import { createMoments, type Moments } from './moments.ts'
import { openPlatform, type Platform } from './platform.ts'
import { openService } from './service.ts'

/** The platform, and the terminal. */
export interface Session extends Platform {
  config: Config
  log: Log
  transport: Transport
  policy: Policy
  moments: Moments
  /** `payments at api.example.com`. */
  target: string
  /** Terminal width of stdout, in characters; undefined without one. */
  width: number | undefined
}

/** Share of the daemon's call rate that a command uses. */
const shareOfCalls = 0.5

/**
 * Runs the body in a session of its own.
 * @returns the body's exit code, or that of the failure that ended it
 * @throws ConfigurationError, UsageError, the reason of a signal, and bugs
 */
export async function inSession(
  io: Io,
  options: CommandFlags,
  body: (session: Session) => Promise<ExitCode>,
): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const { http, key, log, ...service } = openService(io, options, io.stderr, { quiet: options.verbose !== true })
  const maxRequestsPerSecond = options.rate ?? service.config.platform.maxRequestsPerSecond * shareOfCalls
  const config = { ...service.config, platform: { ...service.config.platform, maxRequestsPerSecond } }
  const emit: Emit = options.verbose === true ? createLogReporter(log, io.clock).observe : () => undefined
  const target = `${config.instance.name} at ${new URL(config.platform.baseUrl).host}`
  const { transport } = http
  try {
    return await body({
      ...openPlatform(config, io, { key, transport, emit }),
      ...{ config, log, target, transport, moments },
      policy: toPolicy(config, gapsOf(config.schedule.cron).min),
      width: widthOf(io.stdout),
    })
  } catch (error) {
    const failure = failureOf(error)
    if (failure === undefined) throw error
    const { advice, rejected } = failure
    const why = paragraph(`${target}: the list call failed: ${problemOf(failure)}`, widthOf(io.stderr))
    const next = prefixed('To check each step: webhook-reconciler check\n', config.server.commandPrefix ?? '')
    io.stderr.write(redact(why + paragraph(advice, widthOf(io.stderr), '-> ') + next))
    return rejected ? exitCode.authenticationRejected : exitCode.platformUnreachable
  } finally {
    await http.close()
  }
}
