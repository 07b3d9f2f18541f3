// `npm run bench:footprint`: how soon the daemon is ready, and how much CPU and memory it takes, beside a bare Node in the same run.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../src/runtime/clock.ts'
import { daemonEnv, type Sandbox } from '../../sandbox/sandbox.ts'
import { startPlatform } from '../support/platform.ts'
import { testKeys } from '../support/keys.ts'
import { cpuMs, freePort, median, memoryOf, statusOf } from './process-figures.ts'

const { values } = parseArgs({
  options: {
    /** How many times each is measured; the medians count. */
    times: { type: 'string', default: '7' },
    /** The script of another build. Default: that of dist/. */
    script: { type: 'string' },
    /** Options of Node for the daemon: those of the image, where they have to do with memory or start. */
    node: { type: 'string', default: '' },
    /** Only how soon it is ready, in seconds instead of minutes. */
    'start-only': { type: 'boolean', default: false },
  },
})
const times = Number(values.times)
const idleSeconds = 60
const records = 1000
const pollMs = 2

interface Target {
  name: string
  unit: string
  max: number
}

const targets = {
  ready: { name: 'ready, over bare Node', unit: 'ms', max: 160 },
  cpu: { name: 'CPU until ready, by bare Node', unit: 'times', max: 4 },
  check: { name: 'healthcheck, over bare Node', unit: 'ms', max: 100 },
  checkRss: { name: 'peak RSS of healthcheck', unit: 'MiB', max: 60 },
  idleRss: { name: `RSS after ${idleSeconds} s idle`, unit: 'MiB', max: 80 },
  idleCpu: { name: 'CPU while idle', unit: '%', max: 0.1 },
  workedRss: { name: `RSS ${idleSeconds} s after ${records} recovered`, unit: 'MiB', max: 110 },
} satisfies Record<string, Target>

/** The least that answers a probe: what every daemon on Node has to pay. */
const bareServer = `require('node:http').createServer((_, answer) => answer.end()).listen(Number(process.argv[1]), '127.0.0.1')`

interface Started {
  child: ChildProcess
  pid: number
  port: number
  readyMs: number
  readyCpuMs: number
}

/** Starts Node with these arguments and waits until `/readyz` answers 200 on this port. */
async function start(args: readonly string[], port: number, env: Record<string, string>): Promise<Started> {
  const began = performance.now()
  const child = spawn(process.execPath, args, { env: { PATH: process.env['PATH'], ...env }, stdio: 'ignore' })
  const pid = child.pid ?? 0
  while ((await statusOf(`http://127.0.0.1:${port}/readyz`)) !== 200) {
    if (child.exitCode !== null)
      throw new Error(`${args.join(' ')} ended with ${child.exitCode}; run \`npm run build\``)
    await sleep(pollMs)
  }
  return { child, pid, port, readyMs: performance.now() - began, readyCpuMs: cpuMs(pid) }
}

async function end({ child }: Started): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}

const keys = await testKeys()
const folder = mkdtempSync(join(tmpdir(), 'bench-footprint-'))

const script = values.script ?? join(import.meta.dirname, '../../dist/main.cjs')

async function startDaemon(sandbox: Sandbox): Promise<Started> {
  const port = await freePort()
  const nodeOptions = values.node.split(' ').filter((option) => option !== '')
  return start([...nodeOptions, script, 'run'], port, {
    NODE_ENV: 'production',
    ...daemonEnv(sandbox, keys.privateKeyFile),
    RECONCILER_SERVER_PORT: String(port),
  })
}

async function startBare(): Promise<Started> {
  const port = await freePort()
  return start(['-e', bareServer, String(port)], port, {})
}

function show(target: Target, figures: readonly number[], beside = ''): void {
  const digits = { '%': 3, times: 1 }[target.unit] ?? 0
  const [middle, low, high] = [median(figures), Math.min(...figures), Math.max(...figures)]
  const verdict = middle <= target.max ? 'reached' : 'MISSED'
  process.stdout.write(
    `  ${target.name.padEnd(34)} ${middle.toFixed(digits)} ${target.unit} (${low.toFixed(digits)} to ${high.toFixed(digits)})${beside}; ` +
      `target at most ${target.max} ${target.unit}: ${verdict}\n`,
  )
}

interface Rounds<T> {
  bare: T[]
  ours: T[]
}

/** By turns, so that both meet the same load. The first of each only warms the disk cache. */
async function byTurns<T>(bare: () => T | Promise<T>, ours: () => T | Promise<T>): Promise<Rounds<T>> {
  const rounds: Rounds<T> = { bare: [], ours: [] }
  for (let round = 0; round <= times; round += 1) {
    rounds.bare.push(await bare())
    rounds.ours.push(await ours())
  }
  return { bare: rounds.bare.slice(1), ours: rounds.ours.slice(1) }
}

