// `npm run bench:memory`: the daemon at its shipped pace in real cgroups, with the image's own options of Node.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { findHierarchy, makeCgroup, type Cgroup } from '../support/cgroup.ts'
import { imageOptions } from '../support/image-options.ts'
import { testKeys } from '../support/keys.ts'
import { mainScript } from '../support/process.ts'
import { coldNode } from './cold-node.ts'
import type { LightPlatformCounts } from './light-platform.ts'
import { lightEnvironment, startLightPlatform } from './light-process.ts'
import { freePort, memoryOf, statusOf } from './process-figures.ts'

const { values } = parseArgs({
  options: {
    /** Seconds of each run. */
    seconds: { type: 'string', default: '150' },
    /** Limits in MiB, one run each. */
    limits: { type: 'string', default: '512,128' },
    /** Failed records. */
    records: { type: 'string', default: '100000' },
    /** `backlog.maxRecords`. */
    backlog: { type: 'string', default: '20000' },
    /** Seconds between two `healthcheck` processes in the same cgroup, as Docker starts them; 0: none. */
    healthcheck: { type: 'string', default: '0' },
    /** In place of the image's NODE_OPTIONS. */
    node: { type: 'string' },
  },
})
const seconds = Number(values.seconds)
const records = Number(values.records)
const healthcheckEvery = Number(values.healthcheck)
/** Docker's limit in the image. */
const healthcheckTimeoutMs = 5000

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

/** Runs `healthcheck` in the cgroup. Resolves to true when the daemon was alive. */
async function isHealthy([shell, ...words]: Cgroup['enter'], node: string, port: number): Promise<boolean> {
  const { PATH = '' } = process.env
  const child = spawn(shell, [...words, node, mainScript, 'healthcheck'], {
    env: { PATH, NODE_OPTIONS: nodeOptions, RECONCILER_SERVER_PORT: String(port) },
    stdio: 'ignore',
    timeout: healthcheckTimeoutMs,
    killSignal: 'SIGKILL',
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  return code === 0
}

async function measure(limitMiB: number): Promise<void> {
  if (hierarchy === undefined) return
  using platform = await startLightPlatform(records)
  const port = await freePort()
  using cgroup = makeCgroup(hierarchy, limitMiB)
  const [shell, ...words] = cgroup.enter
  const node = coldNode(folder)
  const daemon = spawn(shell, [...words, node, mainScript, 'run'], {
    env: {
      ...lightEnvironment({ origin: platform.origin, privateKeyFile: keys.privateKeyFile, port, nodeOptions }),
      RECONCILER_BACKLOG_MAX_RECORDS: values.backlog,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const kill = (): void => void daemon.kill('SIGKILL')
  process.once('exit', kill)
  const ended = once(daemon, 'exit')
  const began = performance.now()
  const elapsed = (): number => (performance.now() - began) / 1000
  let [peakMiB, probes, failedProbes, checks, failedChecks] = [0, 0, 0, 0, 0]
  let counts: LightPlatformCounts = { failed: records, listCalls: 0, retryCalls: 0 }
  while (elapsed() < seconds && daemon.exitCode === null && daemon.signalCode === null && counts.failed > 0) {
    await sleep(1000)
    if (daemon.exitCode !== null || daemon.signalCode !== null) break
    peakMiB = memoryOf(daemon.pid ?? 0).peakMiB
    probes += 1
    // The first seconds are the start.
    if ((await statusOf(`http://127.0.0.1:${port}/livez`)) !== 200 && probes > 5) failedProbes += 1
    if (healthcheckEvery > 0 && elapsed() > (checks + 1) * healthcheckEvery) {
      checks += 1
      if (!(await isHealthy(cgroup.enter, node, port))) failedChecks += 1
    }
    counts = await platform.counts()
  }
  const took = elapsed()
  const how = daemon.exitCode ?? daemon.signalCode
  if (how === null) {
    kill()
    await ended
  }
  process.off('exit', kill)
  const recovered = records - counts.failed
  process.stdout.write(
    `${records} failed, ${limitMiB} MiB: ${recovered} recovered in ${took.toFixed(0)} s (${(recovered / took).toFixed(1)}/s), ` +
      `${counts.listCalls} list calls, peak RSS ${peakMiB.toFixed(0)} MiB, peak of the cgroup ${cgroup.peakMiB().toFixed(0)} MiB, ` +
      `limit hit ${cgroup.limitHits()} times, /livez failed ${failedProbes} of ${probes}` +
      `${checks > 0 ? `, healthcheck ${failedChecks} of ${checks}` : ''}` +
      `${how === null ? '' : `, ENDED with ${how}`}${cgroup.wasKilled() ? ', OUT OF MEMORY' : ''}\n`,
  )
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const load = (): string => (loadavg()[0] ?? 0).toFixed(1)
process.stdout.write(
  `NODE_OPTIONS=${nodeOptions}, cgroup v${hierarchy.version}, ${seconds} s at most, load ${load()}\n`,
)
try {
  for (const limit of values.limits.split(',')) await measure(Number(limit))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.stdout.write(`load at the end ${load()}\n`)
