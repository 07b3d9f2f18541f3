// Takes each request through faults and operations to its answer, and counts it.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../../src/runtime/clock.ts'
import { readBody, send, splitTarget, type SandboxAnswer, type SandboxRequest } from './http.ts'
import { answerInstead, latencyOf, spoil } from './fault-effects.ts'
import { answer, route, type Paths } from './routes.ts'
import type { World } from '../world.ts'

export interface GatewayOptions {
  clock: Clock
  paths: Paths
  /** The world of now: a reset makes another. */
  world: () => World
  signal: AbortSignal
}

/** A request before its meaning is known. */
export interface IncomingRequest {
  method: string
  /** Path and query, as in the first line of an HTTP request. */
  target: string
  /** Names in lower case. */
  headers: SandboxRequest['headers']
  body: string
}

/** Hands an answer over. `date` is the value of its `Date` header in epoch milliseconds; undefined: no such header. */
export type Deliver = (answer: SandboxAnswer, date: number | undefined) => Promise<void>

export interface Gateway {
  /** Answers one request. Rejects when the sandbox closes or `deliver` rejects. */
  handle(incoming: IncomingRequest, deliver: Deliver): Promise<void>
}

export function createGateway({ clock, paths, signal, world: worldOfNow }: GatewayOptions): Gateway {
  async function answered(world: World, request: SandboxRequest): Promise<SandboxAnswer> {
    const faults = world.faults.draw(request)
    const latencyMs = latencyOf(faults)
    if (latencyMs > 0) await clock.sleep(latencyMs, signal)
    const plain = answerInstead(faults, world.faultContext()) ?? (await answer(world, request))
    return faults.reduce((spoiled, fault) => spoil(spoiled, fault, world.faultContext()), plain)
  }

  return {
    async handle(incoming, deliver) {
      const world = worldOfNow()
      const { method, target, headers, body } = incoming
      const { path, query } = splitTarget(target)
      const request: SandboxRequest = { ...route(paths, method, path), method, path, query, headers, body }
      const { operation } = request
      const isRetry = operation === 'retry'
      world.stats.requestArrived(operation)
      if (isRetry) world.stats.retryStarted()
      try {
        const spoiled = await answered(world, request)
        const { kind } = spoiled.wire
        const status = kind === 'reset' || kind === 'hang' ? 'none' : spoiled.status
        world.stats.requestAnswered({ at: clock.now(), operation, method, target, status })
        const now = operation === 'token' ? world.identityNow() : world.now()
        await deliver(spoiled, world.readings().dateHeader ? now : undefined)
      } finally {
        if (isRetry) world.stats.retryEnded()
      }
    },
  }
}

/** A listener for node:http servers; it never rejects or throws. */
export function createHttpListener(
  gateway: Gateway,
  { clock, signal }: Pick<GatewayOptions, 'clock' | 'signal'>,
): (request: IncomingMessage, response: ServerResponse) => void {
  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url: target = '', headers } = incoming
    const body = await readBody(incoming)
    await gateway.handle({ method, target, headers, body }, (answer, date) =>
      send(response, answer, { clock, signal, date }),
    )
  }

  return (incoming, response) => {
    // Kept now: a request that was destroyed has none any more.
    const { socket } = incoming
    handle(incoming, response).catch(() => {
      // The peer let go, sent too much, or the sandbox is closing: nothing is left to answer.
      socket.destroy()
    })
  }
}
