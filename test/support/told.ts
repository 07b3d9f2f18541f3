// What the log reporter makes of events: the lines, or their levels and ids.
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { countedLevels, type CountedLevel } from '../../src/observe/log/log.ts'
import { createLogReporter } from '../../src/observe/log/log-reporter.ts'
import { keepingLog, type Line } from './log.ts'

const standing = { monotonic: () => 0 }

/** The lines that the events give, from the level on; `clock` may move while they come. */
export function told(facts: Iterable<TelemetryEvent>, from: CountedLevel = 'debug', clock = standing): Line[] {
  const levels: readonly string[] = countedLevels
  const lines: Line[] = []
  const reporter = createLogReporter(
    keepingLog((line) => lines.push(line)),
    clock,
  )
  for (const fact of facts) reporter.observe(fact)
  return lines.filter(({ level }) => levels.indexOf(level) >= levels.indexOf(from))
}

/** Each line as `level: event`. */
export function messages(facts: Iterable<TelemetryEvent>, from: CountedLevel = 'info', clock = standing): string[] {
  return told(facts, from, clock).map(({ level, event }) => `${level}: ${event}`)
}

export function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index))
}
