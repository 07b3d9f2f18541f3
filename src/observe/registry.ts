// The metrics of one daemon, created from the table in metrics.ts: prom-client instruments, each series starting at 0.
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import {
  callSeconds,
  metricDefinitions,
  metricPrefix,
  type LabelsOf,
  type MetricDefinition,
  type MetricName,
  type NameOf,
} from './metrics.ts'
import { addProcessMetrics } from './process-metrics.ts'
import type { Snapshot } from './snapshot.ts'

/** Content type of the text exposition format. */
export const expositionType = Registry.PROMETHEUS_CONTENT_TYPE

export interface Metrics {
  add<Name extends NameOf<'counter'>>(name: Name, labels: LabelsOf<Name>, by?: number): void
  /** In seconds. */
  observe<Name extends NameOf<'histogram'>>(name: Name, value: number, labels: LabelsOf<Name>): void
  /** The text exposition format, with gauges from the snapshot. */
  text(snapshot: Snapshot): Promise<string>
}

type Instrument = Counter | Gauge | Histogram

/** All combinations of a definition's label values. */
function series(labels: Readonly<Record<string, readonly string[]>>): Record<string, string>[] {
  return Object.entries(labels).reduce<Record<string, string>[]>(
    (combinations, [label, values]) =>
      combinations.flatMap((combination) => values.map((value) => ({ ...combination, [label]: value }))),
    [{}],
  )
}

/** Starts each series at 0. */
function seed(instrument: Instrument, { labels = {} }: MetricDefinition): void {
  for (const values of series(labels)) {
    if (instrument instanceof Counter) instrument.inc(values, 0)
    else if (instrument instanceof Histogram) instrument.zero(values)
  }
}

function create(name: string, definition: MetricDefinition, registry: Registry): Instrument {
  const settings = {
    name: metricPrefix + name,
    help: definition.help,
    labelNames: Object.keys(definition.labels ?? {}),
    registers: [registry],
  }
  if (definition.type === 'counter') return new Counter(settings)
  if (definition.type === 'gauge') return new Gauge(settings)
  return new Histogram({ ...settings, buckets: [...(definition.buckets ?? callSeconds)] })
}

/** Sets a gauge from the snapshot, limited to the declared label values, if any. */
function showGauge(gauge: Gauge, { labels = {}, read }: MetricDefinition, snapshot: Snapshot): void {
  if (read === undefined) return
  const value = read(snapshot)
  if (value === undefined && Object.keys(labels).length > 0) gauge.reset()
  else if (value === undefined) gauge.remove({})
  else if (typeof value === 'number') gauge.set(value)
  else {
    const [[label, labelValues] = ['', []]] = Object.entries(labels)
    for (const labelValue of labelValues.length === 0 ? Object.keys(value) : labelValues)
      gauge.set({ [label]: labelValue }, value[labelValue] ?? 0)
  }
}

export interface MetricsOptions {
  /** Include process_* and nodejs_* metrics. */
  processMetrics: boolean
  /** For `build_info`; absent without it. */
  build?: { instance_name: string; version: string; node_version: string }
}

/** Creates a registry with every metric, each series starting at 0. */
export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry()
  const instruments = new Map<MetricName, Instrument>()
  const definitions = Object.entries(metricDefinitions) as [MetricName, MetricDefinition][]
  for (const [name, definition] of definitions) {
    const instrument = create(name, definition, registry)
    seed(instrument, definition)
    instruments.set(name, instrument)
  }
  const build = instruments.get('build_info')
  if (options.build !== undefined && build instanceof Gauge) build.set(options.build, 1)
  if (options.processMetrics) addProcessMetrics(registry)

  return {
    add(name, labels, by = 1) {
      const counter = instruments.get(name)
      if (counter instanceof Counter) counter.inc(labels, by)
    },
    observe(name, value, labels) {
      const histogram = instruments.get(name)
      if (histogram instanceof Histogram) histogram.observe(labels, value)
    },
    text(snapshot) {
      for (const [name, definition] of definitions) {
        const instrument = instruments.get(name)
        if (instrument instanceof Gauge) showGauge(instrument, definition, snapshot)
      }
      return registry.metrics()
    },
  }
}
