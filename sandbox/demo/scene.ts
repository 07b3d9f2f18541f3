// The scene of the demo: a platform with about 500 failed deliveries of an outage, and a colleague who retries some by hand.
import type { Clock, Random } from '../../src/runtime/clock.ts'
import { createPlatformClient, type PlatformClient } from '../../src/platform/client.ts'
import type { HttpTransport } from '../../src/platform/http.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import { loadKey } from '../../src/platform/credentials.ts'
import { createRateLimiter } from '../../src/platform/rate-limiter.ts'
import { createServerClock } from '../../src/platform/server-clock.ts'
import { createTokenCache } from '../../src/platform/token.ts'
import { tokenPath } from '../../src/platform/wire.ts'
import type { Sandbox } from '../sandbox.ts'

const minute = 60_000
const hour = 60 * minute

/** What the platform holds when the demo begins. */
export interface Scene {
  failed: number
  atLimit: number
  retriedBefore: number
  delivered: number
  /** Records that the colleague is going to retry. */
  colleagues: readonly string[]
}

const subscriptions = 2
const untouched = 420
const retriedBefore = 31
const atLimit = 25
const forColleague = 12
const delivered = 80
/** Attempts after which the daemon parks a record, by default. */
const limit = 30

/** An outage from six to three hours ago: what was sent then has failed. */
export function setScene(sandbox: Sandbox, now: number): Scene {
  const outage = { from: now - 6 * hour, to: now - 3 * hour, subscriptions, spread: 'random' } as const
  const soon = { min: 500, max: 5 * minute }
  sandbox.seed({ ...outage, count: untouched, attempts: 1, lastAttemptAfterMs: soon })
  sandbox.seed({ ...outage, count: retriedBefore, attempts: { min: 4, max: 7 }, lastAttemptAfterMs: soon })
  sandbox.seed({ ...outage, count: atLimit, attempts: limit, lastAttemptAfterMs: soon })
  sandbox.seed({ ...outage, count: delivered, failed: 0, attempts: 1, lastAttemptAfterMs: soon })
  // The youngest of the outage: the daemon begins with the oldest, so the colleague is there first.
  const owners = Object.keys(sandbox.countBy('subscriptionId'))
  const colleagues = Array.from({ length: forColleague }, (_, index) =>
    sandbox.addWebhook({
      subscriptionId: owners[index % owners.length] ?? '',
      eventInstant: now - 2.5 * hour,
      attempts: 1,
    }),
  )
  const failed = untouched + retriedBefore + atLimit + forColleague
  return { failed, atLimit, retriedBefore, delivered, colleagues }
}

export interface ColleagueOptions {
  sandbox: Sandbox
  privateKeyFile: string
  http: HttpTransport
  clock: Clock
  random: Random
}

/** Somebody else with the same rights: retries by hand, over the same API. */
export async function createColleague(options: ColleagueOptions): Promise<PlatformClient> {
  const { clock, http, random, sandbox } = options
  const key = await loadKey({ file: options.privateKeyFile })
  const common = { transport: http.transport, clock, random, requestTimeoutMs: 10_000, emit: () => undefined }
  const tokens = createTokenCache({
    ...common,
    tokenUrl: new URL(sandbox.issuerUrl + tokenPath),
    issuer: sandbox.issuerUrl,
    clientId: sandbox.clientId,
    scope: 'api',
    assertionLifetimeMs: minute,
    key,
    serverClock: createServerClock(clock),
  })
  return createPlatformClient({
    ...common,
    baseUrl: sandbox.baseUrl,
    zone: createTimeZone('UTC'),
    tokens,
    rate: createRateLimiter({ clock, maxPerSecond: 100 }),
    serverClock: createServerClock(clock),
  })
}
