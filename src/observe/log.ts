// What a log line may hold, and the interface that the rest of the code logs through. The pino behind it is made in src/observe/logger.ts.

/** Values that may stand in a log line: never an object or an error, so that nothing can be carried in unseen. */
export type LogValue = string | number | boolean | null | undefined | readonly string[]
export type LogFields = Readonly<Record<string, LogValue>>

/** Constant message, data as fields. */
export interface Log {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}
