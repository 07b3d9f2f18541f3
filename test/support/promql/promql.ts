// Evaluates the part of PromQL that the shipped alert rules use. A test with promtool holds that the two agree.
import { keyOf, nameLabel, type Labels, type Matcher, type Points, type Sample, type SeriesStore } from './series.ts'

type Value = number | Sample[]
/** A compiled expression: its value at a moment, epoch ms. */
type Evaluate<Result = Value> = (at: number) => Result

/** Of a range: what over_time functions look at. */
interface Ranged {
  rangeMs: number
  of: Evaluate<Points[]>
}

interface Term {
  at: Evaluate
  range?: Ranged | undefined
}

export interface Expression {
  /** Names of the series that it reads. */
  names: ReadonlySet<string>
  at: Evaluate<Sample[]>
}

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const token =
  /\s*(?:(\d+[smhd])\b|(\d+(?:\.\d+)?)|([a-zA-Z_][\w:]*)|("(?:[^"\\]|\\.)*")|(=~|!~|!=|==|>=|[-+*/(){}[\],:=<>]))/y
const precedences: readonly (readonly string[])[] = [
  ['or'],
  ['and', 'unless'],
  ['==', '!=', '>', '<', '>='],
  ['+', '-'],
  ['*', '/'],
]
const comparisons: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '>': (a, b) => a > b,
  '<': (a, b) => a < b,
  '>=': (a, b) => a >= b,
}
const arithmetic: Readonly<Record<string, (a: number, b: number) => number>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
}
const aggregations: Readonly<Record<string, (values: readonly number[]) => number>> = {
  sum: (values) => values.reduce((sum, value) => sum + value),
  max: (values) => Math.max(...values),
  group: () => 1,
}

function tokensOf(text: string): string[] {
  const tokens: string[] = []
  const source = text.trim()
  token.lastIndex = 0
  while (token.lastIndex < source.length) {
    const from = token.lastIndex
    const found = token.exec(source)
    if (found === null) throw new Error(`not understood, as of: ${source.slice(from, from + 30)}`)
    tokens.push(found[0].trim())
  }
  return tokens
}

const withoutName = ({ [nameLabel]: _, ...labels }: Labels): Labels => labels

function pick(labels: Labels, isMeant: (label: string) => boolean): Labels {
  return Object.fromEntries(Object.entries(labels).filter(([label]) => isMeant(label)))
}

/** As Prometheus 2 extrapolates it to both ends of the range. */
function increase(points: Points['points'], from: number, to: number): number | undefined {
  const [first, last] = [points[0], points.at(-1)]
  if (first === undefined || last === undefined || first === last) return undefined
  const resets = points.reduce((sum, { value }, index) => {
    const before = points[index - 1]?.value ?? value
    return sum + (value < before ? before : 0)
  }, 0)
  const risen = last.value - first.value + resets
  const sampledMs = last.at - first.at
  const eachMs = sampledMs / (points.length - 1)
  const toZeroMs = risen > 0 && first.value >= 0 ? sampledMs * (first.value / risen) : Infinity
  const ends = [Math.min(first.at - from, toZeroMs), to - last.at]
  const extraMs = ends.map((ms) => (ms < eachMs * 1.1 ? ms : eachMs / 2))
  return (risen * extraMs.reduce((sum, ms) => sum + ms, sampledMs)) / sampledMs
}

type OverTime = (points: Points['points'], from: number, to: number) => number | undefined
const valuesOf = (points: Points['points']): number[] => points.map(({ value }) => value)
const overTime: Readonly<Record<string, OverTime>> = {
  increase,
  changes: (points) => points.filter(({ value }, index) => index > 0 && value !== points[index - 1]?.value).length,
  last_over_time: (points) => points.at(-1)?.value,
  min_over_time: (points) => Math.min(...valuesOf(points)),
  max_over_time: (points) => Math.max(...valuesOf(points)),
  avg_over_time: (points) => valuesOf(points).reduce((sum, value) => sum + value, 0) / points.length,
}

