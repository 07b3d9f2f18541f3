// The quick start: sandbox, real keys, the daemon's own program, and the books of both sides compared at the end.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Io } from '../cli/io.ts'
import { makeCredentials, prepareFolder, writeCredentials } from '../keygen.ts'
import { metricPrefix } from '../metrics/registry.ts'
import { createUndiciTransport } from '../platform/undici-transport.ts'
import { startSandbox, type Sandbox } from '../sandbox/sandbox.ts'
import { untilAborted } from '../shutdown.ts'
import { compareBooks, type Books } from './books.ts'
import { startDaemonProcess } from './daemon-process.ts'
import { createProgress } from './progress.ts'
import { createColleague, setScene, type Scene } from './scene.ts'
import { scrape, sumOf, type Samples } from './scrape.ts'

export interface DemoOptions {
  /** Stay up at the end, so that one can look around. */
  keep: boolean
  /** Node and script that start this program. */
  program: readonly [node: string, script: string]
}

const day = 86_400_000
const watchEveryMs = 250
const longestMs = 90_000

/** What the daemon is told besides where the sandbox is: everything else is its default. */
const settings = {
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '60',
  RECONCILER_SCHEDULE_CRON: '*/5 * * * * *',
  RECONCILER_SERVER_HOST: '127.0.0.1',
  RECONCILER_SERVER_PORT: '0',
  RECONCILER_INSTANCE_NAME: 'demo',
}

const metric = (name: string): string => metricPrefix + name

interface Credentials {
  folder: string
  privateKeyFile: string
  certificateFile: string
  certificatePem: string
}

async function makeKeys(io: Io): Promise<Credentials> {
  const folder = await mkdtemp(join(tmpdir(), 'webhook-reconciler-demo-'))
  const files = await prepareFolder(join(folder, 'keys'))
  const now = io.clock.now()
  const credentials = await makeCredentials({
    commonName: 'demo',
    notBefore: now - 60_000,
    notAfter: now + day,
    serialNumber: `01${io.random.uuid().replaceAll('-', '')}`,
  })
  await writeCredentials(files, credentials)
  return { folder, ...files, certificatePem: credentials.certificatePem }
}

function environment(sandbox: Sandbox, keys: Credentials): Record<string, string> {
  return {
    RECONCILER_PLATFORM_BASE_URL: sandbox.baseUrl,
    RECONCILER_AUTH_AUTH_URL: sandbox.authUrl,
    RECONCILER_AUTH_REALM: sandbox.realm,
    RECONCILER_AUTH_CLIENT_ID: sandbox.clientId,
    RECONCILER_AUTH_PRIVATE_KEY_FILE: keys.privateKeyFile,
    RECONCILER_AUTH_CERTIFICATE_FILE: keys.certificateFile,
    ...settings,
  }
}

/** Failed records that the daemon is not done with. */
function openRecords(samples: Samples): number {
  return ['due', 'held', 'awaiting', 'backing-off']
    .map((decision) => sumOf(samples, metric('failed_webhooks'), { decision }))
    .reduce((sum, count) => sum + count, 0)
}

function isDone(samples: Samples): boolean {
  const swept = sumOf(samples, metric('last_complete_sweep_timestamp_seconds')) > 0
  return swept && openRecords(samples) === 0 && sumOf(samples, metric('retries_in_flight')) === 0
}

interface Watched {
  samples: Samples
  seconds: number
}

/**
 * Follows the daemon's metrics until nothing is open; the colleague acts as soon as the daemon has seen the records.
 * Undefined when the daemon does not answer.
 */
async function watch(opsUrl: string, io: Io, scene: Scene, act: () => Promise<void>): Promise<Watched | undefined> {
  const started = io.clock.monotonic()
  const toDo = scene.failed - scene.atLimit
  const progress = createProgress(io.stdout, toDo)
  let colleague: Promise<void> | undefined
  for (;;) {
    const samples = await scrape(`${opsUrl}/metrics`)
    const elapsedMs = io.clock.monotonic() - started
    if (samples !== undefined) {
      const hasSwept = sumOf(samples, metric('last_complete_sweep_timestamp_seconds')) > 0
      progress.show({
        open: hasSwept ? openRecords(samples) : toDo,
        parked: sumOf(samples, metric('failed_webhooks'), { decision: 'parked' }),
        elapsedMs,
      })
      if (hasSwept) colleague ??= act()
    }
    const isOver = elapsedMs > longestMs
    if (samples !== undefined && (isOver || (colleague !== undefined && isDone(samples)))) {
      await colleague
      progress.end()
      return { samples, seconds: elapsedMs / 1000 }
    }
    if (isOver) return undefined
    await io.clock.sleep(watchEveryMs, io.signal)
  }
}