/** Shows what ours takes over the median of bare Node. */
function showOver<T>(target: Target, { bare, ours }: Rounds<T>, msOf: (one: T) => number): void {
  const bareMs = median(bare.map(msOf))
  const over = ours.map((one) => msOf(one) - bareMs)
  show(target, over, `, bare Node ${bareMs.toFixed(0)} ms`)
}

async function measureStart(): Promise<void> {
  await using sandbox = await startPlatform()
  const ended = async (starting: Promise<Started>): Promise<Started> => {
    const started = await starting
    await end(started)
    return started
  }
  const rounds = await byTurns(
    () => ended(startBare()),
    () => ended(startDaemon(sandbox)),
  )
  showOver(targets.ready, rounds, ({ readyMs }) => readyMs)
  const bareCpu = median(rounds.bare.map(({ readyCpuMs }) => readyCpuMs))
  const ratios = rounds.ours.map(({ readyCpuMs }, index) => readyCpuMs / (rounds.bare[index]?.readyCpuMs ?? NaN))
  show(targets.cpu, ratios, `, bare Node ${bareCpu.toFixed(0)} ms`)
}

/** Each process writes the peak of its RSS into a file, as its parent is not given it. */
const peakFile = join(folder, 'peak')
const peakHook = join(folder, 'peak.cjs')
writeFileSync(
  peakHook,
  `process.on('exit', () => require('node:fs').writeFileSync(${JSON.stringify(peakFile)}, String(process.resourceUsage().maxRSS)))`,
)

interface Ran {
  ms: number
  peakMiB: number
}

function run(args: readonly string[], env: Record<string, string>): Ran {
  const began = performance.now()
  const { status } = spawnSync(process.execPath, ['--require', peakHook, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: 'ignore',
  })
  if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}; run \`npm run build\``)
  return { ms: performance.now() - began, peakMiB: Number(readFileSync(peakFile, 'utf8')) / 1024 }
}

async function measureHealthcheck(): Promise<void> {
  await using sandbox = await startPlatform()
  const daemon = await startDaemon(sandbox)
  const rounds = await byTurns(
    () => run(['-e', '0'], {}),
    () => run([script, 'healthcheck'], { RECONCILER_SERVER_PORT: String(daemon.port) }),
  )
  await end(daemon)
  showOver(targets.check, rounds, ({ ms }) => ms)
  const [bare, ours] = [rounds.bare, rounds.ours].map((ran) => ran.map(({ peakMiB }) => peakMiB))
  show(targets.checkRss, ours ?? [], `, bare Node ${median(bare ?? []).toFixed(0)} MiB`)
}

async function recovered(sandbox: Sandbox): Promise<void> {
  while (sandbox.counts().failed > 0) await sleep(500)
}

function startAll(sandboxes: readonly Sandbox[]): Promise<Started[]> {
  return Promise.all(sandboxes.map(startDaemon))
}

function showRss(target: Target, started: readonly Started[], beside = ''): void {
  const memory = started.map(({ pid }) => memoryOf(pid))
  const [rss, anon] = [memory.map(({ rssMiB }) => rssMiB), memory.map(({ anonMiB }) => anonMiB)]
  show(target, rss, `, anonymous ${median(anon).toFixed(0)}${beside}`)
}

/** All at once, each with a sandbox of its own: first idle, then after work. */
async function measureMemory(): Promise<void> {
  await using stack = new AsyncDisposableStack()
  const sandboxes: Sandbox[] = []
  for (let index = 0; index < times; index += 1) sandboxes.push(stack.use(await startPlatform()))
  const bare = await startBare()
  const idle = await startAll(sandboxes)
  await sleep(idleSeconds * 1000)
  const before = idle.map(({ pid }) => cpuMs(pid))
  showRss(targets.idleRss, idle, `, bare Node ${memoryOf(bare.pid).rssMiB.toFixed(0)}`)
  await sleep(idleSeconds * 1000)
  const shares = idle.map(({ pid }, index) => (cpuMs(pid) - (before[index] ?? 0)) / (idleSeconds * 10))
  show(targets.idleCpu, shares)
  await Promise.all([bare, ...idle].map(end))

  const now = systemClock.now()
  for (const sandbox of sandboxes) {
    sandbox.seed({ count: records, from: now - 20 * 3_600_000, to: now - 3_600_000, attempts: 1, spread: 'even' })
  }
  const working = await startAll(sandboxes)
  await Promise.all(sandboxes.map(recovered))
  await sleep(idleSeconds * 1000)
  showRss(targets.workedRss, working)
  await Promise.all(working.map(end))
}

process.stdout.write(`medians of ${times}; load of this machine ${(loadavg()[0] ?? 0).toFixed(1)}\n`)
try {
  await measureStart()
  await measureHealthcheck()
  if (!values['start-only']) await measureMemory()
} finally {
  rmSync(folder, { recursive: true })
}
process.stdout.write(`load at the end ${(loadavg()[0] ?? 0).toFixed(1)}\n`)
