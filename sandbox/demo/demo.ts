// The quick start: sandbox, real keys, the daemon's own program, and the books of both sides compared at the end.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeCredentials, prepareFolder, writeCredentials } from '../../tools/credentials.ts'
import type { Clock, Random } from '../../src/runtime/clock.ts'
import { metricPrefix } from '../../src/observe/metrics.ts'
import { createHttpTransport } from '../../src/platform/http.ts'
import type { Outcome } from '../../src/reconcile/confirm/evidence.ts'
import { startSandbox, type Sandbox } from '../sandbox.ts'
import { untilAborted } from '../../src/runtime/notifier.ts'
import { compareBooks, type Books } from './books.ts'
import { startDaemonProcess } from './daemon-process.ts'
import { createProgress, type Output } from './progress.ts'
import { createColleague, setScene, type Scene } from './scene.ts'
import { readStatus, scrape, sumOf, type Samples } from './scrape.ts'
import { isDone, tellChange, viewOf, type View } from './view.ts'

interface Io {
  stdout: Output
  stderr: Output
  clock: Clock
  random: Random
  /** Ends the demo when it is aborted. */
  signal: AbortSignal
}

export interface DemoOptions {
  /** Stay up at the end, so that one can look around. */
  keep: boolean
  /** Node and script that start this program. */
  program: readonly [node: string, script: string]
}

const day = 86_400_000
const watchEveryMs = 250
const longestMs = 90_000

/** What the daemon is told besides where the sandbox is: everything else is its default. Shorter times, so that nobody waits. */
const settings = {
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '60',
  RECONCILER_SCHEDULE_CRON: '*/5 * * * * *',
  RECONCILER_CIRCUIT_COOLDOWN: '5s',
  RECONCILER_RETRY_BACKOFF_INITIAL: '1s',
  RECONCILER_RETRY_BACKOFF_MAX: '5s',
  RECONCILER_SERVER_HOST: '127.0.0.1',
  RECONCILER_SERVER_PORT: '0',
  RECONCILER_INSTANCE_NAME: 'demo',
}

/** The platform answers a retry first, and delivers so much later: its answer tells nothing of the outcome. */
const delivery = { mode: 'async', delayMs: 300 } as const
/** The receiver comes up so long after the circuit has opened. */
const repairMs = 2000
/** Or then, should the circuit not open. */
const longestDownMs = 30_000

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

/** What happens in the scene while the daemon works. */
interface Play {
  io: Io
  sandbox: Sandbox
  scene: Scene
  /** Retries one record by hand; true when the platform took it. */
  retryByHand: (id: string) => Promise<boolean>
}

/** What happened that only the scene knows. */
interface Happened {
  deliveriesWhileDown: number
  byHand: { resolved: number; calls: number }
}

/** Somebody repairs the receiver, and a colleague retries some records by hand. */
async function repair({ io, retryByHand, sandbox, scene }: Play, say: (text: string) => void): Promise<Happened> {
  await io.clock.sleep(repairMs, io.signal)
  const { received } = sandbox.receiver.counts()
  sandbox.receiver.up()
  const byHand = { resolved: 0, calls: 0 }
  say(`the receiver is up again, after ${received} deliveries into it`)
  for (const id of scene.colleagues) {
    byHand.calls += 1
    if (await retryByHand(id)) byHand.resolved += 1
  }
  say(`a colleague has retried ${byHand.resolved} by hand, without telling the daemon`)
  return { deliveriesWhileDown: received, byHand }
}

interface Watched {
  view: View
  happened: Happened
  seconds: number
}

/**
 * Follows the daemon's status until nothing is open; the receiver is repaired once the circuit has opened. Undefined
 * when the daemon does not answer.
 */
async function watch(opsUrl: string, play: Play): Promise<Watched | undefined> {
  const { io, scene } = play
  const started = io.clock.monotonic()
  const elapsed = (): number => io.clock.monotonic() - started
  const toDo = scene.failed - scene.atLimit
  const progress = createProgress(io.stdout, toDo)
  const say = (text: string): void => {
    progress.say(text, elapsed())
  }
  let repairing: Promise<Happened> | undefined
  let isRepaired = false
  let view: View | undefined
  while (elapsed() < longestMs && !(view !== undefined && isRepaired && isDone(view))) {
    const status = await readStatus(`${opsUrl}/status`)
    if (status !== undefined) {
      const now = viewOf(status)
      for (const text of tellChange(view, now)) say(text)
      view = now
      const { awaiting, circuitText, hasSwept, open } = now
      progress.show({ open: hasSwept ? open : toDo, awaiting, circuit: circuitText, elapsedMs: elapsed() })
    }
    if (repairing === undefined && (view?.circuit === 'open' || elapsed() > longestDownMs)) {
      repairing = repair(play, say)
      repairing.then(
        () => (isRepaired = true),
        () => undefined,
      )
    }
    await io.clock.sleep(watchEveryMs, io.signal)
  }
  progress.end()
  if (view === undefined || repairing === undefined) return undefined
  return { view, happened: await repairing, seconds: elapsed() / 1000 }
}

