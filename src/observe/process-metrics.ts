// Metrics of this process under their usual names, read on each scrape.
import { PerformanceObserver, constants, performance, type PerformanceEntry } from 'node:perf_hooks'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

type ProcessReading = readonly [name: string, help: string, read: () => number]

const cpuSeconds = ({ system = 0, user = 0 }: Partial<NodeJS.CpuUsage>): number => (user + system) / 1e6
const userSeconds = (): number => cpuSeconds({ user: process.cpuUsage().user })
const systemSeconds = (): number => cpuSeconds({ system: process.cpuUsage().system })
const memory = (): NodeJS.MemoryUsage => process.memoryUsage()

/** Counters end in `_total`; the others are gauges. */
const readings = [
  ['process_cpu_user_seconds_total', 'User CPU time spent in seconds.', userSeconds],
  ['process_cpu_system_seconds_total', 'System CPU time spent in seconds.', systemSeconds],
  ['process_cpu_seconds_total', 'User and system CPU time spent in seconds.', () => cpuSeconds(process.cpuUsage())],
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
] as const satisfies readonly ProcessReading[]

const collectionsName = 'nodejs_gc_duration_seconds'

/** Names as in prom-client; docs/metrics.md lists them. */
export const processMetricNames = [...readings.map(([name]) => name), collectionsName] as const

const gcKinds: ReadonlyMap<unknown, string> = new Map([
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weakcb'],
])
const gcSeconds = [0.001, 0.01, 0.1, 1, 2, 5]

function add(registry: Registry, [name, help, read]: ProcessReading): void {
  const options = { name, help, registers: [registry] }
  if (name.endsWith('_total')) {
    new Counter({
      ...options,
      collect() {
        this.reset()
        this.inc(read())
      },
    })
  } else {
    new Gauge({
      ...options,
      collect() {
        this.set(read())
      },
    })
  }
}

/** An entry of type `gc`, whose type declaration lacks `detail`. */
type GcEntry = PerformanceEntry & { detail?: { kind?: number } }

function garbageCollection(registry: Registry): void {
  const histogram = new Histogram({
    name: collectionsName,
    help: 'Duration of garbage collections by kind.',
    labelNames: ['kind'],
    buckets: gcSeconds,
    registers: [registry],
  })
  for (const kind of gcKinds.values()) histogram.zero({ kind })
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as GcEntry[]) {
      const kind = gcKinds.get(entry.detail?.kind)
      if (kind !== undefined) histogram.observe({ kind }, entry.duration / 1000)
    }
  })
  observer.observe({ entryTypes: ['gc'] })
}

export function addProcessMetrics(registry: Registry): void {
  for (const reading of readings) add(registry, reading)
  garbageCollection(registry)
}
