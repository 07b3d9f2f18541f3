// Takes each HTTP request through faults and operations to its answer, and counts it.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../clock.ts'
import type { Answer, SandboxRequest } from './exchange.ts'
import { answerInstead, latencyOf, spoil } from './fault-effects.ts'
import { readBody } from './listen.ts'
import { answer, route, type Paths } from './routes.ts'
import { send, targetOf } from './transport.ts'
import type { World } from './world.ts'

export interface GatewayOptions {
  clock: Clock
  paths: Paths
  /** The world of now: a reset makes another. */
  world: () => World
  signal: AbortSignal
}

/** A listener for node:http servers; it never rejects or throws. */
export function createGateway(options: GatewayOptions): (request: IncomingMessage, response: ServerResponse) => void {
  const { clock, signal, paths } = options

  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const world = options.world()
    const request = await read(incoming, paths)
    const isRetry = request.operation === 'retry'
    world.stats.requestArrived(request.operation)
    if (isRetry) world.stats.retryStarted()
    try {
      const spoiled = await answered(world, request)
      const { kind } = spoiled.wire
      world.stats.requestAnswered({
        at: clock.now(),
        operation: request.operation,
        method: request.method,
        target: incoming.url ?? '',
        status: kind === 'reset' || kind === 'hang' ? 'none' : spoiled.status,
      })
      const now = request.operation === 'token' ? world.identityNow() : world.now()
      await send(response, spoiled, { clock, signal, date: world.readings().dateHeader ? now : undefined })
    } finally {
      if (isRetry) world.stats.retryEnded()
    }
  }

  async function answered(world: World, request: SandboxRequest): Promise<Answer> {
    const faults = world.faults.forRequest(request)
    const latencyMs = latencyOf(faults, world.random)
    if (latencyMs > 0) await clock.sleep(latencyMs, signal)
    const plain = answerInstead(faults, world.faultContext()) ?? (await answer(world, request))
    return faults.reduce((spoiled, fault) => spoil(spoiled, fault, world.faultContext()), plain)
  }

  return (incoming, response) => {
    // Kept now: a request that was destroyed has none any more.
    const { socket } = incoming
    handle(incoming, response).catch(() => {
      // The peer let go, sent too much, or the sandbox is closing: there is nobody left to tell.
      socket.destroy()
    })
  }
}

async function read(incoming: IncomingMessage, paths: Paths): Promise<SandboxRequest> {
  const { path, query } = targetOf(incoming)
  const method = incoming.method ?? 'GET'
  const body = await readBody(incoming)
  return { ...route(paths, method, path), method, path, query, headers: incoming.headers, body }
}
