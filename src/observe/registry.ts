// The metrics of one daemon, made from the table in metrics.ts: instruments of prom-client, each series seeded with 0.
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

export interface Metrics {
  /** Adds to a counter. */
  add<Name extends NameOf<'counter'>>(name: Name, labels: LabelsOf<Name>, by?: number): void
  /** Sets all gauges that are read from a snapshot. */
  show(snapshot: Snapshot): void
  /** Adds a measurement to a histogram, in seconds. */
  observe<Name extends NameOf<'histogram'>>(name: Name, value: number, labels: LabelsOf<Name>): void
  /** The text exposition format, and its content type. */
  text(): Promise<string>
  contentType: string
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

function seed(instrument: Instrument, definition: MetricDefinition): void {
  if (definition.presence === 'when-set') {
    instrument.remove({})
    return
  }
  for (const labels of series(definition.labels ?? {})) {
    if (instrument instanceof Counter) instrument.inc(labels, 0)
    else if (instrument instanceof Gauge) instrument.set(labels, 0)
    else instrument.zero(labels)
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

/** Sets a gauge from the snapshot, for the declared values of its label only, if any are declared. */
function showGauge(
  gauge: Instrument | undefined,
  { labels = {}, presence, read }: MetricDefinition,
  snapshot: Snapshot,
): void {
  const value = read?.(snapshot)
  if (!(gauge instanceof Gauge)) return
  if (value === undefined) {
    if (presence === 'when-set') gauge.remove({})
    return
  }
  if (typeof value === 'number') {
    gauge.set(value)
    return
  }
  const [[label, labelValues] = ['', []]] = Object.entries(labels)
  for (const labelValue of labelValues.length === 0 ? Object.keys(value) : labelValues)
    gauge.set({ [label]: labelValue }, value[labelValue] ?? 0)
}

export interface MetricsOptions {
  /** The usual process_* and nodejs_* metrics too. */
  processMetrics: boolean
  /** For `build_info`; without it that metric is absent. */
  build?: { instance_name: string; version: string; node_version: string }
}

/** Makes a registry of its own with every metric, each series seeded with 0. */
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
      const instrument = instruments.get(name)
      if (!(instrument instanceof Counter)) throw new TypeError(`${name} is not a counter`)
      instrument.inc(labels, by)
    },
    show(snapshot) {
      for (const [name, definition] of definitions) showGauge(instruments.get(name), definition, snapshot)
    },
    observe(name, value, labels) {
      const instrument = instruments.get(name)
      if (!(instrument instanceof Histogram)) throw new TypeError(`${name} is not a histogram`)
      instrument.observe(labels, value)
    },
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}
