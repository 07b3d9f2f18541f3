// Effects of faults: a delayed call, another response, or a damaged one.
import type { Sequence } from '../records/hash.ts'
import type { Fault } from './faults.ts'
import { textResponse, type SandboxResponse } from './http.ts'
import { errorResponse, type SandboxPlatform } from './routes.ts'

const htmlPage =
  '<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Service unavailable</h1></body></html>'

/** Delay of the call by its faults, in milliseconds. */
export function latencyOf(faults: readonly Fault[]): number {
  return faults.reduce((sum, fault) => sum + (fault.kind === 'latency' ? fault.ms : 0), 0)
}

/** The response of the first fault that replaces the call's work. */
export function respondInstead(faults: readonly Fault[], platform: SandboxPlatform): SandboxResponse | undefined {
  for (const fault of faults) {
    const response = instead(fault, platform)
    if (response !== undefined) return response
  }
  return undefined
}

function instead(fault: Fault, platform: SandboxPlatform): SandboxResponse | undefined {
  if (fault.kind === 'status' && fault.applied !== true) return statusResponse(fault, platform)
  const isLost =
    (fault.kind === 'reset' && fault.when === 'before') || (fault.kind === 'hang' && fault.applied !== true)
  return isLost ? textResponse(503, '') : undefined
}

/** Applies a fault to a response. */
export function spoil(response: SandboxResponse, fault: Fault, platform: SandboxPlatform): SandboxResponse {
  switch (fault.kind) {
    case 'status':
      return fault.applied === true ? statusResponse(fault, platform) : response
    case 'reset':
    case 'hang':
    case 'cut':
      return { ...response, wire: { kind: fault.kind } }
    case 'drip':
      return { ...response, wire: fault }
    case 'broken-json':
      return { ...response, body: response.body.slice(0, Math.ceil(response.body.length / 2)) }
    case 'huge-body':
      return { ...response, body: response.body.padEnd(Math.ceil(fault.mebibytes * 2 ** 20), ' ') }
    case 'wrong-id':
      return withWrongId(response, platform.ids)
    case 'latency':
      return response
  }
}

function statusResponse(fault: Extract<Fault, { kind: 'status' }>, platform: SandboxPlatform): SandboxResponse {
  const { status, body = 'error', code = 'sandbox.fault', headers = {} } = fault
  if (body === 'html') return textResponse(status, htmlPage, { 'content-type': 'text/html', ...headers })
  if (body === 'empty') return { status, headers, body: '', wire: { kind: 'whole' } }
  if (body === 'error') {
    const error = { code, message: 'A fault of the sandbox.', messageParameters: [] }
    const response = errorResponse(platform, status, error)
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
