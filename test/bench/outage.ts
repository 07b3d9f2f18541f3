// A receiver that is down for a minute, in virtual time: how many deliveries hit it, and how long recovery takes once it is up.
import { systemRandom, type Clock } from '../../src/runtime/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createConnection } from '../../src/platform/connection.ts'
import { createReconciler, toPolicy } from '../../src/reconciler.ts'
import type { HttpRequest, HttpResponse, Transport } from '../../src/platform/http/http.ts'
import { loadKey } from '../../src/platform/auth/private-key.ts'
import { listParameter } from '../../src/platform/wire.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

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

interface Row {
  id: string
  eventId: string
  eventAt: number
  status: 'failed' | 'successful'
  attempts: number
  lastAt: number
}

interface Platform {
  transport: Transport
  rows: readonly Row[]
  /** The receiver goes down now; epoch ms. */
  begin: () => number
  recovered: () => number
  hitsWhileDown: () => number
  calls: () => number
}

const local = (instant: number): string => new Date(instant).toISOString().slice(0, -1)
const subscriptionId = 'aaaaaaaa-0000-4000-8000-000000000001'

function render(row: Row): object {
  return {
    id: row.id,
    eventId: row.eventId,
    subscriptionId,
    status: row.status,
    numberOfAttempts: row.attempts,
    requestPayload: { webhook: { type: 'outgoing-transfer-completed', module: 'outgoing-transfers' } },
    eventDateTime: local(row.eventAt),
    lastAttemptDateTime: local(row.lastAt),
    responseStatusCode: row.status === 'failed' ? 503 : 200,
  }
}

/** A platform that delivers before it answers, as little as is needed to be listed and retried; 100,000 records and more. */
function createPlatform(clock: Clock, run: OutageRun): Platform {
  const madeAt = clock.now()
  const [from, until] = [madeAt - 100 * hour, madeAt - 12 * hour]
  let upAt = Infinity
  const rows: Row[] = Array.from({ length: run.records }, (_, index) => {
    const number = index.toString(16).padStart(12, '0')
    const eventAt = Math.floor(from + ((until - from) * index) / run.records)
    const ids = { id: `11111111-0000-4000-8000-${number}`, eventId: `22222222-0000-4000-8000-${number}` }
    return { ...ids, eventAt, status: 'failed', attempts: 1, lastAt: eventAt + 1000 }
  })
  const byId = new Map(rows.map((row) => [row.id, row]))
  const counts = { recovered: 0, hits: 0, calls: 0 }

  /** First row at or after a moment. */
  function indexOf(moment: number): number {
    let [low, high] = [0, rows.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((rows[middle]?.eventAt ?? Infinity) < moment) low = middle + 1
      else high = middle
    }
    return low
  }

  function list({ searchParams }: URL): object {
    const moment = (name: string, otherwise: number): number => {
      const text = searchParams.get(name)
      return text === null ? otherwise : Date.parse(`${text}Z`)
    }
    const first = indexOf(moment(listParameter.from, 0))
    const end = indexOf(moment(listParameter.to, Infinity) + 1000)
    const status = searchParams.get(listParameter.status)
    const matching = rows.slice(first, end).filter((row) => status === null || row.status === status)
    const [number, size] = [listParameter.pageNumber, listParameter.pageSize].map((name) =>
      Number(searchParams.get(name)),
    )
    const page = matching.slice((number ?? 0) * (size ?? 0), ((number ?? 0) + 1) * (size ?? 0))
    const totalElements = matching.length
    return { data: { webhooks: page.map(render) }, metadata: { page: { size, number, totalElements } } }
  }

  function retry({ pathname }: URL): object {
    const row = byId.get(pathname.split('/').at(-1) ?? '')
    if (row === undefined) throw new Error('a record that does not exist was retried')
    const isDown = clock.now() < upAt
    row.attempts += 1
    row.lastAt = clock.now()
    if (isDown) counts.hits += 1
    else {
      row.status = 'successful'
      counts.recovered += 1
    }
    return { workflow: { code: 'retry' }, data: { webhook: render(row) } }
  }

  function answer({ method, url }: HttpRequest): object {
    if (method === 'POST') return { access_token: 'token', token_type: 'Bearer', expires_in: 36_000, scope: 'api' }
    counts.calls += 1
    return method === 'PATCH' ? retry(url) : list(url)
  }

  return {
    rows,
    begin() {
      upAt = clock.now() + run.downMs
      return clock.now()
    },
    recovered: () => counts.recovered,
    hitsWhileDown: () => counts.hits,
    calls: () => counts.calls,
    async transport(request): Promise<HttpResponse> {
      const sentAt = clock.monotonic()
      await clock.sleep(run.latencyMs, request.signal)
      const body = JSON.stringify(answer(request))
      const date = new Date(Math.floor(clock.now() / 1000) * 1000).toUTCString()
      return { status: 200, headers: { date }, body, sentAt, receivedAt: clock.monotonic() }
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
  while (platform.recovered() < run.records && clock.now() < startedAt + longestMs) {
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
  const retry = async (rows: Iterator<Row>): Promise<void> => {
    for (let next = rows.next(); next.done !== true; next = rows.next()) {
      const url = new URL(`https://platform.example/v1/webhooks/${next.value.id}`)
      await platform.transport({ method: 'PATCH', url, headers: {}, timeoutMs: 10_000, maxBytes: 1e6, signal })
    }
  }
  for (let tick = 0; platform.recovered() < run.records; tick += 1) {
    await clock.run(clock.sleep(Math.max(0, startedAt + tick * tickMs - clock.now())))
    const failed = platform.rows.filter(({ status }) => status === 'failed').values()
    await clock.run(Promise.all(Array.from({ length: run.concurrency }, () => retry(failed))))
  }
  return resultOf(platform, clock, startedAt, run)
}
