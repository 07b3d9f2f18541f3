// The log: pino, synchronous, one line for each event of the catalogue. Texts are redacted and cut; of errors only safe parts are kept.
import { pino } from 'pino'
import type { Clock } from '../../runtime/clock.ts'
import { ConfigurationError, UsageError } from '../../runtime/errors.ts'
import { PlatformFailure } from '../../platform/http/response.ts'
import { TransportError } from '../../platform/http/http.ts'
import { TokenError } from '../../platform/auth/token-response.ts'
import {
  logEvents,
  type ErrorFields,
  type LogEventId,
  type LogEventLevel,
  type LogFields,
  type LogLevel,
} from './log-events.ts'
import { createLimit } from './repetition.ts'
import { escapeInvisible, redact } from '../../runtime/redact.ts'

export interface Log {
  /** Writes one line: all fields but `type`, which the daemon's own events have. `level` is the first one by default. */
  event<Id extends LogEventId>(id: Id, fields: LogFields[Id], level?: LogEventLevel<Id>): void
}

/** Levels that the daemon logs. The fatal line of a bug is written by the process itself. */
export const countedLevels = ['debug', 'info', 'warn', 'error'] as const satisfies readonly LogLevel[]
export type CountedLevel = (typeof countedLevels)[number]

export interface CountedLog extends Log {
  /** Calls `listener` for each line written from now on. */
  countLines(listener: (level: CountedLevel) => void): void
}

export interface LogOptions {
  /** The lowest that is written; `silent`: none is. */
  level: LogLevel | 'silent'
  /** Part of every line. */
  instance: string
  /** With `audit.enabled`: the lines of the audit have `audit: true` and are written at any level. */
  audit?: boolean
  /** Writes one finished line with its line break, synchronously. When it throws, the line is lost and the work continues. */
  write: (line: string) => unknown
  clock: Pick<Clock, 'monotonic' | 'now'>
}

/** The audit: each retry, each outcome, each payload that was written, and each command of the operator. */
const auditEvents: ReadonlySet<LogEventId> = new Set<LogEventId>([
  'retry_answered',
  'retry_outcome',
  'payload_written',
  'operator_paused',
  'operator_resumed',
  'operator_probed',
  'retry_job_started',
  'retry_job_ended',
])

/** Takes the lines of the audit alone. */
export function auditOnly(log: Log): Log {
  return {
    event(id, fields, level) {
      if (auditEvents.has(id)) log.event(id, fields, level)
    },
  }
}

const maxTextLength = 4_000
const maxEntries = 100
/** Fields of objects, one deep. Of all others a cast may let one in, such as a request. */
const dataFields: ReadonlySet<string> = new Set(['causes', 'gates', 'selection', 'sums'])

function cut(text: string): string {
  const clean = redact(text)
  return clean.length > maxTextLength ? `${clean.slice(0, maxTextLength)}...` : clean
}

/** Turns a value into one that JSON can hold. Types allow no others, but a cast may let one in. */
function plain(value: unknown, isData = false): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value
  if (typeof value === 'string') return cut(value)
  if (typeof value === 'number') return Number.isFinite(value) ? Math.round(value * 1000) / 1000 : String(value)
  if (Array.isArray(value))
    return value.slice(0, maxEntries).map((entry) => (isData ? plain(entry, true) : cut(String(plain(entry)))))
  return isData && typeof value === 'object' ? plainFields(value) : `[${typeof value}]`
}

function plainFields(fields: object): object {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      name === 'type' ? undefined : plain(value, dataFields.has(name)),
    ]),
  )
}

const noLimit = { passes: true, suppressed: undefined }