/** The result has one sample for each of the left that is kept. */
function combine(operator: string, left: Sample[], right: Sample[], on: readonly string[] | undefined): Sample[] {
  const isMeant = (label: string): boolean => on?.includes(label) ?? label !== nameLabel
  const key = ({ labels }: Sample): string => keyOf(labels, isMeant)
  const rights = new Map(right.map((sample) => [key(sample), sample]))
  if (operator === 'and') return left.filter((sample) => rights.has(key(sample)))
  if (operator === 'unless') return left.filter((sample) => !rights.has(key(sample)))
  if (operator === 'or') {
    const lefts = new Set(left.map(key))
    return [...left, ...right.filter((sample) => !lefts.has(key(sample)))]
  }
  return left.flatMap((sample) => {
    const other = rights.get(key(sample))
    if (other === undefined) return []
    const compare = comparisons[operator]
    if (compare !== undefined) return compare(sample.value, other.value) ? [sample] : []
    const value = arithmetic[operator]?.(sample.value, other.value) ?? NaN
    return [{ ...sample, labels: pick(sample.labels, isMeant), value }]
  })
}

function withNumber(operator: string, left: Value, right: Value, isBool: boolean): Value {
  const apply = (a: number, b: number): number => arithmetic[operator]?.(a, b) ?? Number(comparisons[operator]?.(a, b))
  if (typeof left === 'number' && typeof right === 'number') return apply(left, right)
  const samples = typeof left === 'number' ? (right as Sample[]) : left
  const isFilter = operator in comparisons && !isBool
  return samples.flatMap((sample) => {
    const value = apply(
      typeof left === 'number' ? left : sample.value,
      typeof right === 'number' ? right : sample.value,
    )
    if (isFilter) return value === 1 ? [sample] : []
    return [{ ...sample, labels: withoutName(sample.labels), value }]
  })
}

const toSamples = (value: Value): Sample[] => (typeof value === 'number' ? [{ labels: {}, value }] : value)

