// Metrics of this process under their usual names, read when Prometheus asks: nothing samples in between.
import { PerformanceObserver, constants, performance, type PerformanceEntry } from 'node:perf_hooks'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** Names as prom-client and others have them; docs/metrics.md names them. */
export const processMetricNames = [
  'process_cpu_user_seconds_total',
  'process_cpu_system_seconds_total',
  'process_cpu_seconds_total',
  'process_start_time_seconds',
  'process_resident_memory_bytes',
  'nodejs_heap_size_total_bytes',
  'nodejs_heap_size_used_bytes',
  'nodejs_external_memory_bytes',
  'nodejs_eventloop_utilization',
  'nodejs_gc_duration_seconds',
] as const

const gcKinds: ReadonlyMap<unknown, string> = new Map([
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weakcb'],
])
const gcSeconds = [0.001, 0.01, 0.1, 1, 2, 5]

function counter(registry: Registry, name: string, help: string, read: () => number): void {
  new Counter({
    name,
    help,
    registers: [registry],
    collect() {
      this.reset()
      this.inc(read())
    },
  })
}

function gauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read())
    },
  })
}

function cpu(registry: Registry): void {
  const seconds = (microseconds: number): number => microseconds / 1e6
  counter(registry, 'process_cpu_user_seconds_total', 'User CPU time spent in seconds.', () =>
    seconds(process.cpuUsage().user),
  )
  counter(registry, 'process_cpu_system_seconds_total', 'System CPU time spent in seconds.', () =>
    seconds(process.cpuUsage().system),
  )
  counter(registry, 'process_cpu_seconds_total', 'User and system CPU time spent in seconds.', () => {
    const { user, system } = process.cpuUsage()
    return seconds(user + system)
  })
}

function memory(registry: Registry): void {
  gauge(registry, 'process_resident_memory_bytes', 'Resident memory in bytes.', () => process.memoryUsage.rss())
  gauge(registry, 'nodejs_heap_size_total_bytes', 'Size of the heap in bytes.', () => process.memoryUsage().heapTotal)
  gauge(
    registry,
    'nodejs_heap_size_used_bytes',
    'Bytes of the heap that are in use.',
    () => process.memoryUsage().heapUsed,
  )
  gauge(
    registry,
    'nodejs_external_memory_bytes',
    'Memory of objects outside of the heap in bytes.',
    () => process.memoryUsage().external,
  )
}

/** The share of the time since the last scrape; since the start of the process at the first. */
function eventLoop(registry: Registry): void {
  let last = performance.eventLoopUtilization({ idle: 0, active: 0, utilization: 0 })
  gauge(
    registry,
    'nodejs_eventloop_utilization',
    'Share of the time since the last scrape in which the event loop was busy, 0 to 1.',
    () => {
      const present = performance.eventLoopUtilization()
      const { utilization } = performance.eventLoopUtilization(present, last)
      last = present
      // Asked twice within the same moment there is no time of which to have a share.
      return Number.isFinite(utilization) ? Math.min(1, Math.max(0, utilization)) : 0
    },
  )
}

/** What the observer gets for `gc`; its types do not tell. */
type GcEntry = PerformanceEntry & { detail?: { kind?: number } }

/** Told by the runtime when it has collected, which an idle process hardly does. */
function garbageCollection(registry: Registry): void {
  const histogram = new Histogram({
    name: 'nodejs_gc_duration_seconds',
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

/** Adds CPU, memory, heap, event loop and garbage collection of this process. */
export function addProcessMetrics(registry: Registry): void {
  cpu(registry)
  gauge(
    registry,
    'process_start_time_seconds',
    'When the process started, in seconds since the epoch.',
    () => performance.timeOrigin / 1000,
  )
  memory(registry)
  eventLoop(registry)
  garbageCollection(registry)
}
