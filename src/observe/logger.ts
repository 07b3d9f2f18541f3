// The log behind src/observe/log.ts: pino, synchronous, one line an entry; every text in it is redacted.
import { createRequire } from 'node:module'
import { destination, pino } from 'pino'
import type { prettyFactory } from 'pino-pretty'
import type { Clock } from '../runtime/clock.ts'
import type { Config } from '../config/schema.ts'
import type { Log, LogFields, LogValue } from './log.ts'
import { escapeInvisible, redact } from './redact.ts'

/** Log that can carry fields along. */
export interface Logger extends Log {
  /** A log whose lines all have these fields; a line's own field of the same name wins. */
  child(fields: LogFields): Logger
}

export interface LoggerOptions extends Pick<Config['log'], 'level' | 'format'> {
  /** Stands in every line. */
  instance: string
  /** Takes one finished line with its line break. Written at once; when it throws, the line is lost and the work goes on. */
  write: ((line: string) => void) | { write(line: string): unknown }
  clock: Clock
  /** Fields of every line. */
  base?: LogFields
  /** Colours in `pretty`; default false. */
  colour?: boolean
}

const longestText = 4_000
const mostEntries = 100

/** Pino writes these itself; a second one of the name would shadow the first in most readers. */
const reserved = new Set(['time', 'level', 'msg', 'instance'])

function cut(text: string): string {
  const clean = redact(text)
  return clean.length > longestText ? `${clean.slice(0, longestText)}...` : clean
}

/** A value that JSON can hold. Types allow no others, but a cast may let one in. */
function plain(value: unknown): LogValue {
  if (value === null || value === undefined || typeof value === 'boolean') return value
  if (typeof value === 'string') return cut(value)
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (Array.isArray(value)) return value.slice(0, mostEntries).map((entry) => cut(String(plain(entry))))
  return `[${typeof value}]`
}

function safeFields(bound: LogFields, fields: LogFields | undefined): Record<string, LogValue> {
  const safe: Record<string, LogValue> = {}
  for (const [name, value] of Object.entries({ ...bound, ...fields })) {
    safe[reserved.has(name) ? `${name}_` : name] = plain(value)
  }
  return safe
}

/** Escapes of control characters, escaped once more: so that they stay escapes when the line is parsed for people. */
function keepEscapes(line: string): string {
  return line.replace(/\\(?:["\\/]|([bfnrt]|u[0-9a-fA-F]{4}))/g, (escape, control: string | undefined) =>
    control === undefined ? escape : `\\${escape}`,
  )
}

/** Loaded only when asked for: machines read JSON, and it costs time and memory. */
function prettyLine(colour: boolean): (line: string) => string {
  const load = createRequire(import.meta.url)
  const pretty = load('pino-pretty') as { prettyFactory: typeof prettyFactory }
  const format = pretty.prettyFactory({
    colorize: colour,
    singleLine: true,
    translateTime: false,
    errorLikeObjectKeys: [],
    messageKey: 'msg',
  })
  return (line) => format(keepEscapes(line))
}

function lineSink(options: LoggerOptions): { write(line: string): void } {
  const { write } = options
  const out = typeof write === 'function' ? write : (line: string): unknown => write.write(line)
  const finish = options.format === 'pretty' ? prettyLine(options.colour ?? false) : (line: string): string => line
  return {
    write(line) {
      try {
        out(finish(escapeInvisible(line)))
      } catch {
        // A log that can't be written (a closed pipe, a full disk) must not stop the retries.
      }
    },
  }
}

/** Makes the log. Field values are cut at 4,000 characters and lists at 100 entries. */
export function createLogger(options: LoggerOptions): Logger {
  const logger = pino(
    {
      level: options.level,
      base: { instance: redact(options.instance) },
      timestamp: () => `,"time":"${new Date(options.clock.now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    lineSink(options),
  )
  function bind(bound: LogFields): Logger {
    return {
      debug: (message, fields) => logger.isLevelEnabled('debug') && logger.debug(safeFields(bound, fields), message),
      info: (message, fields) => logger.isLevelEnabled('info') && logger.info(safeFields(bound, fields), message),
      warn: (message, fields) => logger.isLevelEnabled('warn') && logger.warn(safeFields(bound, fields), message),
      error: (message, fields) => logger.isLevelEnabled('error') && logger.error(safeFields(bound, fields), message),
      child: (fields) => bind({ ...bound, ...fields }),
    }
  }
  return bind(options.base ?? {})
}

/** A destination for `write` on a file descriptor (1: stdout). Waits while a pipe is full; a closed one is passed over. */
export function fileDescriptorSink(fd: number): { write(line: string): unknown } {
  const sink = destination({ dest: fd, sync: true })
  sink.on('error', () => undefined)
  return sink
}
