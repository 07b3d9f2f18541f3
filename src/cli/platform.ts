// The platform for `check` and `compare`: a connection and a rate limiter of their own, no reconciler.
import type { Config } from '../config/schema.ts'
import type { Emit } from '../observe/events.ts'
import type { SigningKey } from '../platform/auth/private-key.ts'
import type { Reloadable } from '../platform/auth/reloadable.ts'
import type { PlatformClient } from '../platform/client.ts'
import { createConnection, type Connection } from '../platform/connection.ts'
import type { Transport } from '../platform/http/http.ts'
import { maxRetryAfterMs } from '../platform/http/response.ts'
import { createRateLimiter } from '../platform/rate-limiter.ts'
import { problemOf, type CallFailure } from '../reconcile/platform-trouble.ts'
import { prefixed } from '../ops/words.ts'
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import { redact } from '../runtime/redact.ts'
import { paragraph, widthOf } from './format.ts'
import type { Io, Output } from './io.ts'

export interface Platform {
  connection: Connection
  client: PlatformClient
}

/** Longest wait of a command for the rate limit: a person is waiting. */
const patienceMs = 300_000

export function openPlatform(
  config: Config,
  { clock, random }: Pick<Io, 'clock' | 'random'>,
  parts: { key: Reloadable<SigningKey>; transport: Transport; emit: Emit },
): Platform {
  const connection = createConnection(config, { clock, random, maxPauseMs: patienceMs, ...parts })
  const rate = createRateLimiter({
    clock,
    maxPerSecond: config.platform.maxRequestsPerSecond,
    maxRetryAfterMs: maxRetryAfterMs(config.window.lookback),
  })
  return { connection, client: connection.client(rate) }
}

/** Reports why nothing is known; returns the exit code. */
export function unavailable(
  { advice, rejected, ...failure }: Pick<CallFailure, 'advice' | 'message' | 'problem' | 'rejected'>,
  { commandPrefix, stderr, target }: { commandPrefix: string; stderr: Output; target: string },
): ExitCode {
  const width = widthOf(stderr)
  const why = paragraph(`${target}: the list call failed: ${problemOf(failure)}`, width)
  const next = prefixed('To check each step: webhook-reconciler check\n', commandPrefix)
  stderr.write(redact(why + paragraph(advice, width, '-> ') + next))
  return rejected ? exitCode.authenticationRejected : exitCode.platformUnreachable
}
