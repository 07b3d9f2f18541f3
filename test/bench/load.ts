// `npm run bench:memory`, `bench:scale`, `bench:held`: a daemon recovers the sandbox's records, or holds those of dead receivers, with the
// image's own options of Node; in a real cgroup but for `held`.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { daemonEnv } from '../../sandbox/sandbox.ts'
import { findHierarchy, makeCgroup, type Cgroup } from '../support/cgroup.ts'
import { startForked } from '../support/forked.ts'
import { testKeys } from '../support/keys.ts'
import { mainScript } from '../support/process.ts'
import { cpuMs, freePort, imageOptions, median, memoryOf, statusOf } from './process-figures.ts'
import type { BenchCommand, BenchCounts, BenchSandbox } from './sandbox-process.ts'

/** As fast as the platform answers. */
const unthrottled = {
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '100000',
  RECONCILER_RETRY_CONCURRENCY: '64',
}

/** What each script measures by default. */
const benches = {
  /** At its shipped pace, for some time, with little memory. */
  memory: { records: '100000', limits: '512,128', seconds: '150', env: {} },
  /** At full pace, until all are recovered. */
  scale: { records: '10000,100000,1000000', limits: '256', seconds: 'Infinity', env: unthrottled },
  /** Listed at full pace, and retried at 15 a second, while /status and /metrics are read every three seconds. */
  held: {
    records: '20000,100000,200000',
    limits: '0',
    seconds: '60',
    env: { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '2000', RECONCILER_RETRY_CONCURRENCY: '64' },
  },
}
const [, , name = ''] = process.argv
if (name !== 'memory' && name !== 'scale' && name !== 'held') throw new Error(`${name}: memory, scale or held`)
const bench = benches[name]
const { values } = parseArgs({
  args: process.argv.slice(3),
  options: {
    /** Numbers of failed records, one run each. */
    records: { type: 'string', default: bench.records },
    /** Limits of the cgroup in MiB, one run each; 0: none, which needs no root. */
    limits: { type: 'string', default: bench.limits },
    /** The longest that a run takes. */
    seconds: { type: 'string', default: bench.seconds },
    /** Of the failed records; and of `held` what their receivers do: `dead`, `refusing` or `well`. */
    subscriptions: { type: 'string', default: '20' },
    receivers: { type: 'string', default: 'dead' },
    /** `retry.maxPerSecond` of `held`. */
    pace: { type: 'string', default: '15' },
    /** `backlog.maxRecords`. */
    backlog: { type: 'string', default: '200000' },
    /** Seconds between two `healthcheck` processes in the same cgroup, as Docker starts them; 0: none. */
    healthcheck: { type: 'string', default: '0' },
    /** In place of the image's NODE_OPTIONS. */
    'node-options': { type: 'string', default: imageOptions },
    /** Options of Node for the daemon besides these: `--cpu-prof --cpu-prof-dir DIR`. */
    node: { type: 'string', default: '' },
  },
})
const [seconds, healthcheckEvery] = [Number(values.seconds), Number(values.healthcheck)]
const nodeOptions = values['node-options']
const pollMs = 500
/** Seconds. */
const readEvery = 3
/** Docker's limit in the image. */
const healthcheckTimeoutMs = 5000

const hierarchy = findHierarchy()
if (hierarchy === undefined && values.limits !== '0') {
  process.stderr.write('No memory cgroup can be made here: run this as root, or with --limits 0.\n')
  process.exit(1)
}
const keys = await testKeys()
const folder = mkdtempSync(join(tmpdir(), 'bench-load-'))

/** What the daemon's process says of its event loop at its end. */
interface LoopFigures {
  p99Ms: number
  maxMs: number
  /** The most CPU time of the main thread between two turns of a 10 ms timer: other processes do not lengthen it. */
  maxCpuMs: number
}