/** Makes the log. At most 20 lines of an event in 10 minutes are above debug; the audit has all. Texts are redacted and cut at 4,000 characters, lists at 100 entries. */
export function createLog({ audit = false, clock, instance, level: minLevel, write }: LogOptions): CountedLog {
  let countLine: (level: CountedLevel) => void = () => undefined

  function writeLine(line: string): void {
    try {
      write(escapeInvisible(line))
    } catch {
      // A log that can't be written (a closed pipe, a full disk) must not stop the retries.
    }
  }

  const logger = pino(
    {
      level: minLevel,
      base: { instance: redact(instance) },
      timestamp: () => `,"time":"${new Date(clock.now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: writeLine },
  )

  const limits = new Map<LogEventId, ReturnType<typeof createLimit>>()
  const auditLogger = audit ? logger.child({ audit }, { level: 'debug' }) : logger

  return {
    event(id, fields, wanted: LogLevel = logEvents[id][0][0]) {
      const isAudit = auditEvents.has(id)
      const isFree = isAudit || wanted === 'debug' || wanted === 'fatal'
      const { passes, suppressed } = isFree ? noLimit : limits.getOrInsertComputed(id, () => createLimit(clock))()
      const level = passes ? wanted : 'debug'
      const to = isAudit ? auditLogger : logger
      if (!to.isLevelEnabled(level)) return
      if (level !== 'fatal') countLine(level)
      to[level]({ event: id, ...plainFields(fields), suppressed }, logEvents[id][1])
    },
    countLines(listener) {
      countLine = listener
    },
  }
}

const maxFrames = 10
const maxCauses = 3

/** Matches places in files and in Node itself only: a message may hold lines that look like frames. */
const frame = /^ {4}at (?:async )?(?:[\w$.<>#[\] ]+ \()?(?:node:|file:\/\/\/|\/)[\w$.@+~%/ -]+:\d+:\d+\)?$/

/** The program's own error classes: their messages hold no secrets. */
const ownClasses = [ConfigurationError, UsageError, TransportError, PlatformFailure, TokenError]

/** A name or code in the usual form; anything else might be text from outside. */
function identifier(value: unknown): string | undefined {
  return (typeof value === 'string' || typeof value === 'number') && /^[\w.-]{1,64}$/.test(String(value))
    ? String(value)
    : undefined
}

function framesOf(error: Error): string[] {
  const stack = typeof error.stack === 'string' ? error.stack : ''
  const behindMessage = stack.slice(Math.max(0, stack.indexOf(error.message)) + error.message.length)
  const frames = behindMessage.split('\n').filter((line) => line.length < 500 && frame.test(line))
  return frames.slice(0, maxFrames).map((line) => line.trim().replace(/^at /, ''))
}

function nameAndCode(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const code = 'code' in error ? identifier(error.code) : undefined
  return [identifier(error.name) ?? 'Error', ...(code === undefined ? [] : [code])].join(' ')
}

function causesOf(error: Error): string[] {
  const causes: string[] = []
  let cause: unknown = error.cause
  while (cause !== undefined && cause !== null && causes.length < maxCauses) {
    causes.push(nameAndCode(cause))
    cause = cause instanceof Error ? cause.cause : undefined
  }
  return causes
}

function fieldsOf(error: unknown): ErrorFields {
  if (!(error instanceof Error)) return { errorName: `thrown ${error === null ? 'null' : typeof error}` }
  const causes = causesOf(error)
  return {
    errorName: identifier(error.name) ?? 'Error',
    ...('code' in error && { errorCode: identifier(error.code) }),
    ...(error instanceof PlatformFailure && error.status !== undefined && { errorStatus: error.status }),
    ...(ownClasses.some((own) => error instanceof own) && { errorMessage: error.message }),
    ...(causes.length > 0 && { errorCauses: causes }),
    errorStack: framesOf(error),
  }
}

/**
 * The fields of an unexpected error: name, code, causes (name and code), places in the source, and the HTTP status of the
 * platform's response. The message is kept for the program's own classes only: others may quote a request, a key or a
 * payload. Never throws.
 */
export function errorFields(error: unknown): ErrorFields {
  try {
    return fieldsOf(error)
  } catch {
    return { errorName: 'an error that can not be read' }
  }
}