interface Colleague {
  resolved: number
  calls: number
}

function readBooks(sandbox: Sandbox, scene: Scene, { samples, seconds }: Watched, colleague: Colleague): Books {
  const operations = ['list', 'retry'] as const
  const counted = operations.flatMap((operation) => Object.values(sandbox.stats.requests[operation]))
  const told = operations.map((operation) => sumOf(samples, metric('platform_requests_total'), { operation }))
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)
  return {
    daemon: {
      accepted: sumOf(samples, metric('retries_total'), { result: 'accepted' }),
      calls: sum(told),
      open: openRecords(samples),
    },
    platform: {
      successful: sandbox.counts().successful - scene.delivered - colleague.resolved,
      calls: sum(counted) - colleague.calls,
      touchedTwice: sandbox.retriedMoreThanOnce().length,
    },
    atLimit: scene.atLimit,
    byOthers: colleague.resolved,
    seconds,
  }
}

function introduce(io: Io, sandbox: Sandbox, scene: Scene, logFile: string): void {
  const { failed, retriedBefore, atLimit } = scene
  io.stdout.write(
    [
      `Platform (sandbox): ${sandbox.baseUrl}`,
      `It holds ${failed} failed deliveries of an outage of the receiver, of four event types and two subscriptions;`,
      `${retriedBefore} of them were retried before in vain, ${atLimit} are at their limit. The receiver is up again.`,
      '',
      `Daemon: its log is in ${logFile}; what differs from its defaults:`,
      ...Object.entries(settings).map(([name, value]) => `  ${name}=${value}`),
      '',
      '',
    ].join('\n'),
  )
}

/** Runs the demo. True when the books of both sides are equal. Rejects with the signal's reason when it is stopped. */
export async function runDemo(io: Io, options: DemoOptions): Promise<boolean> {
  await using cleanup = new AsyncDisposableStack()
  io.stdout.write('Making an RSA-4096 key and a certificate (a few seconds) ...\n')
  const keys = await makeKeys(io)
  cleanup.defer(() => rm(join(keys.folder, 'keys'), { recursive: true, force: true }))
  const sandbox = await startSandbox({ clock: io.clock, certificatePem: keys.certificatePem })
  cleanup.defer(() => sandbox.close())
  const scene = setScene(sandbox, io.clock.now())
  const http = createUndiciTransport({ clock: io.clock, connections: 2 })
  cleanup.defer(() => http.close())
  const logFile = join(keys.folder, 'daemon.log')
  introduce(io, sandbox, scene, logFile)

  const client = await createColleague({
    sandbox,
    privateKeyFile: keys.privateKeyFile,
    http,
    clock: io.clock,
    random: io.random,
  })
  const colleague: Colleague = { resolved: 0, calls: 0 }
  const daemon = startDaemonProcess(options.program, environment(sandbox, keys), logFile)
  cleanup.defer(async () => {
    await daemon.stop()
  })
  const opsUrl = await daemon.opsUrl.catch(() => undefined)
  const watched =
    opsUrl === undefined
      ? undefined
      : await watch(opsUrl, io, scene, async () => {
          for (const id of scene.colleagues) {
            const { result } = await client.retry(id, io.signal)
            colleague.calls += 1
            if (result === 'accepted') colleague.resolved += 1
          }
        })
  if (watched === undefined) {
    io.stderr.write(`The daemon does not answer; its log says why: ${logFile}\n`)
    return false
  }
  const { text, equal } = compareBooks(readBooks(sandbox, scene, watched, colleague))
  io.stdout.write(`\n${text}`)
  if (options.keep) {
    io.stdout.write(
      `\nStill up; Ctrl-C ends it.\n  daemon:  ${opsUrl}/metrics\n  sandbox: ${sandbox.controlUrl}/stats\n`,
    )
    await untilAborted(io.signal)
  }
  return equal
}