/** Preloaded. Plain JavaScript, as stripping types would take memory of its own. */
const probe = join(folder, 'probe.cjs')
const figuresFile = join(folder, 'figures.json')
writeFileSync(
  probe,
  `const resolution = 10
  const delay = require('node:perf_hooks').monitorEventLoopDelay({ resolution })
  const threadCpuMs = () => {
    const { system, user } = process.threadCpuUsage()
    return (system + user) / 1000
  }
  let maxCpuMs = 0
  // Once it is ready: the start is measured elsewhere.
  process.once('SIGUSR2', () => {
    delay.enable()
    let before = threadCpuMs()
    setInterval(() => {
      const now = threadCpuMs()
      maxCpuMs = Math.max(maxCpuMs, now - before)
      before = now
    }, resolution).unref()
  })
  const overMs = (nanoseconds) => nanoseconds / 1e6 - resolution
  process.on('exit', () => {
    const figures = { p99Ms: overMs(delay.percentile(99)), maxMs: overMs(delay.max), maxCpuMs }
    require('node:fs').writeFileSync(${JSON.stringify(figuresFile)}, JSON.stringify(figures))
  })`,
)

/**
 * A copy of Node that is not in the page cache: the first that runs it pays for its pages, as in a container. It has to lie
 * on a disk; memory that tmpfs takes can't be given back.
 */
function coldNode(): string {
  const copy = join(folder, 'node')
  copyFileSync(process.execPath, copy)
  const words = [`of=${copy}`, 'oflag=nocache', 'conv=notrunc,fdatasync', 'count=0', 'status=none']
  if (spawnSync('dd', words).status !== 0) throw new Error('dd could not drop the copy of Node from the page cache')
  return copy
}

/** The command that runs Node in the cgroup, or without one. */
function nodeIn(cgroup: Cgroup | undefined): [command: string, ...words: string[]] {
  return cgroup === undefined ? [process.execPath] : [...cgroup.enter, coldNode()]
}

