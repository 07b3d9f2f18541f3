// Metrics of the process: what they show is what the process did, also when they are asked for twice at once.
import { performance } from 'node:perf_hooks'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test, vi } from 'vitest'
import { addProcessMetrics, processMetricNames } from '../../src/observe/process-metrics.ts'
import { parseSamples, type Samples } from '../support/samples.ts'

async function samplesOf(registry: Registry): Promise<Samples> {
  return parseSamples(await registry.metrics())
}

function made(): Registry {
  const registry = new Registry()
  addProcessMetrics(registry)
  return registry
}

/** Keeps the event loop busy until this process has had so much CPU time, however busy the machine is. */
function work(ms: number): void {
  const before = process.cpuUsage()
  const spentMs = (): number => {
    const { system, user } = process.cpuUsage(before)
    return (system + user) / 1000
  }
  while (spentMs() < ms) for (let i = 0; i < 1000; i += 1) Math.sqrt(i)
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

test('CPU time is that of the whole life of the process, counted once however often it is asked for', async () => {
  const usage = vi.spyOn(process, 'cpuUsage')
  onTestFinished(() => {
    usage.mockRestore()
  })
  const registry = made()
  const shown = async (): Promise<(number | undefined)[]> => {
    const samples = await samplesOf(registry)
    return ['user_', 'system_', ''].map((kind) => samples.get(`process_cpu_${kind}seconds_total`))
  }
  usage.mockReturnValue({ user: 1_250_000, system: 500_000 })
  expect(await Promise.all([shown(), shown()])).toEqual([
    [1.25, 0.5, 1.75],
    [1.25, 0.5, 1.75],
  ])
  usage.mockReturnValue({ user: 2_000_000, system: 500_000 })
  expect(await shown()).toEqual([2, 0.5, 2.5])
})

test('busy time of the event loop grows with work, and not with scrapes', async () => {
  const registry = made()
  const busy = async (): Promise<number> =>
    (await samplesOf(registry)).get('nodejs_eventloop_active_seconds_total') ?? NaN
  const before = await busy()
  work(100)
  // Let the loop turn: what has not ended counts for nothing.
  await new Promise((resolve) => setImmediate(resolve))
  expect((await busy()) - before).toBeGreaterThan(0.05)
})