/** @throws Error for what it does not understand */
export function compile(text: string, store: SeriesStore): Expression {
  const tokens = tokensOf(text)
  const names = new Set<string>()
  let position = 0

  const next = (): string => tokens[position++] ?? ''
  const isNext = (...wanted: string[]): boolean => wanted.includes(tokens[position] ?? '')
  const take = (wanted: string): boolean => {
    if (!isNext(wanted)) return false
    position += 1
    return true
  }
  function expect(wanted: string): void {
    if (!take(wanted)) throw new Error(`${wanted} expected, not ${tokens[position] ?? 'the end'}, in: ${text}`)
  }
  function list<Item>(item: () => Item, end: string): Item[] {
    const items: Item[] = []
    while (!take(end)) {
      items.push(item())
      take(',')
    }
    return items
  }
  const duration = (): number => {
    const [, count, unit = ''] = /^(\d+)([smhd])$/.exec(next()) ?? []
    return Number(count) * (units[unit] ?? NaN)
  }
  const text_ = (): string => JSON.parse(next()) as string

  function matchers(): Matcher {
    if (!take('{')) return () => true
    const tests = list(() => {
      const [label, operator, value] = [next(), next(), text_()]
      const isEqual = operator.endsWith('~')
        ? (actual: string): boolean => new RegExp(`^(?:${value})$`).test(actual)
        : (actual: string): boolean => actual === value
      return (labels: Labels) => isEqual(labels[label] ?? '') !== operator.startsWith('!')
    }, '}')
    return (labels) => tests.every((test) => test(labels))
  }

  function selector(name: string): Term {
    names.add(name)
    const matches = matchers()
    const known = new WeakMap<Labels, boolean>()
    const isMeant: Matcher = (labels) => known.getOrInsertComputed(labels, matches)
    const rangeMs = take('[') ? duration() : undefined
    if (rangeMs !== undefined) expect(']')
    const offsetMs = take('offset') ? duration() : 0
    return {
      at: (now) => store.lastOf(name, isMeant, now - offsetMs),
      range:
        rangeMs === undefined ? undefined : { rangeMs, of: (now) => store.between(name, isMeant, now - rangeMs, now) },
    }
  }

  /** The samples that an expression would have had, at multiples of the step. */
  function subquery(at: Evaluate): Term {
    if (!take('[')) return { at }
    const rangeMs = duration()
    expect(':')
    const stepMs = duration()
    expect(']')
    /** Samples come in the order of their times: those of an earlier moment are all there, and it is computed once. */
    const earlier = new Map<number, Sample[]>()
    const samplesAt = (then: number): Sample[] => toSamples(at(then))
    const of = (now: number): Points[] => {
      const series = new Map<string, { labels: Labels; points: { at: number; value: number }[] }>()
      for (let then = Math.ceil((now - rangeMs) / stepMs) * stepMs; then <= now; then += stepMs)
        for (const { labels, value } of then < now ? earlier.getOrInsertComputed(then, samplesAt) : samplesAt(then))
          series.getOrInsertComputed(keyOf(labels), () => ({ labels, points: [] })).points.push({ at: then, value })
      return [...series.values()]
    }
    return { at, range: { rangeMs, of } }
  }

  function callOverTime(name: string): Evaluate {
    expect('(')
    const { range } = primary()
    if (range === undefined) throw new Error(`${name} needs a range, in: ${text}`)
    expect(')')
    return (now) =>
      range.of(now).flatMap(({ labels, points }) => {
        const value = overTime[name]?.(points, now - range.rangeMs, now)
        const isAsItWas = name === 'last_over_time'
        return value === undefined ? [] : [{ labels: isAsItWas ? labels : withoutName(labels), value }]
      })
  }

  function aggregate(name: string): Evaluate {
    const [how, labels] = isNext('by', 'without') ? [next(), (expect('('), list(next, ')'))] : ['by', []]
    expect('(')
    const of = binary(0)
    expect(')')
    const isMeant = (label: string): boolean =>
      how === 'by' ? labels.includes(label) : label !== nameLabel && !labels.includes(label)
    return (at) => {
      const groups = Map.groupBy(toSamples(of(at)), (sample) => keyOf(sample.labels, isMeant))
      return [...groups.values()].map((samples) => ({
        labels: pick(samples[0]?.labels ?? {}, isMeant),
        value: aggregations[name]?.(samples.map(({ value }) => value)) ?? NaN,
      }))
    }
  }

  function call(name: string): Evaluate {
    expect('(')
    const [of = (): Value => 0] = list(() => binary(0), ')')
    switch (name) {
      case 'time':
        return (now) => now / 1000
      case 'vector':
        return (now) => toSamples(of(now))
      case 'abs':
        return (now) =>
          toSamples(of(now)).map(({ labels, value }) => ({ labels: withoutName(labels), value: Math.abs(value) }))
      case 'absent':
        return (now) => (toSamples(of(now)).length > 0 ? [] : [{ labels: {}, value: 1 }])
      default:
        throw new Error(`the function ${name} is not known, in: ${text}`)
    }
  }

  function primary(): Term {
    const word = next()
    if (word === '(') {
      const of = binary(0)
      expect(')')
      return subquery(of)
    }
    if (/^\d/.test(word)) return { at: () => Number(word) }
    if (word in overTime) return { at: callOverTime(word) }
    if (word in aggregations) return { at: aggregate(word) }
    if (isNext('(')) return { at: call(word) }
    if (!/^[a-z_]/i.test(word)) throw new Error(`${word} is not expected, in: ${text}`)
    return selector(word)
  }

  function binary(level: number): Evaluate {
    const operators = precedences[level]
    if (operators === undefined) return primary().at
    let left = binary(level + 1)
    while (isNext(...operators)) {
      const [operator, before] = [next(), left]
      const isBool = take('bool')
      const on = take('on') ? (expect('('), list(next, ')')) : undefined
      const right = binary(level + 1)
      left = (at) => {
        const a = before(at)
        if (typeof a !== 'number' && a.length === 0 && operator !== 'or') return []
        const b = right(at)
        return typeof a === 'number' || typeof b === 'number'
          ? withNumber(operator, a, b, isBool)
          : combine(operator, a, b, on)
      }
    }
    return left
  }

  const whole = binary(0)
  if (position < tokens.length) throw new Error(`${tokens[position] ?? ''} is not expected, in: ${text}`)
  return { names, at: (now) => toSamples(whole(now)) }
}
