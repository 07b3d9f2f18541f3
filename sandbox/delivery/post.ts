// One POST of an event to a subscriber, and its result as the record shows it.
import { Agent, request } from 'undici'
import { noResult, type AttemptResult } from '../records/store.ts'

export interface Post {
  url: string
  webhookId: string
  eventId: string
  subscriptionId: string
  payload: Record<string, unknown>
  signal: AbortSignal
}

/** Takes one delivery to its subscriber. */
export interface Courier {
  /** Rejects with an error whose `code` is that of a failed connection, or with the signal's reason. */
  deliver(order: Post): Promise<AttemptResult>
  close(): Promise<void>
}

/** Connections to one subscriber host at once: as many deliveries run side by side. */
const connectionsPerHost = 64

/** Posts over HTTP. */
export function createHttpCourier(): Courier {
  const agent = new Agent({ connections: connectionsPerHost, allowH2: false, pipelining: 1 })
  return { deliver: (order) => send(agent, order), close: () => agent.destroy() }
}

/** Names of headers that identify a delivery. Not specified: the sandbox's own. */
export const deliveryHeader = {
  webhookId: 'x-webhook-id',
  eventId: 'x-event-id',
  subscriptionId: 'x-subscription-id',
  eventType: 'x-event-type',
} as const

/** Longer answers of a subscriber are recorded up to this many bytes. */
const keptBytes = 64 * 1024

/** Rejects only with the signal's reason; everything that goes wrong with the subscriber is a result. */
export async function post(courier: Courier, order: Post): Promise<AttemptResult> {
  try {
    return await courier.deliver(order)
  } catch (error) {
    order.signal.throwIfAborted()
    return { ...noResult, lastAttemptErrorMessage: errorMessage(error) }
  }
}

async function send(dispatcher: Agent, order: Post): Promise<AttemptResult> {
  const { payload } = order
  const answer = await request(order.url, {
    dispatcher,
    method: 'POST',
    signal: order.signal,
    headersTimeout: 0,
    bodyTimeout: 0,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'webhook-sandbox',
      [deliveryHeader.webhookId]: order.webhookId,
      [deliveryHeader.eventId]: order.eventId,
      [deliveryHeader.subscriptionId]: order.subscriptionId,
      [deliveryHeader.eventType]: eventTypeOf(payload),
    },
    body: JSON.stringify(payload),
  })
  return {
    responseStatusCode: answer.statusCode,
    responsePayload: await readSome(answer.body),
    responseHeaders: listed(answer.headers),
    lastAttemptErrorMessage: null,
  }
}

/** The event's type, as its payload says; empty when it says none. */
export function eventTypeOf(payload: Record<string, unknown>): string {
  return (payload['webhook'] as { type?: string } | undefined)?.type ?? ''
}

async function readSome(body: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of body) {
    parts.push(part)
    bytes += part.length
    if (bytes >= keptBytes) break
  }
  return Buffer.concat(parts).subarray(0, keptBytes).toString('utf8')
}

function listed(headers: Record<string, string | string[] | undefined>): Record<string, string[]> {
  const entries = Object.entries(headers).map(([name, value]): [string, string[]] => [
    name.toLowerCase(),
    [value ?? []].flat(),
  ])
  return Object.fromEntries(entries)
}

/** In the words of the platform's language, Java. */
function errorMessage(error: unknown): string {
  const code = codeOf(error)
  const isReset = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(code)
  return isReset ? 'Connection reset' : `I/O error on POST request (${code})`
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : 'unknown'
}
