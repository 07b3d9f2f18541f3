// Effects of faults: delay of a call, another response in its place, or a damaged response.
import type { Sequence } from '../records/hash.ts'
import type { Fault } from './faults.ts'
import { textResponse, type SandboxResponse } from './http.ts'

export interface FaultContext {
  random: Sequence
  /** An error body with this code. @see docs/platform-api.md "Errors" */
  errorResponse(status: number, code: string, message: string): SandboxResponse
}

const htmlPage =
  '<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Service unavailable</h1></body></html>'

/** How long the faults hold the call up, in milliseconds. */
export function latencyOf(faults: readonly Fault[]): number {
  return faults.reduce((sum, fault) => sum + (fault.kind === 'latency' ? fault.ms : 0), 0)
}

/** The response that the first of the faults that gives one gives in place of the call's work. */
export function respondInstead(faults: readonly Fault[], context: FaultContext): SandboxResponse | undefined {
  for (const fault of faults) {
    const response = instead(fault, context)
    if (response !== undefined) return response
  }
  return undefined
}

function instead(fault: Fault, context: FaultContext): SandboxResponse | undefined {
  switch (fault.kind) {
    case 'status':
      return fault.applied === true ? undefined : statusResponse(fault, context)
    case 'reset':
      return fault.when === 'after' ? undefined : { ...textResponse(503, ''), wire: { kind: 'reset' } }
    case 'hang':
      return fault.applied === true ? undefined : { ...textResponse(503, ''), wire: { kind: 'hang' } }
    case 'latency':
    case 'cut':
    case 'drip':
    case 'broken-json':
    case 'huge-body':
    case 'wrong-id':
      return undefined
  }
}

/** Applies a fault to a response. */
export function spoil(response: SandboxResponse, fault: Fault, context: FaultContext): SandboxResponse {
  switch (fault.kind) {
    case 'status':
      return fault.applied === true ? statusResponse(fault, context) : response
    case 'reset':
      return fault.when === 'after' ? { ...response, wire: { kind: 'reset' } } : response
    case 'hang':
      return { ...response, wire: { kind: 'hang' } }
    case 'cut':
      return { ...response, wire: { kind: 'cut' } }
    case 'drip':
      return { ...response, wire: fault }
    case 'broken-json':
      return { ...response, body: response.body.slice(0, Math.ceil(response.body.length / 2)) }
    case 'huge-body':
      return { ...response, body: response.body.padEnd(Math.ceil(fault.mebibytes * 2 ** 20), ' ') }
    case 'wrong-id':
      return withWrongId(response, context.random)
    case 'latency':
      return response
  }
}

function statusResponse(fault: Extract<Fault, { kind: 'status' }>, context: FaultContext): SandboxResponse {
  const { status, body = 'error', code = 'sandbox.fault', headers = {} } = fault
  if (body === 'html') return textResponse(status, htmlPage, { 'content-type': 'text/html', ...headers })
  if (body === 'empty') return { status, headers, body: '', wire: { kind: 'whole' } }
  if (body === 'error') {
    const response = context.errorResponse(status, code, 'A fault of the sandbox.')
    return { ...response, headers: { ...response.headers, ...headers } }
  }
  return textResponse(status, body.text, { 'content-type': body.contentType ?? 'application/json', ...headers })
}

function withWrongId(response: SandboxResponse, random: Sequence): SandboxResponse {
  if (response.status >= 300) return response
  const body = JSON.parse(response.body) as { data?: { webhook?: object } }
  if (body.data?.webhook === undefined) return response
  return {
    ...response,
    body: JSON.stringify({ ...body, data: { webhook: { ...body.data.webhook, id: random.uuid() } } }),
  }
}
