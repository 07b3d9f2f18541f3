// Metrics of the process: what they show is what the process did, also when they are asked for twice at once.
import { performance } from 'node:perf_hooks'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test, vi } from 'vitest'
import { addProcessMetrics, processMetricNames } from '../../../src/observe/process-metrics.ts'
import { parseSamples, type Samples } from '../../support/samples.ts'

async function samplesOf(registry: Registry): Promise<Samples> {
  return parseSamples(await registry.metrics())
}

function made(): Registry {
  const registry = new Registry()
  addProcessMetrics(registry)
  return registry
}

test('all are there at once, with values that can be', async () => {
  const registry = made()
  const samples = await samplesOf(registry)
  const families = [...samples.keys()].map((series) => series.replace(/(?:_bucket|_sum|_count)?(?:\{.*)?$/, ''))
  expect([...new Set(families)]).toEqual(processMetricNames)
  const of = (name: (typeof processMetricNames)[number]): number => samples.get(name) ?? NaN
  expect(of('process_start_time_seconds') * 1000).toBeCloseTo(performance.timeOrigin, 0)
  for (const name of [
    'process_resident_memory_bytes',
    'nodejs_heap_size_total_bytes',
    'nodejs_heap_size_used_bytes',
  ] as const) {
    expect(of(name), name).toBeGreaterThan(2 ** 20)
  }
  expect(of('nodejs_heap_size_used_bytes')).toBeLessThanOrEqual(of('nodejs_heap_size_total_bytes'))
  expect(of('process_cpu_user_seconds_total')).toBeGreaterThan(0)
  expect(await registry.metrics()).toContain('# TYPE process_cpu_seconds_total counter')
  // Asked again in the same moment, too.
  for (const [series, value] of await samplesOf(registry)) {
    expect(value, series).toBeGreaterThanOrEqual(0)
  }
})

test('CPU time and busy time are those of the whole life of the process, counted once however often they are asked for', async () => {
  const usage = vi.spyOn(process, 'cpuUsage')
  const loop = vi.spyOn(performance, 'eventLoopUtilization').mockReturnValue({ active: 1500, idle: 0, utilization: 1 })
  onTestFinished(() => {
    usage.mockRestore()
    loop.mockRestore()
  })
  const registry = made()
  const shown = async (): Promise<(number | undefined)[]> => {
    const samples = await samplesOf(registry)
    const kinds = ['process_cpu_user', 'process_cpu_system', 'process_cpu', 'nodejs_eventloop_active']
    return kinds.map((kind) => samples.get(`${kind}_seconds_total`))
  }
  usage.mockReturnValue({ user: 1_250_000, system: 500_000 })
  expect(await Promise.all([shown(), shown()])).toEqual([
    [1.25, 0.5, 1.75, 1.5],
    [1.25, 0.5, 1.75, 1.5],
  ])
  usage.mockReturnValue({ user: 2_000_000, system: 500_000 })
  expect(await shown()).toEqual([2, 0.5, 2.5, 1.5])
})
