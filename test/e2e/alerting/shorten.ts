// The shipped rules with all their times shortened by one factor, so that minutes pass in seconds.
import { parse, stringify } from 'yaml'

export interface Shortening {
  /** How many times faster: a `for: 15m` becomes `for: 1m` with 15. */
  factor: number
  /** No time becomes shorter, in ms; two scrapes or more, as `increase` needs two samples. */
  leastMs: number
}

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
  y: 31_536_000_000,
}

/** The milliseconds of a duration as Prometheus writes them, such as `1h30m`. @throws Error when it is none */
export function durationMs(text: string): number {
  const parts = [...text.matchAll(/(\d+)(ms|[smhdwy])/g)]
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text) throw new Error(`${text} is no duration`)
  return parts.reduce((sum, [, count = '', unit = '']) => sum + Number(count) * (unitMs[unit] ?? NaN), 0)
}

function shortenDuration(text: string, { factor, leastMs }: Shortening): string {
  const ms = durationMs(text)
  return ms === 0 ? text : `${Math.max(leastMs, Math.ceil(ms / factor))}ms`
}

/** Ranges (`[10m]`, `[15m:1m]`) and offsets; what stands in a string is left alone, and so are plain numbers. */
export function shortenExpression(expr: string, shortening: Shortening): string {
  const duration = /\d+(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*/g
  const times = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\[[^\]]*\]|\boffset\s+-?\w+/g
  return expr.replace(times, (found) =>
    /^["']/.test(found) ? found : found.replace(duration, (text) => shortenDuration(text, shortening)),
  )
}

interface Rule {
  expr: string
  for?: string
}

interface Rules {
  groups: { interval?: string; rules: Rule[] }[]
}

/** The text of a rules file with every `for`, range, offset and group interval shortened. */
export function shortenRules(text: string, shortening: Shortening): string {
  const { groups } = parse(text) as Rules
  const shortened = groups.map((group) => ({
    ...group,
    ...(group.interval === undefined ? {} : { interval: shortenDuration(group.interval, shortening) }),
    rules: group.rules.map((rule) => ({
      ...rule,
      expr: shortenExpression(rule.expr, shortening),
      ...(rule.for === undefined ? {} : { for: shortenDuration(rule.for, shortening) }),
    })),
  }))
  return stringify({ groups: shortened }, { lineWidth: 0 })
}