/** Runs `healthcheck` in the cgroup. Resolves to true when the daemon was alive. */
async function isHealthy([command, ...words]: ReturnType<typeof nodeIn>, port: number): Promise<boolean> {
  const { PATH = '' } = process.env
  const child = spawn(command, [...words, mainScript, 'healthcheck'], {
    env: { PATH, NODE_OPTIONS: nodeOptions, RECONCILER_SERVER_PORT: String(port) },
    stdio: 'ignore',
    timeout: healthcheckTimeoutMs,
    killSignal: 'SIGKILL',
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  return code === 0
}

/** How often it was asked, and how often it failed. */
const failedOf = ({ failed, asked }: { failed: number; asked: number }): string => `failed ${failed} of ${asked}`

async function measure(records: number, limitMiB: number): Promise<void> {
  await using platform = await startForked(join(import.meta.dirname, 'sandbox-process.ts'), [keys.certificatePem])
  const receivers = name === 'held' ? (values.receivers as BenchCommand['receivers']) : undefined
  const subscriptions = Number(values.subscriptions)
  const place = await platform.ask({
    seed: records,
    subscriptions,
    ...(receivers && { receivers }),
  } satisfies BenchCommand)
  const askCounts = async (): Promise<BenchCounts> => (await platform.ask('counts')) as BenchCounts
  const port = await freePort()
  using cgroup = hierarchy && limitMiB > 0 ? makeCgroup(hierarchy, limitMiB) : undefined
  const node = nodeIn(cgroup)
  const [command, ...words] = node
  const options = values.node.split(' ').filter((option) => option !== '')
  const daemon = spawn(command, [...words, '--require', probe, ...options, mainScript, 'run'], {
    env: {
      PATH: process.env['PATH'] ?? '',
      NODE_ENV: 'production',
      NODE_OPTIONS: nodeOptions,
      ...daemonEnv(place as BenchSandbox, keys.privateKeyFile),
      RECONCILER_SERVER_PORT: String(port),
      ...bench.env,
      ...(name === 'held' && { RECONCILER_RETRY_MAX_PER_SECOND: values.pace }),
      RECONCILER_BACKLOG_MAX_RECORDS: values.backlog,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const pid = daemon.pid ?? 0
  const kill = (): void => void daemon.kill('SIGKILL')
  process.once('exit', kill)
  const ended = once(daemon, 'exit')
  const isRunning = (): boolean => daemon.exitCode === null && daemon.signalCode === null
  const began = performance.now()
  const elapsed = (): number => (performance.now() - began) / 1000
  while (isRunning() && (await statusOf(`http://127.0.0.1:${port}/readyz`)) !== 200) await sleep(pollMs / 10)
  daemon.kill('SIGUSR2')
  const [livez, checks] = [
    { failed: 0, asked: 0 },
    { failed: 0, asked: 0 },
  ]
  const read = { '/status': [] as number[], '/metrics': [] as number[] }
  let readAt = 0
  let [counts, cpu, peakMiB] = [await askCounts(), 0, 0]
  while (elapsed() < seconds && isRunning() && counts.failed > 0) {
    await sleep(pollMs)
    counts = await askCounts()
    if (!isRunning()) break
    ;[cpu, peakMiB] = [cpuMs(pid), memoryOf(pid).peakMiB]
    livez.asked += 1
    if ((await statusOf(`http://127.0.0.1:${port}/livez`)) !== 200) livez.failed += 1
    if (name === 'held' && elapsed() > readAt + readEvery) {
      for (const path of ['/status', '/metrics'] as const) {
        const [before, asked] = [cpuMs(pid), `http://127.0.0.1:${port}${path}`]
        if ((await statusOf(asked)) === 200) read[path].push(cpuMs(pid) - before)
      }
      readAt = elapsed()
    }
    if (healthcheckEvery > 0 && elapsed() > (checks.asked + 1) * healthcheckEvery) {
      checks.asked += 1
      if (!(await isHealthy(node, port))) checks.failed += 1
    }
  }
  const [took, recovered] = [elapsed(), records - counts.failed]
  const how = daemon.exitCode ?? daemon.signalCode
  daemon.kill('SIGTERM')
  await ended
  process.off('exit', kill)
  const each = (number: number): string => (number / recovered).toFixed(4)
  const figures = [
    `${records} failed, ${limitMiB} MiB: ${recovered} recovered in ${took.toFixed(0)} s (${(recovered / took).toFixed(1)}/s)`,
    ...(recovered === 0
      ? []
      : [
          `${((1000 * cpu) / recovered).toFixed(0)} us CPU, ${each(counts.listCalls)} list calls and ${each(counts.retryCalls)} retries a record`,
        ]),
    `peak RSS ${peakMiB.toFixed(0)} MiB`,
    `/livez ${failedOf(livez)}`,
    ...(checks.asked > 0 ? [`healthcheck ${failedOf(checks)}`] : []),
    ...(cgroup === undefined
      ? []
      : [`peak of the cgroup ${cgroup.peakMiB().toFixed(0)} MiB, limit hit ${cgroup.limitHits()} times`]),
    ...Object.entries(read).flatMap(([path, ms]) =>
      ms.length === 0 ? [] : [`${path} ${median(ms).toFixed(0)} ms CPU`],
    ),
    ...(how === null ? [loopText()] : [`ENDED with ${how}; was it built (npm run build)?`]),
    ...(cgroup?.wasKilled() === true ? ['OUT OF MEMORY'] : []),
  ]
  process.stdout.write(`${figures.join(', ')}\n`)
}

function loopText(): string {
  const { maxCpuMs, maxMs, p99Ms } = JSON.parse(readFileSync(figuresFile, 'utf8')) as LoopFigures
  const [p99, max, own] = [p99Ms, maxMs, maxCpuMs].map((ms) => ms.toFixed(1))
  return `event loop late by ${p99} ms (p99), ${max} ms (max), by its own CPU time ${own} ms at most`
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const load = (): string => (loadavg()[0] ?? 0).toFixed(1)
const version = hierarchy === undefined ? '' : `, cgroup v${hierarchy.version}`
process.stdout.write(`NODE_OPTIONS=${nodeOptions}${version}, load ${load()}\n`)
try {
  for (const records of values.records.split(',')) {
    for (const limit of values.limits.split(',')) await measure(Number(records), Number(limit))
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.stdout.write(`load at the end ${load()}\n`)
