// The log: pino, synchronous, one line for each event of the catalogue. Redacts and truncates texts; keeps only safe parts of errors.
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
import { escapeInvisible, redact, shortened } from '../../runtime/redact.ts'

export interface Log {
  /** Writes one line with all fields except `type`. Default level: the event's first. */
  event<Id extends LogEventId>(id: Id, fields: LogFields[Id], level?: LogEventLevel<Id>): void
}

/** Levels of the daemon's log. The process itself writes the fatal line of a bug. */
export const countedLevels = ['debug', 'info', 'warn', 'error'] as const satisfies readonly LogLevel[]
export type CountedLevel = (typeof countedLevels)[number]

export interface CountedLog extends Log {
  /** Calls `listener` for each line from now on. */
  countLines(listener: (level: CountedLevel) => void): void
}

export interface LogOptions {
  /** Lowest level written; `silent`: none. */
  level: LogLevel | 'silent'
  /** Part of each line. */
  instance: string
  /** With `audit.enabled`: audit lines have `audit: true` and are written at any level. */
  audit?: boolean
  /** Writes one complete line synchronously. If it throws, the line is lost and work continues. */
  write: (line: string) => unknown
  clock: Pick<Clock, 'monotonic' | 'now'>
}

/** The audit: each retry, outcome, written payload and operator command. */
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

const maxTextLength = 4_000
const maxEntries = 100
/** Fields that may be objects, one level deep. A cast may let another object in, such as a request. */
const dataFields: ReadonlySet<string> = new Set(['causes', 'gates', 'selection', 'sums'])

const cut = (text: string): string => shortened(redact(text), maxTextLength)

/** Converts a value to JSON. Types allow nothing else, but a cast may let it in. */
function plain(value: unknown, isData = false): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value
  if (typeof value === 'string') return cut(value)
  if (typeof value === 'number') return Number.isFinite(value) ? Math.round(value * 1000) / 1000 : String(value)
  if (value instanceof Date) return value.toISOString()
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

/**
 * Creates the log. Above debug, each event has at most 20 lines in 10 minutes, except in the audit. Texts are redacted and
 * truncated at 4,000 characters, lists at 100 entries.
 */
export function createLog({ audit = false, clock, instance, level: minLevel, write }: LogOptions): CountedLog {
  let countLine: (level: CountedLevel) => void = () => undefined

  function writeLine(line: string): void {
    try {
      write(escapeInvisible(line))
    } catch {
      // An unwritable log (closed pipe, full disk) must not stop retries.
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

/** Matches only locations in files and in Node: a message may hold lines that look like frames. */
const frame = /^ {4}at (?:async )?(?:[\w$.<>#[\] ]+ \()?(?:node:|file:\/\/\/|\/)[\w$.@+~%/ -]+:\d+:\d+\)?$/

/** The program's own error classes, whose messages hold no secrets. */
const ownClasses = [ConfigurationError, UsageError, TransportError, PlatformFailure, TokenError]

/** A name or code in the usual form; anything else may be external text. */
function identifier(value: unknown): string | undefined {
  return (typeof value === 'string' || typeof value === 'number') && /^[\w.-]{1,64}$/.test(String(value))
    ? String(value)
    : undefined
}

function framesOf(error: Error): string[] {
  const stack = typeof error.stack === 'string' ? error.stack : ''
  const behindMessage = stack.slice(Math.max(0, stack.indexOf(error.message)) + error.message.length)
  const frames = behindMessage.split('\n').filter((line) => frame.test(line))
  return frames.slice(0, maxFrames).map((line) => line.trim().replace(/^at /, ''))
}

const codeOf = (error: Error): string | undefined => identifier((error as NodeJS.ErrnoException).code)

function nameAndCode(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  return [identifier(error.name) ?? 'Error', codeOf(error) ?? []].flat().join(' ')
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
    errorCode: codeOf(error),
    ...(error instanceof PlatformFailure && error.status !== undefined && { errorStatus: error.status }),
    ...(ownClasses.some((own) => error instanceof own) && { errorMessage: error.message }),
    ...(causes.length > 0 && { errorCauses: causes }),
    errorStack: framesOf(error),
  }
}

/**
 * The fields of an unexpected error: name, code, causes, source locations, and the platform's HTTP status. Messages are kept
 * for the program's own classes only: others may quote a request, key or payload. Never throws.
 */
export function errorFields(error: unknown): ErrorFields {
  try {
    return fieldsOf(error)
  } catch {
    return { errorName: 'an unreadable error' }
  }
}
