// What the narrator makes of facts: the lines, or their levels and messages.
import type { Fact } from '../../src/observe/events.ts'
import type { Log, LogFields } from '../../src/observe/log.ts'
import { createNarrator } from '../../src/observe/log-reporter.ts'

export interface Line {
  level: keyof Log
  message: string
  fields: LogFields
}

const standing = { monotonic: () => 0 }

/** The lines that the facts give, from the level on; `clock` may move while they come. */
export function told(facts: Iterable<Fact>, from: keyof Log = 'debug', clock = standing): Line[] {
  const levels: (keyof Log)[] = ['debug', 'info', 'warn', 'error']
  const lines: Line[] = []
  const at =
    (level: keyof Log) =>
    (message: string, fields: LogFields = {}): void => {
      lines.push({ level, message, fields })
    }
  const log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  const narrator = createNarrator(log, clock)
  for (const fact of facts) narrator.tell(fact)
  return lines.filter(({ level }) => levels.indexOf(level) >= levels.indexOf(from))
}

export function messages(facts: Iterable<Fact>, from: keyof Log = 'info', clock = standing): string[] {
  return told(facts, from, clock).map(({ level, message }) => `${level}: ${message}`)
}

export function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index))
}
