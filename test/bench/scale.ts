// `npm run bench:scale`: up to a million failed records at full pace: the daemon's rate, CPU, calls and memory, and how long its event loop is blocked, in a real cgroup.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { findHierarchy, makeCgroup } from '../support/cgroup.ts'
import { imageOptions } from '../support/image-options.ts'
import { testKeys } from '../support/keys.ts'
import { mainScript } from '../support/process.ts'
import { coldNode } from './cold-node.ts'
import { lightEnvironment, startLightPlatform, unthrottled } from './light-process.ts'
import { cpuMs, freePort, memoryOf, statusOf } from './process-figures.ts'

const { values } = parseArgs({
  options: {
    /** Numbers of failed records, one run each. */
    records: { type: 'string', default: '10000,100000,1000000' },
    /** Limit of the cgroup in MiB; 0: none, which needs no root. */
    limit: { type: 'string', default: '256' },
    /** Options of Node for the daemon, besides the image's: `--cpu-prof --cpu-prof-dir DIR`. */
    node: { type: 'string', default: '' },
  },
})
const limitMiB = Number(values.limit)
const hierarchy = limitMiB === 0 ? undefined : findHierarchy()
if (limitMiB > 0 && hierarchy === undefined) {
  process.stderr.write('No memory cgroup can be made here: run this as root, or with --limit 0.\n')
  process.exit(1)
}
const pollMs = 500
const folder = mkdtempSync(join(tmpdir(), 'bench-scale-'))

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

const keys = await testKeys()

async function measure(records: number): Promise<void> {
  using platform = await startLightPlatform(records)
  const settings = { origin: platform.origin, privateKeyFile: keys.privateKeyFile, port: await freePort() }
  const options = values.node.split(' ').filter((option) => option !== '')
  using cgroup = hierarchy && makeCgroup(hierarchy, limitMiB)
  const [command = '', ...words] = [
    ...(cgroup === undefined ? [process.execPath] : [...cgroup.enter, coldNode(folder)]),
  ]
  const daemon = spawn(command, [...words, '--require', probe, ...options, mainScript, 'run'], {
    env: { ...lightEnvironment({ ...settings, nodeOptions: imageOptions() }), ...unthrottled },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const pid = daemon.pid ?? 0
  const kill = (): void => void daemon.kill('SIGKILL')
  process.once('exit', kill)
  const ended = once(daemon, 'exit')
  const began = performance.now()
  while ((await statusOf(`http://127.0.0.1:${settings.port}/readyz`)) !== 200) await sleep(pollMs / 10)
  daemon.kill('SIGUSR2')
  let counts = await platform.counts()
  while (counts.failed > 0) {
    await sleep(pollMs)
    if (daemon.exitCode !== null || daemon.signalCode !== null)
      throw new Error(`the daemon ended with ${daemon.exitCode ?? daemon.signalCode}; run \`npm run build\``)
    counts = await platform.counts()
  }
  const seconds = (performance.now() - began) / 1000
  const [cpu, { peakMiB }] = [cpuMs(pid), memoryOf(pid)]
  daemon.kill('SIGTERM')
  await ended
  process.off('exit', kill)
  const loop = JSON.parse(readFileSync(figuresFile, 'utf8')) as LoopFigures
  process.stdout.write(
    `${records} failed: ${seconds.toFixed(0)} s, ${(records / seconds).toFixed(0)}/s, ` +
      `${((1000 * cpu) / records).toFixed(0)} us CPU a record, ${(counts.listCalls / records).toFixed(4)} list calls a record, ` +
      `${(counts.retryCalls / records).toFixed(4)} retries a record, peak RSS ${peakMiB.toFixed(0)} MiB, ` +
      `${cgroup === undefined ? '' : `of the cgroup ${cgroup.peakMiB().toFixed(0)} MiB, limit hit ${cgroup.limitHits()} times; `}` +
      `event loop late by ${loop.p99Ms.toFixed(1)} ms (p99), ${loop.maxMs.toFixed(1)} ms (max), ` +
      `by its own CPU time ${loop.maxCpuMs.toFixed(1)} ms at most\n`,
  )
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const load = (): string => (loadavg()[0] ?? 0).toFixed(1)
process.stdout.write(`default backlog.maxRecords, limit ${limitMiB} MiB, load ${load()}\n`)
try {
  for (const records of values.records.split(',')) await measure(Number(records))
} finally {
  rmSync(folder, { recursive: true })
}
process.stdout.write(`load at the end ${load()}\n`)
