// Effects of faults: delay of a call, another answer in its place, or a damaged answer.
import type { Sequence } from '../records/hash.ts'
import type { Fault } from './faults.ts'
import { textAnswer, type SandboxAnswer } from './http.ts'

export interface FaultContext {
  /** The server's time, epoch milliseconds. */
  now: number
  random: Sequence
  /** An error body with this code. @see docs/platform-api.md "Errors" */
  errorAnswer(status: number, code: string, message: string): SandboxAnswer
}

const htmlPage =
  '<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Service unavailable</h1></body></html>'

/** How long the faults hold the call up, in milliseconds. */
export function latencyOf(faults: readonly Fault[]): number {
  return faults.reduce((sum, fault) => sum + (fault.kind === 'latency' ? fault.ms : 0), 0)
}

/** The answer that the first of the faults that gives one gives in place of the call's work. */
export function answerInstead(faults: readonly Fault[], context: FaultContext): SandboxAnswer | undefined {
  for (const fault of faults) {
    const answer = instead(fault, context)
    if (answer !== undefined) return answer
  }
  return undefined
}

function instead(fault: Fault, context: FaultContext): SandboxAnswer | undefined {
  switch (fault.kind) {
    case 'status':
      return fault.applied === true ? undefined : statusAnswer(fault, context)
    case 'throttle':
      return throttleAnswer(fault, context)
    case 'reset':
      return fault.when === 'after' ? undefined : { ...textAnswer(503, ''), wire: { kind: 'reset' } }
    case 'hang':
      return fault.applied === true ? undefined : { ...textAnswer(503, ''), wire: { kind: 'hang' } }
    case 'redirect':
      return textAnswer(fault.status ?? 302, '', { location: fault.location })
    case 'refuse-token':
      return refusal(fault)
    case 'latency':
    case 'cut':
    case 'drip':
    case 'broken-json':
    case 'huge-body':
    case 'wrong-id':
    case 'compressed':
    case 'no-date':
      return undefined
  }
}

/** Applies a fault to an answer. */
export function spoil(answer: SandboxAnswer, fault: Fault, context: FaultContext): SandboxAnswer {
  switch (fault.kind) {
    case 'status':
      return fault.applied === true ? statusAnswer(fault, context) : answer
    case 'reset':
      return fault.when === 'after' ? { ...answer, wire: { kind: 'reset' } } : answer
    case 'hang':
      return { ...answer, wire: { kind: 'hang' } }
    case 'cut':
      return { ...answer, wire: { kind: 'cut' } }
    case 'drip':
      return { ...answer, wire: fault }
    case 'broken-json':
      return { ...answer, body: answer.body.slice(0, Math.ceil(answer.body.length / 2)) }
    case 'huge-body':
      return { ...answer, body: answer.body.padEnd(Math.ceil(fault.mebibytes * 2 ** 20), ' ') }
    case 'wrong-id':
      return withBody(answer, (body) => withWrongId(body, context.random))
    case 'compressed':
      return { ...answer, headers: { ...answer.headers, 'content-encoding': fault.encoding } }
    case 'no-date':
      return { ...answer, headers: { ...answer.headers, date: '' } }
    case 'latency':
    case 'throttle':
    case 'redirect':
    case 'refuse-token':
      return answer
  }
}

function statusAnswer(fault: Extract<Fault, { kind: 'status' }>, context: FaultContext): SandboxAnswer {
  const { status, body = 'error', code = 'sandbox.fault', headers = {} } = fault
  if (body === 'html') return textAnswer(status, htmlPage, { 'content-type': 'text/html', ...headers })
  if (body === 'empty') return { status, headers, body: '', wire: { kind: 'whole' } }
  if (body === 'error') {
    const answer = context.errorAnswer(status, code, 'A fault of the sandbox.')
    return { ...answer, headers: { ...answer.headers, ...headers } }
  }
  return textAnswer(status, body.text, { 'content-type': body.contentType ?? 'application/json', ...headers })
}

function throttleAnswer(
  { retryAfter, status = 429 }: Extract<Fault, { kind: 'throttle' }>,
  context: FaultContext,
): SandboxAnswer {
  const answer = context.errorAnswer(status, 'sandbox.throttled', 'Too many requests.')
  if (retryAfter === 'absent') return answer
  const { seconds, form = 'seconds' } = retryAfter
  const value = form === 'seconds' ? String(seconds) : new Date(context.now + seconds * 1000).toUTCString()
  return { ...answer, headers: { ...answer.headers, 'retry-after': value } }
}

function refusal({
  error = 'invalid_client',
  description,
  status = 401,
}: Extract<Fault, { kind: 'refuse-token' }>): SandboxAnswer {
  const body = { error, error_description: description ?? 'Refused by a fault of the sandbox.' }
  return textAnswer(status, JSON.stringify(body), { 'content-type': 'application/json' })
}

function withBody(
  answer: SandboxAnswer,
  change: (body: Record<string, unknown>) => Record<string, unknown>,
): SandboxAnswer {
  if (answer.status >= 300) return answer
  return { ...answer, body: JSON.stringify(change(JSON.parse(answer.body) as Record<string, unknown>)) }
}

function withWrongId(body: Record<string, unknown>, random: Sequence): Record<string, unknown> {
  const data = body['data'] as { webhook?: object } | undefined
  return data?.webhook === undefined ? body : { ...body, data: { webhook: { ...data.webhook, id: random.uuid() } } }
}
