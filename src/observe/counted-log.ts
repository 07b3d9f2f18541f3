// A log that tells of each message that is written, by level, so that metrics can count them.
import type { Config } from '../config/schema.ts'
import type { Log } from './log.ts'

export const countedLevels = ['debug', 'info', 'warn', 'error'] as const satisfies readonly (keyof Log)[]
export type CountedLevel = (typeof countedLevels)[number]

type Level = Config['log']['level']
const levels: readonly Level[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** `least` is `log.level`: what is below it is not written, and not told. */
export function countedLog(log: Log, least: Level, tell: (level: CountedLevel) => void): Log {
  function counted(level: CountedLevel): Log[CountedLevel] {
    if (levels.indexOf(level) < levels.indexOf(least)) {
      return (message, fields) => {
        log[level](message, fields)
      }
    }
    return (message, fields) => {
      tell(level)
      log[level](message, fields)
    }
  }
  return { debug: counted('debug'), info: counted('info'), warn: counted('warn'), error: counted('error') }
}
