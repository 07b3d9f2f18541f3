// Metrics of this process under their usual names, read on each scrape.
import { performance } from 'node:perf_hooks'
import { Counter, Gauge, type Registry } from 'prom-client'

const cpu = (): NodeJS.CpuUsage => process.cpuUsage()
const memory = (): NodeJS.MemoryUsage => process.memoryUsage()

/** Counters end in `_total`; the others are gauges. */
const readings = [
  ['process_cpu_user_seconds_total', 'User CPU time spent in seconds.', () => cpu().user / 1e6],
  ['process_cpu_system_seconds_total', 'System CPU time spent in seconds.', () => cpu().system / 1e6],
  ['process_cpu_seconds_total', 'User and system CPU time spent in seconds.', () => (cpu().user + cpu().system) / 1e6],
  [
    'process_start_time_seconds',
    'Start of the process in seconds since the epoch.',
    () => performance.timeOrigin / 1000,
  ],
  ['process_resident_memory_bytes', 'Resident memory in bytes.', () => process.memoryUsage.rss()],
  ['nodejs_heap_size_total_bytes', 'Size of the heap in bytes.', () => memory().heapTotal],
  ['nodejs_heap_size_used_bytes', 'Bytes of the heap that are in use.', () => memory().heapUsed],
  [
    'nodejs_eventloop_active_seconds_total',
    'Time in which the event loop was busy in seconds.',
    () => performance.eventLoopUtilization().active / 1000,
  ],
  ['nodejs_external_memory_bytes', 'Memory of objects outside of the heap in bytes.', () => memory().external],
] as const satisfies readonly (readonly [name: string, help: string, read: () => number])[]

/** Names as in prom-client; docs/metrics.md lists them. */
export const processMetricNames = readings.map(([name]) => name)

export function addProcessMetrics(registry: Registry): void {
  for (const [name, help, read] of readings) {
    const collect = function (this: Counter | Gauge): void {
      this.reset()
      this.inc(read())
    }
    const options = { name, help, registers: [registry], collect }
    if (name.endsWith('_total')) new Counter(options)
    else new Gauge(options)
  }
}
