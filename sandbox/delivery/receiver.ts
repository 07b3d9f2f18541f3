// The built-in subscriber: takes deliveries, counts them, and fails on request in every way a receiver can fail.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { z } from 'zod'
import type { Clock } from '../../src/runtime/clock.ts'
import type { Sequence } from '../records/hash.ts'
import { closeServer, listen, readBody } from '../api/http.ts'
import { count, httpStatus, names, share } from '../fields.ts'
import { deliveryHeader, eventTypeOf, type Courier } from './post.ts'
import { noResult } from '../records/store.ts'

/** Rule for matching deliveries; all given conditions must hold. */
export const receiverRuleSchema = z.strictObject({
  /** The connection is reset. */
  connection: z.literal('reset').optional(),
  /** Default 500, if the rule does not reset. */
  status: httpStatus.optional(),
  body: z.string().optional(),
  headers: z.record(z.string(), z.union([z.string(), z.array(z.string())])).optional(),
  eventTypes: names.optional(),
  subscriptionIds: names.optional(),
  webhookIds: names.optional(),
  /** Share of the deliveries that is hit; default 1. */
  probability: share.optional(),
  /** Hits at most this many deliveries. */
  count: count.optional(),
})

export type ReceiverRule = z.infer<typeof receiverRuleSchema>

export interface ReceiverCounts {
  /** Deliveries that reached the receiver, with any result. */
  received: number
  /** Answered 2xx. */
  accepted: number
  /** Webhooks of which at least one delivery was answered 2xx. */
  webhooks: number
  /** Webhooks answered 2xx more than once. */
  repeated: number
}

export interface Receiver {
  readonly url: string
  /** Answers 200 while the receiver is up; no rule matches it. */
  readonly healthUrl: string
  readonly isUp: boolean
  /** Takes deliveries by function call, without a socket. */
  readonly courier: Courier
  /** Every connection is reset as soon as it asks for something. */
  down(): void
  /** Undoes `down`; the rules stay. */
  up(): void
  /** Adds a rule; the first one that matches counts. The function returned takes it away. */
  fail(rule: ReceiverRule): () => void
  /** Takes all rules away. */
  heal(): void
  counts(): ReceiverCounts
  /** When deliveries of this webhook were answered 2xx, epoch milliseconds of the given clock, oldest first. */
  deliveries(webhookId: string): readonly number[]
  /** Forgets all deliveries, rules and `down`. */
  reset(): void
  close(): Promise<void>
}

/** Beyond this many webhooks only totals are kept. */
const keptWebhooks = 2_000_000

interface Delivery {
  webhookId: string
  eventType: string
  subscriptionId: string
}

type Response = 'reset' | { status: number; headers: Record<string, string | string[]>; body: string }

export interface ReceiverOptions {
  clock: Clock
  random: Sequence
  /** Where it listens; undefined: nowhere, it is reached by its courier alone. */
  listen: { host: string; port: number } | undefined
}

export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { clock, random } = options
  const times = new Map<string, number | number[]>()
  let rules: { rule: ReceiverRule; hits: number }[] = []
  let isUp = true
  let received = 0
  let accepted = 0
  let repeated = 0

  function note(webhookId: string): void {
    accepted++
    const known = times.get(webhookId)
    if (known === undefined) {
      if (times.size < keptWebhooks) times.set(webhookId, clock.now())
    } else if (typeof known === 'number') {
      repeated++
      times.set(webhookId, [known, clock.now()])
    } else known.push(clock.now())
  }

  function ruleFor(delivery: Delivery): ReceiverRule | undefined {
    const found = rules.find(
      ({ rule, hits }) =>
        hits < (rule.count ?? Infinity) && matches(rule, delivery) && random.chance(rule.probability ?? 1),
    )
    if (found !== undefined) found.hits++
    return found?.rule
  }

  /** Answers one delivery. `readDelivery` is not called while the receiver is down. */
  async function take(readDelivery: () => Delivery | Promise<Delivery>): Promise<Response> {
    received++
    if (!isUp) return 'reset'
    const delivery = await readDelivery()
    const rule = ruleFor(delivery)
    if (rule?.connection !== undefined) return rule.connection
    const status = rule === undefined ? 200 : (rule.status ?? 500)
    if (status >= 200 && status < 300) note(delivery.webhookId)
    const body = rule?.body ?? (status < 300 ? '{"received":true}' : `{"error":${status}}`)
    return { status, headers: { 'content-type': 'application/json', ...rule?.headers }, body }
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === '/health') {
      answer(request, response, isUp ? { status: 200, headers: {}, body: 'ok' } : 'reset')
      return
    }
    const readDelivery = async (): Promise<Delivery> => {
      await readBody(request)
      return deliveryOf(request)
    }
    answer(request, response, await take(readDelivery))
  }

  async function open({ host, port }: { host: string; port: number }): Promise<string> {
    const server = createServer((request, response) => {
      response.sendDate = false
      response.setHeader('date', new Date(clock.now()).toUTCString())
      const { socket } = request
      handle(request, response).catch(() => {
        socket.destroy()
      })
    })
    const origin = await listen(server, host, port)
    opened.defer(() => closeServer(server))
    return origin
  }

  const opened = new AsyncDisposableStack()
  const url = options.listen === undefined ? 'http://receiver.invalid' : await open(options.listen)

  return {
    url: `${url}/webhooks`,
    healthUrl: `${url}/health`,
    courier: {
      async deliver({ webhookId, subscriptionId, payload, signal }) {
        const eventType = eventTypeOf(payload)
        const response = await take(() => ({ webhookId, eventType, subscriptionId }))
        signal.throwIfAborted()
        if (response === 'reset') throw Object.assign(new Error('connection reset'), { code: 'ECONNRESET' })
        const { status, headers, body } = response
        const entries = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value].flat()])
        return {
          ...noResult,
          responseStatusCode: status,
          responsePayload: body,
          responseHeaders: Object.fromEntries(entries) as Record<string, string[]>,
        }
      },
      close: () => Promise.resolve(),
    },
    get isUp() {
      return isUp
    },
    down() {
      isUp = false
    },
    up() {
      isUp = true
    },
    fail(rule) {
      const entry = { rule, hits: 0 }
      rules.push(entry)
      return () => {
        rules = rules.filter((other) => other !== entry)
      }
    },
    heal() {
      rules = []
    },
    counts: () => ({ received, accepted, webhooks: times.size, repeated }),
    deliveries: (webhookId) => [times.get(webhookId.toLowerCase()) ?? []].flat(),
    reset() {
      times.clear()
      rules = []
      isUp = true
      received = accepted = repeated = 0
    },
    close: () => opened.disposeAsync(),
  }
}

/** A reset comes during a request, never on an idle connection, so that the sender sees it with this delivery. */
function answer(request: IncomingMessage, response: ServerResponse, given: Response): void {
  if (given === 'reset') {
    request.socket.resetAndDestroy()
    return
  }
  const { status, headers, body } = given
  response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body)
}

function deliveryOf(request: IncomingMessage): Delivery {
  const header = (name: string): string => [request.headers[name] ?? ''].flat().join()
  return {
    webhookId: header(deliveryHeader.webhookId),
    eventType: header(deliveryHeader.eventType),
    subscriptionId: header(deliveryHeader.subscriptionId),
  }
}

function matches(rule: ReceiverRule, delivery: Delivery): boolean {
  return (
    (rule.eventTypes?.includes(delivery.eventType) ?? true) &&
    (rule.subscriptionIds?.includes(delivery.subscriptionId) ?? true) &&
    (rule.webhookIds?.includes(delivery.webhookId) ?? true)
  )
}
