// A log that keeps what it is given, by event id.
import type { CountedLog } from '../../src/observe/log/log.ts'
import { logEvents, type LogEventId, type LogLevel } from '../../src/observe/log/log-events.ts'

export interface Line {
  event: LogEventId
  level: LogLevel
  fields: Readonly<Record<string, unknown>>
}

export function keepingLog(keep: (line: Line) => void): CountedLog {
  return {
    event(event, fields, level: LogLevel = logEvents[event][0][0]) {
      keep({ event, level, fields: { ...fields } })
    },
    countLines: () => undefined,
  }
}
