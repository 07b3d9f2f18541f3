// What is measured: the reconciler as the daemon runs it, and the least that any program would have to do.
import { Agent, request } from 'undici'
import pLimit from 'p-limit'
import { systemClock, systemRandom } from '../../src/runtime/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import { connectionsOf, createReconciler, toPolicy } from '../../src/reconciler.ts'
import { createConnection } from '../../src/platform/connection.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { Log } from '../../src/observe/log/log.ts'
import { publishEvent } from '../../src/observe/publish.ts'
import { createMetrics } from '../../src/observe/registry.ts'
import { createLogReporter } from '../../src/observe/log/log-reporter.ts'
import { loadKey } from '../../src/platform/auth/private-key.ts'
import { createHttpTransport } from '../../src/platform/http/http.ts'
import { retryRequestBody } from '../../src/platform/wire.ts'
import { platformEnv } from '../../sandbox/sandbox.ts'
import type { BenchSandbox } from './sandbox-process.ts'

export interface Measured {
  seconds: number
  /** All calls to the API. */
  calls: number
  lists: number
  /** Looks at what was retried. */
  confirms: number
  accepted: number
  /** Records that were seen to be recovered. */
  recovered: number
  cpuMicroseconds: number
}

const silent: Log = { event: () => undefined }

function cpuMicroseconds(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** How the reconciler is run. */
export interface Run {
  records: number
  concurrency: number
  /** True when circuits limit what is without an outcome. */
  circuits: boolean
  /** It is done with the last retry that was accepted, or with the last record that was seen to be recovered. */
  until: 'accepted' | 'recovered'
}

/** The reconciler with its metrics and log lines, sweeping, retrying and confirming side by side until it is done. */
export async function reconcile(sandbox: BenchSandbox, privateKeyFile: string, run: Run): Promise<Measured> {
  const { circuits, concurrency, records, until } = run
  const { config } = loadConfig({
    env: {
      ...platformEnv(sandbox, privateKeyFile),
      RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '100000',
      RECONCILER_BACKLOG_MAX_RECORDS: String(records),
      RECONCILER_RETRY_CONCURRENCY: String(concurrency),
      ...(!circuits && { RECONCILER_CIRCUIT_INITIAL_LIMIT: '1000' }),
    },
    hostName: 'bench',
    readFile: () => '',
  })
  const metrics = createMetrics({ processMetrics: false })
  const reporter = createLogReporter(silent, systemClock)
  const finished = Promise.withResolvers<undefined>()
  const measured: Measured = {
    seconds: 0,
    calls: 0,
    lists: 0,
    confirms: 0,
    accepted: 0,
    recovered: 0,
    cpuMicroseconds: 0,
  }
  const emit = (event: TelemetryEvent): void => {
    publishEvent(metrics, event)
    reporter.observe(event)
    if (event.type === 'platform-request') {
      measured.calls += 1
      if (event.operation === 'list') measured.lists += 1
      if (event.operation === 'confirm') measured.confirms += 1
    }
    if (event.type === 'retry' && event.response.result === 'accepted') measured.accepted += 1
    if (event.type === 'outcome' && event.outcome === 'recovered') measured.recovered += 1
    if (measured[until] === records) finished.resolve(undefined)
  }
  const key = loadKey({ file: privateKeyFile })
  const http = createHttpTransport({ clock: systemClock, version: 'bench', connections: connectionsOf(config) })
  const { transport } = http
  const hosts = { clock: systemClock, random: systemRandom, transport, emit }
  const connection = createConnection(config, { ...hosts, key })
  const reconciler = createReconciler(config, { ...hosts, policy: toPolicy(config, 30_000), connection })
  const stop = new AbortController()

  const cpu = cpuMicroseconds()
  const started = performance.now()
  const retrying = reconciler.retry({ stop: stop.signal, kill: stop.signal })
  const confirming = reconciler.confirm(stop.signal).catch(() => undefined)
  await reconciler.sweeper.make('full', stop.signal)
  await finished.promise
  measured.seconds = (performance.now() - started) / 1000
  measured.cpuMicroseconds = cpuMicroseconds() - cpu
  stop.abort()
  await Promise.all([retrying, confirming])
  await http.close()
  return measured
}

interface BareList {
  data: { webhooks: { id: string }[] }
}

async function json(url: string, agent: Agent, token: string, patch = false): Promise<unknown> {
  const answer = await request(url, {
    dispatcher: agent,
    method: patch ? 'PATCH' : 'GET',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: patch ? JSON.stringify(retryRequestBody) : null,
  })
  return answer.body.json()
}

/** As many list and PATCH calls over as many connections by a bare loop: no window, no policy, no bookkeeping. */
export async function bareLoop(
  sandbox: BenchSandbox,
  token: string,
  shape: { lists: number; records: number; concurrency: number; listConcurrency: number },
): Promise<Measured> {
  const agent = new Agent({ allowH2: false, connections: shape.concurrency + shape.listConcurrency })
  const cpu = cpuMicroseconds()
  const started = performance.now()
  const ids = new Set<string>()
  const listing = pLimit(shape.listConcurrency)
  const page = async (number: number): Promise<void> => {
    const query = `data.webhook.status=failed&metadata.page.size=100&metadata.page.number=${number}`
    const body = (await json(`${sandbox.baseUrl}/webhooks?${query}`, agent, token)) as BareList
    for (const { id } of body.data.webhooks) ids.add(id)
  }
  await Promise.all(Array.from({ length: shape.lists }, (_, number) => listing(page, number)))
  const limit = pLimit(shape.concurrency)
  let accepted = 0
  const patch = async (id: string): Promise<void> => {
    const body = (await json(`${sandbox.baseUrl}/webhooks/${id}`, agent, token, true)) as { data?: unknown }
    if (body.data !== undefined) accepted += 1
  }
  await Promise.all([...ids].map((id) => limit(patch, id)))
  const measured = {
    seconds: (performance.now() - started) / 1000,
    calls: shape.lists + ids.size,
    lists: shape.lists,
    confirms: 0,
    accepted,
    recovered: 0,
    cpuMicroseconds: cpuMicroseconds() - cpu,
  }
  await agent.destroy()
  return measured
}
