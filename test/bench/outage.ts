// A receiver that is down for a minute, in virtual time: how many deliveries hit it, and how long recovery takes once it is up.
import { systemRandom, type Clock } from '../../src/runtime/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createConnection } from '../../src/platform/connection.ts'
import { createReconciler, toPolicy } from '../../src/reconciler.ts'
import type { HttpRequest, HttpResponse, Transport } from '../../src/platform/http/http.ts'
import { loadKey } from '../../src/platform/auth/private-key.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { createLightRecords, type LightRecords } from './light-records.ts'

export interface OutageRun {
  records: number
  /** How long the receiver stays down, ms of virtual time. */
  downMs: number
  latencyMs: number
  concurrency: number
  requestsPerSecond: number
}

export interface OutageResult {
  /** Deliveries into the receiver while it was down. */
  hitsWhileDown: number
  /** From the receiver's coming up to the last record recovered. */
  secondsUntilRecovered: number
  calls: number
}

const hour = 3_600_000
const tickMs = 30_000
const stepMs = 100
const longestMs = 2 * hour

interface Platform {
  transport: Transport
  records: LightRecords
  /** The receiver goes down now; epoch ms. */
  begin: () => number
  hitsWhileDown: () => number
  calls: () => number
}

/** A platform that delivers before it answers. */
function createPlatform(clock: Clock, run: OutageRun): Platform {
  const madeAt = clock.now()
  let upAt = Infinity
  const counts = { hits: 0, calls: 0 }
  const records = createLightRecords({
    records: run.records,
    subscriptions: 1,
    from: madeAt - 100 * hour,
    to: madeAt - 12 * hour,
    now: () => clock.now(),
    isReceiverUp() {
      const isUp = clock.now() >= upAt
      if (!isUp) counts.hits += 1
      return isUp
    },
  })

  function answer({ method, url }: HttpRequest): Pick<HttpResponse, 'status'> & { body: object } {
    if (method === 'POST') {
      return { status: 200, body: { access_token: 'token', token_type: 'Bearer', expires_in: 36_000, scope: 'api' } }
    }
    counts.calls += 1
    if (method === 'PATCH') return records.retry(url.pathname.slice(-36))
    return { status: 200, body: records.list(url.searchParams) }
  }

  return {
    records,
    begin() {
      upAt = clock.now() + run.downMs
      return clock.now()
    },
    hitsWhileDown: () => counts.hits,
    calls: () => counts.calls,
    async transport(request): Promise<HttpResponse> {
      const sentAt = clock.monotonic()
      await clock.sleep(run.latencyMs, request.signal)
      const { body, status } = answer(request)
      const date = new Date(Math.floor(clock.now() / 1000) * 1000).toUTCString()
      return { status, headers: { date }, body: JSON.stringify(body), sentAt, receivedAt: clock.monotonic() }
    },
  }
}

function resultOf(platform: Platform, clock: Clock, startedAt: number, run: OutageRun): OutageResult {
  return {
    hitsWhileDown: platform.hitsWhileDown(),
    secondsUntilRecovered: (clock.now() - startedAt - run.downMs) / 1000,
    calls: platform.calls(),
  }
}

/** The reconciler with its defaults, but for the rate and the concurrency. */
export async function reconcileOutage(privateKeyFile: string, run: OutageRun): Promise<OutageResult> {
  const clock = createVirtualClock()
  const platform = createPlatform(clock, run)
  const { config } = loadConfig({
    env: {
      RECONCILER_PLATFORM_BASE_URL: 'https://platform.example/v1',
      RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: String(run.requestsPerSecond),
      RECONCILER_AUTH_ISSUER_URL: 'https://identity.example/auth/realms/bench',
      RECONCILER_AUTH_CLIENT_ID: 'bench',
      RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
      RECONCILER_BACKLOG_MAX_RECORDS: String(run.records),
      RECONCILER_RETRY_CONCURRENCY: String(run.concurrency),
    },
    hostName: 'bench',
    readFile: () => '',
  })
  const key = loadKey({ file: privateKeyFile })
  const { transport } = platform
  const random = systemRandom
  const emit = (): void => undefined
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const policy = toPolicy(config, tickMs)
  const reconciler = createReconciler(config, { policy, connection, transport, clock, random, emit })
  const stop = new AbortController()
  const { signal } = stop
  // Signing takes real time, which the clock would run away from.
  await clock.run(connection.tokens.get(signal))
  const startedAt = platform.begin()
  const loops = [
    reconciler.retry({ stop: signal, kill: signal }),
    reconciler.confirm(signal),
    reconciler.sweep(signal),
  ].map((loop) => loop.catch(() => undefined))
  while (platform.records.failed() > 0 && clock.now() < startedAt + longestMs) {
    if ((clock.now() - startedAt) % tickMs < stepMs) reconciler.sweeper.tick()
    await clock.advance(stepMs)
  }
  const result = resultOf(platform, clock, startedAt, run)
  stop.abort(new Error('the run is over'))
  await clock.run(Promise.all(loops))
  return result
}

/** A loop that retries all that is failed on every tick, as many at once, and looks at nothing else. */
export async function bareOutage(run: OutageRun): Promise<OutageResult> {
  const clock = createVirtualClock()
  const platform = createPlatform(clock, run)
  const startedAt = platform.begin()
  const { signal } = new AbortController()
  const retry = async (ids: Iterator<string>): Promise<void> => {
    for (let next = ids.next(); next.done !== true; next = ids.next()) {
      const url = new URL(`https://platform.example/v1/webhooks/${next.value}`)
      await platform.transport({ method: 'PATCH', url, headers: {}, timeoutMs: 10_000, maxBytes: 1e6, signal })
    }
  }
  for (let tick = 0; platform.records.failed() > 0; tick += 1) {
    await clock.run(clock.sleep(Math.max(0, startedAt + tick * tickMs - clock.now())))
    const failed = platform.records.failedIds().values()
    await clock.run(Promise.all(Array.from({ length: run.concurrency }, () => retry(failed))))
  }
  return resultOf(platform, clock, startedAt, run)
}
