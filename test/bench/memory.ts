// `npm run bench:memory`: the daemon in a real cgroup with the image's own options of Node, and up to a million failed records.
import { fork, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { findHierarchy, makeCgroup } from '../support/cgroup.ts'
import { imageOptions } from '../support/image-options.ts'
import { testKeys } from '../support/keys.ts'
import { mainScript } from '../support/process.ts'
import type { LightPlatformCounts } from './light-platform.ts'
import { freePort, memoryOf, statusOf } from './process-figures.ts'

const { values } = parseArgs({
  options: {
    /** Seconds of each row. */
    seconds: { type: 'string', default: '150' },
    /** Only the rows whose name holds this. */
    only: { type: 'string', default: '' },
    /** In place of the image's NODE_OPTIONS. */
    node: { type: 'string' },
  },
})
const seconds = Number(values.seconds)

interface Row {
  name: string
  limitMiB: number
  records: number
  env?: Record<string, string>
}

/** As fast as the platform answers. */
const unthrottled = {
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000',
  RECONCILER_RETRY_CONCURRENCY: '32',
  RECONCILER_SWEEP_CONCURRENCY: '8',
}

const rows: readonly Row[] = [
  { name: 'shipped pace, 100,000 failed, 512 MiB', limitMiB: 512, records: 100_000 },
  { name: 'shipped pace, 100,000 failed, 128 MiB', limitMiB: 128, records: 100_000 },
  { name: 'unthrottled, 10,000 failed, 256 MiB', limitMiB: 256, records: 10_000, env: unthrottled },
  { name: 'unthrottled, 1,000,000 failed, 256 MiB', limitMiB: 256, records: 1_000_000, env: unthrottled },
]

/**
 * A copy of Node that is not in the page cache: the first that runs it pays for its pages, as in a container. It has to lie
 * on a disk; memory that tmpfs takes can't be given back.
 */
function coldNode(folder: string): string {
  const copy = join(folder, 'node')
  copyFileSync(process.execPath, copy)
  const { status } = spawnSync('dd', [
    `of=${copy}`,
    'oflag=nocache',
    'conv=notrunc,fdatasync',
    'count=0',
    'status=none',
  ])
  if (status !== 0) throw new Error('dd could not drop the copy of Node from the page cache')
  return copy
}

const hierarchy = findHierarchy()
if (hierarchy === undefined) {
  process.stderr.write(
    'No memory cgroup can be made here: run this as root, with cgroup v1 or a v2 root that hands memory on.\n',
  )
  process.exit(1)
}
const keys = await testKeys()
const nodeOptions = values.node ?? imageOptions()
const folder = mkdtempSync(join(tmpdir(), 'bench-memory-'))

async function measure({ env, limitMiB, name, records }: Row): Promise<void> {
  if (hierarchy === undefined) return
  const platform = fork(join(import.meta.dirname, 'light-platform.ts'), [String(records)])
  const [{ port: platformPort }] = (await once(platform, 'message')) as [{ port: number }]
  const origin = `http://127.0.0.1:${platformPort}`
  const port = await freePort()
  using cgroup = makeCgroup(hierarchy, limitMiB)
  const [shell, ...words] = cgroup.enter
  const daemon = spawn(shell, [...words, coldNode(folder), mainScript, 'run'], {
    env: {
      PATH: process.env['PATH'],
      NODE_ENV: 'production',
      NODE_OPTIONS: nodeOptions,
      RECONCILER_PLATFORM_BASE_URL: origin,
      RECONCILER_AUTH_ISSUER_URL: `${origin}/auth/realms/bench`,
      RECONCILER_AUTH_CLIENT_ID: 'bench',
      RECONCILER_AUTH_PRIVATE_KEY_FILE: keys.privateKeyFile,
      RECONCILER_SERVER_HOST: '127.0.0.1',
      RECONCILER_SERVER_PORT: String(port),
      ...env,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const kill = (): void => void daemon.kill('SIGKILL')
  process.once('exit', kill)
  const ended = once(daemon, 'exit')
  const began = performance.now()
  const elapsed = (): number => (performance.now() - began) / 1000
  let [peakMiB, probes, failedProbes] = [0, 0, 0]
  let counts: LightPlatformCounts = { failed: records, listCalls: 0, retryCalls: 0 }
  while (elapsed() < seconds && daemon.exitCode === null && daemon.signalCode === null && counts.failed > 0) {
    await sleep(1000)
    if (daemon.exitCode !== null || daemon.signalCode !== null) break
    peakMiB = memoryOf(daemon.pid ?? 0).peakMiB
    probes += 1
    // The first seconds are the start.
    if ((await statusOf(`http://127.0.0.1:${port}/livez`)) !== 200 && probes > 5) failedProbes += 1
    platform.send('counts')
    ;[counts] = (await once(platform, 'message')) as [LightPlatformCounts]
  }
  const took = elapsed()
  const how = daemon.exitCode ?? daemon.signalCode
  if (how === null) {
    kill()
    await ended
  }
  process.off('exit', kill)
  platform.disconnect()
  const recovered = records - counts.failed
  process.stdout.write(
    `${name}: ${recovered} recovered in ${took.toFixed(0)} s (${(recovered / took).toFixed(1)}/s), ` +
      `${counts.listCalls} list calls, peak RSS ${peakMiB.toFixed(0)} MiB, peak of the cgroup ${cgroup.peakMiB().toFixed(0)} MiB, ` +
      `limit hit ${cgroup.limitHits()} times, /livez failed ${failedProbes} of ${probes}` +
      `${how === null ? '' : `, ENDED with ${how}`}${cgroup.wasKilled() ? ', OUT OF MEMORY' : ''}\n`,
  )
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const load = (): string => (loadavg()[0] ?? 0).toFixed(1)
process.stdout.write(
  `NODE_OPTIONS=${nodeOptions}, cgroup v${hierarchy.version}, ${seconds} s at most, load ${load()}\n`,
)
try {
  for (const row of rows.filter(({ name }) => name.includes(values.only))) await measure(row)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.stdout.write(`load at the end ${load()}\n`)
