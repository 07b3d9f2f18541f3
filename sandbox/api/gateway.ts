// Passes each request through faults and operations to its response, and counts it.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../../src/runtime/clock.ts'
import { readBody, send, splitTarget, type SandboxResponse, type SandboxRequest } from './http.ts'
import { respondInstead, latencyOf, spoil } from './fault-effects.ts'
import { createLimitMeter, retryAfterOf, type Limit, type LimitMeter } from './limits.ts'
import { respond, errorResponse, route, type Paths, type SandboxPlatform } from './routes.ts'

export interface GatewayOptions {
  clock: Clock
  paths: Paths
  signal: AbortSignal
}

/** A request before it is interpreted. */
export interface IncomingRequest {
  method: string
  /** Path and query, as in the first line of an HTTP request. */
  target: string
  /** Names in lower case. */
  headers: SandboxRequest['headers']
  body: string
}

/** Sends a response. `date`: its `Date` header in epoch milliseconds; undefined: no such header. */
export type Deliver = (content: SandboxResponse, date: number | undefined) => Promise<void>

export interface Gateway {
  /** Responds to a request. Rejects if the sandbox closes or `deliver` rejects. */
  handle(incoming: IncomingRequest, deliver: Deliver): Promise<void>
}

export function createGateway(platform: SandboxPlatform, { clock, paths, signal }: GatewayOptions): Gateway {
  const { faults, identityNow, now, readings, stats, store } = platform
  /** One for each limit of the readings; a change of the readings restarts them. */
  let meters: { limits: readonly Limit[]; of: LimitMeter[] } = { limits: [], of: [] }

  /** The response to a throttled call. */
  function refusal({ operation, webhookId }: SandboxRequest): SandboxResponse | undefined {
    const { limits } = readings()
    if (limits !== meters.limits) meters = { limits, of: limits.map(createLimitMeter) }
    for (const [index, limit] of limits.entries()) {
      if (!limit.operations.some((limited) => limited === operation)) continue
      const subscriptionId = store.find(webhookId ?? '')?.subscriptionId ?? ''
      if (limit.subscriptionIds?.includes(subscriptionId) === false) continue
      const waitMs = meters.of[index]?.take(clock.now())
      if (waitMs === undefined) continue
      const text = { code: 'sandbox.throttled', message: 'Too many requests.', messageParameters: [] }
      const plain = errorResponse(platform, limit.status, text)
      const retryAfter = retryAfterOf(limit, waitMs)
      return retryAfter === undefined ? plain : { ...plain, headers: { ...plain.headers, 'retry-after': retryAfter } }
    }
    return undefined
  }

  async function responseTo(request: SandboxRequest): Promise<SandboxResponse> {
    const drawn = faults.draw(request)
    const latencyMs = latencyOf(drawn)
    if (latencyMs > 0) await clock.sleep(latencyMs, signal)
    const plain = respondInstead(drawn, platform) ?? refusal(request) ?? (await respond(platform, request))
    return drawn.reduce((spoiled, fault) => spoil(spoiled, fault, platform), plain)
  }

  return {
    async handle({ body, headers, method, target }, deliver) {
      const { path, query } = splitTarget(target)
      const request: SandboxRequest = { ...route(paths, method, path), method, path, query, headers, body }
      const { operation } = request
      const spoiled = await responseTo(request)
      const { kind } = spoiled.wire
      const status = kind === 'reset' || kind === 'hang' ? 'none' : spoiled.status
      stats.requestAnswered({ at: clock.now(), operation, target, status })
      const date = operation === 'token' ? identityNow() : now()
      await deliver(spoiled, readings().dateHeader ? date : undefined)
    },
  }
}

/** A listener for node:http servers. Never rejects or throws. */
export function createHttpListener(
  gateway: Gateway,
  { clock, signal }: Pick<GatewayOptions, 'clock' | 'signal'>,
): (request: IncomingMessage, response: ServerResponse) => void {
  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url: target = '', headers } = incoming
    const body = await readBody(incoming)
    await gateway.handle({ method, target, headers, body }, (content, date) =>
      send(response, content, { clock, signal, date }),
    )
  }

  return (incoming, response) => {
    // Kept now: a destroyed request has no socket.
    const { socket } = incoming
    handle(incoming, response).catch(() => {
      // The client disconnected or sent too much, or the sandbox is closing: no response is possible.
      socket.destroy()
    })
  }
}
