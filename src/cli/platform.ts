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
import type { Io } from './io.ts'

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
