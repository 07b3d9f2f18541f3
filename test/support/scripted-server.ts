// A server without a network: a Transport that answers as a test says, in the time of a virtual clock.
import { TransportError, type HttpRequest, type HttpResponse, type Transport } from '../../src/platform/http/http.ts'
import type { VirtualClock } from './virtual-clock.ts'

/** The response to one request. */
export interface Reply {
  /** Default 200. */
  status?: number
  /** An object is sent as JSON. */
  body?: unknown
  /** Without a `date` the server's own time is sent. */
  headers?: Record<string, string>
  /** Time that the response takes; beyond the request's deadline it is a timeout. */
  delayMs?: number
  /** In place of a response. */
  error?: Error
}

export interface SentRequest {
  request: HttpRequest
  /** Monotonic ms at which it came. */
  at: number
}

/** The reply to a request; the first one has the number 1. */
export type Script = (sent: SentRequest, number: number) => Reply

export interface ScriptedServer {
  transport: Transport
  sent: SentRequest[]
  /** Replies from now on, in this order; the last one to all that follows. */
  replies(...replies: (Reply | Script)[]): void
  /** The server's clock, epoch ms: it does not follow the jumps of the host's. */
  now(): number
  /** The server's clock is set. */
  jump(ms: number): void
}

function textOf(body: unknown): string {
  if (typeof body === 'string') return body
  return body === undefined ? '' : JSON.stringify(body)
}

/** @param skewMs how far the server's clock is ahead of the host's at the start */
export function createScriptedServer(clock: VirtualClock, skewMs = 0): ScriptedServer {
  const sent: SentRequest[] = []
  let offset = clock.now() + skewMs - clock.monotonic()
  let script: (Reply | Script)[] = [{}]

  const now = (): number => clock.monotonic() + offset

  async function answer({ request, at }: SentRequest, reply: Reply): Promise<HttpResponse> {
    const { body, delayMs = 0, error, headers, status = 200 } = reply
    request.signal?.throwIfAborted()
    await clock.sleep(Math.min(delayMs, request.timeoutMs), request.signal)
    if (delayMs >= request.timeoutMs) throw new TransportError('timeout', 'DEADLINE')
    if (error !== undefined) throw error
    const date = new Date(now()).toUTCString()
    const received = { sentAt: at, receivedAt: clock.monotonic() }
    return { status, headers: { date, ...headers }, body: textOf(body), ...received }
  }

  return {
    sent,
    now,
    jump(ms) {
      offset += ms
    },
    replies(...replies) {
      script = replies
    },
    async transport(request) {
      const entry: SentRequest = { request, at: clock.monotonic() }
      sent.push(entry)
      const reply = script.length > 1 ? script.shift() : script[0]
      return answer(entry, typeof reply === 'function' ? reply(entry, sent.length) : (reply ?? {}))
    },
  }
}