function readBooks(sandbox: Sandbox, scene: Scene, { happened, seconds, view }: Watched, samples: Samples): Books {
  const { requests, deliveries } = sandbox.stats
  const counted = (['list', 'retry'] as const).flatMap((operation) => Object.values(requests[operation]))
  const told = ['list', 'retry', 'confirm'].map((operation) =>
    sumOf(samples, metric('platform_requests_total'), { operation }),
  )
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)
  const outcomes = (outcome: Outcome): number => sumOf(samples, metric('outcomes_total'), { outcome })
  const { byHand, deliveriesWhileDown } = happened
  return {
    daemon: {
      recovered: outcomes('recovered'),
      failedAgain: outcomes('failed-again'),
      calls: sum(told),
      open: view.open,
    },
    platform: {
      successful: sandbox.counts().successful - scene.delivered - byHand.resolved,
      failedAgain: deliveries.failed,
      calls: sum(counted) - byHand.calls,
    },
    receiver: { whileDown: deliveriesWhileDown, twice: sandbox.receiver.counts().repeated },
    due: scene.failed - scene.atLimit,
    atLimit: scene.atLimit,
    byOthers: byHand.resolved,
    seconds,
  }
}

function introduce(io: Io, sandbox: Sandbox, scene: Scene, logFile: string): void {
  const { failed, retriedBefore, atLimit } = scene
  io.stdout.write(
    [
      `Platform (sandbox): ${sandbox.baseUrl}`,
      `It holds ${failed} failed deliveries of an outage of the receiver, of four event types and two subscriptions;`,
      `${retriedBefore} of them were retried before in vain, ${atLimit} are at their limit. The receiver is still down.`,
      `A retry is answered first, and delivered ${delivery.delayMs} ms later: accepted is not arrived.`,
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
  // The log stays where something went wrong. The keys never do.
  let isLogWorthKeeping = true
  cleanup.defer(() => rm(isLogWorthKeeping ? join(keys.folder, 'keys') : keys.folder, { recursive: true, force: true }))
  const sandbox = await startSandbox({ clock: io.clock, certificatePem: keys.certificatePem, delivery })
  cleanup.defer(() => sandbox.close())
  const scene = setScene(sandbox, io.clock.now())
  sandbox.receiver.down()
  const http = createHttpTransport({ clock: io.clock, connections: 2 })
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
  const retryByHand = async (id: string): Promise<boolean> => {
    const { result } = await client.retry(id, io.signal)
    return result === 'accepted'
  }
  const daemon = startDaemonProcess(options.program, environment(sandbox, keys), logFile)
  cleanup.defer(async () => {
    await daemon.stop()
  })
  const opsUrl = await daemon.opsUrl.catch(() => undefined)
  const watched = opsUrl === undefined ? undefined : await watch(opsUrl, { io, sandbox, scene, retryByHand })
  await sandbox.idle()
  const samples = opsUrl === undefined ? undefined : await scrape(`${opsUrl}/metrics`)
  if (watched === undefined || samples === undefined) {
    io.stderr.write(`The daemon does not answer; its log says why: ${logFile}\n`)
    return false
  }
  const { text, equal } = compareBooks(readBooks(sandbox, scene, watched, samples))
  io.stdout.write(`\n${text}`)
  if (options.keep) {
    io.stdout.write(
      `\nStill up; Ctrl-C ends it.\n  daemon:  ${opsUrl}/ and ${opsUrl}/metrics\n  sandbox: ${sandbox.controlUrl}/stats\n`,
    )
    await untilAborted(io.signal)
  }
  if (equal) isLogWorthKeeping = false
  else io.stdout.write(`\nThe daemon's log stays: ${logFile}\n`)
  return equal
}
