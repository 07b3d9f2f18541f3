// Reads Prometheus' text exposition format. @see https://prometheus.io/docs/instrumenting/exposition_formats/

/** Values by series: `name{label="value"}`, labels in the order in which they were written. */
export type Samples = ReadonlyMap<string, number>

export interface Family {
  type: string
  help: string
  samples: Map<string, number>
}

const sampleLine = /^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)$/

/** One line of a series. */
interface SampleLine {
  name: string
  series: string
  value: number
}

export function parseSampleLine(line: string): SampleLine {
  const [, name = '', labels = '', value = ''] = sampleLine.exec(line) ?? []
  const infinite = value.endsWith('Inf') ? value.replace(/^([+-]?)Inf$/, '$1Infinity') : value
  return { name, series: name + labels, value: Number(infinite) }
}

/** Histograms and summaries write several names for one family. */
function familyOf(name: string, families: Map<string, Family>): string {
  return families.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, '')
}

/** @throws Error for a line that Prometheus would not take */
export function parseExposition(text: string, parseSample = parseSampleLine): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the text must end with a line break')
  const families = new Map<string, Family>()
  for (const line of text.split('\n').filter((candidate) => candidate !== '')) {
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? []
    const family = families.get(name) ?? { type: '', help: '', samples: new Map<string, number>() }
    if (kind === 'HELP') families.set(name, { ...family, help: rest })
    else if (kind === 'TYPE') families.set(name, { ...family, type: rest })
    else {
      const { name: sample, series, value } = parseSample(line)
      const owner = families.get(familyOf(sample, families))
      if (owner === undefined) throw new Error(`no sample of a known family: ${line}`)
      if (owner.samples.has(series)) throw new Error(`twice: ${line}`)
      owner.samples.set(series, value)
    }
  }
  return families
}

/** The series of all families. */
export function parseSamples(text: string, parseSample = parseSampleLine): Samples {
  return new Map([...parseExposition(text, parseSample).values()].flatMap(({ samples }) => [...samples]))
}

/** Sum of a metric's series whose labels contain all the given ones; NaN when there is none. */
export function sumOf(samples: Samples, name: string, labels: Readonly<Record<string, string>> = {}): number {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  const isIt = (series: string): boolean => series === name || series.startsWith(`${name}{`)
  const values = [...samples]
    .filter(([series]) => isIt(series) && wanted.every((pair) => series.includes(pair)))
    .map(([, value]) => value)
  return values.length === 0 ? NaN : values.reduce((sum, value) => sum + value)
}
