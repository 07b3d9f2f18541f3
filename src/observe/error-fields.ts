// An error as log fields: enough to find the place, without what its message may carry.
import { ConfigurationError, UsageError } from '../runtime/errors.ts'
import type { LogFields } from './log.ts'
import { PlatformFailure } from '../platform/response.ts'
import { TransportError } from '../platform/http.ts'
import { TokenError } from '../platform/token-endpoint.ts'

const mostFrames = 10
const mostCauses = 3

/** Only places in files and in Node itself: a message may hold lines that look like frames. */
const frame =
  /^ {4}at (?:async )?(?:[\w$.<>#[\] ]{1,120} \()?(?:node:|file:\/\/\/|\/)[\w$.@+~%/ -]{1,300}:\d{1,7}:\d{1,7}\)?$/

/** Our own classes: they write their messages without secrets. */
const ownClasses = [ConfigurationError, UsageError, TransportError, PlatformFailure, TokenError]

/** A name or code as libraries write them; anything else might be text from outside. */
function identifier(value: unknown): string | undefined {
  return (typeof value === 'string' || typeof value === 'number') && /^[\w.-]{1,64}$/.test(String(value))
    ? String(value)
    : undefined
}

function framesOf(error: Error): string[] {
  const stack = typeof error.stack === 'string' ? error.stack : ''
  const behindMessage = stack.slice(Math.max(0, stack.lastIndexOf(error.message)) + error.message.length)
  const frames = behindMessage.split('\n').filter((line) => frame.test(line))
  return frames.slice(0, mostFrames).map((line) => line.trim().replace(/^at /, ''))
}

function nameAndCode(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const code = 'code' in error ? identifier(error.code) : undefined
  return [identifier(error.name) ?? 'Error', ...(code === undefined ? [] : [code])].join(' ')
}

function causesOf(error: Error): string[] {
  const causes: string[] = []
  let cause: unknown = error.cause
  while (cause !== undefined && cause !== null && causes.length < mostCauses) {
    causes.push(nameAndCode(cause))
    cause = cause instanceof Error ? cause.cause : undefined
  }
  return causes
}

function fieldsOf(error: unknown): LogFields {
  if (!(error instanceof Error)) return { errorName: `thrown ${error === null ? 'null' : typeof error}` }
  const causes = causesOf(error)
  return {
    errorName: identifier(error.name) ?? 'Error',
    ...('code' in error && identifier(error.code) !== undefined ? { errorCode: identifier(error.code) } : {}),
    ...(error instanceof PlatformFailure && error.status !== undefined && { errorStatus: error.status }),
    ...(ownClasses.some((own) => error instanceof own) ? { errorMessage: error.message } : {}),
    ...(causes.length > 0 ? { errorCauses: causes } : {}),
    errorStack: framesOf(error),
  }
}

/**
 * What a log line may say of an error: `errorName`, `errorCode`, `errorCauses` (name and code), `errorStack` (places
 * only), `errorStatus` (HTTP status of the platform's answer), and `errorMessage` for our own classes alone. Messages of others may quote a request, a key or a payload.
 * Never throws, whatever was thrown.
 */
export function errorFields(error: unknown): LogFields {
  try {
    return fieldsOf(error)
  } catch {
    return { errorName: 'an error that can not be read' }
  }
}
