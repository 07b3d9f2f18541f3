// The built-in subscriber: receives deliveries by function call, counts them, and fails on request.
import { z } from 'zod'
import { count, httpStatus, names, share } from '../fields.ts'
import type { Sequence } from '../records/hash.ts'
import { noResult, type AttemptResult, type StoredRecord } from '../records/store.ts'

/** Rule for matching deliveries; all given conditions must hold. */
export const receiverRuleSchema = z.strictObject({
  /** Default 500. */
  status: httpStatus.optional(),
  body: z.string().optional(),
  /** Names in lower case. */
  headers: z.record(z.string(), z.string()).optional(),
  eventTypes: names.optional(),
  subscriptionIds: names.optional(),
  webhookIds: names.optional(),
  /** Acknowledged with 2xx (200 by default), and then lost: not processed. */
  lost: z.literal(true).optional(),
  /** Share of the affected deliveries; default 1. */
  probability: share.optional(),
  /** Maximum number of affected deliveries. */
  count: count.optional(),
})

export type ReceiverRule = z.infer<typeof receiverRuleSchema>

interface ReceiverCounts {
  /** Deliveries with any result. */
  received: number
  /** Webhooks with at least one delivery that got a 2xx. */
  webhooks: number
  /** Further deliveries with a 2xx of webhooks that had already arrived. */
  repeated: number
}

export interface Receiver {
  readonly isUp: boolean
  /** Receives a delivery; returns its result as the record shows it. */
  take(record: StoredRecord): AttemptResult
  /** Resets every connection at its first request. */
  down(): void
  /** Ends `down`; the rules stay. */
  up(): void
  /** Adds a rule; the first matching one applies. */
  fail(rule: ReceiverRule): void
  /** Removes all rules. */
  heal(): void
  counts(): ReceiverCounts
  /** Number of deliveries of this webhook that got a 2xx. */
  deliveries(webhookId: string): number
}

/** As Java, the platform's language, words it. */
const connectionReset: AttemptResult = { ...noResult, lastAttemptErrorMessage: 'Connection reset' }

/** `process`: called with each delivery that got a 2xx and was not lost. */
export function createReceiver(random: Sequence, process: (id: string) => void = () => undefined): Receiver {
  const arrived = new Map<string, number>()
  let rules: { rule: ReceiverRule; hits: number }[] = []
  let isUp = true
  let received = 0
  let repeated = 0

  function ruleFor(record: StoredRecord): ReceiverRule | undefined {
    const found = rules.find(
      ({ rule, hits }) =>
        hits < (rule.count ?? Infinity) && matches(rule, record) && random.chance(rule.probability ?? 1),
    )
    if (found !== undefined) found.hits++
    return found?.rule
  }

  return {
    get isUp() {
      return isUp
    },
    take(record) {
      received++
      if (!isUp) return connectionReset
      const rule = ruleFor(record)
      const isLost = rule?.lost === true
      const {
        status = 500,
        headers = {},
        body = `{"error":${status}}`,
      } = { ...(isLost ? accepted : {}), ...(rule ?? accepted) }
      if (status >= 200 && status < 300) {
        const before = arrived.get(record.id) ?? 0
        if (before > 0) repeated++
        arrived.set(record.id, before + 1)
        if (!isLost) process(record.id)
      }
      const all = Object.entries({ 'content-type': 'application/json', ...headers })
      return {
        ...noResult,
        responseStatusCode: status,
        responsePayload: body,
        responseHeaders: Object.fromEntries(all.map(([name, value]) => [name, [value]])),
      }
    },
    down() {
      isUp = false
    },
    up() {
      isUp = true
    },
    fail(rule) {
      rules.push({ rule, hits: 0 })
    },
    heal() {
      rules = []
    },
    counts: () => ({ received, webhooks: arrived.size, repeated }),
    deliveries: (webhookId) => arrived.get(webhookId) ?? 0,
  }
}

/** Response to a delivery without a rule. */
const accepted: ReceiverRule = { status: 200, body: '{"received":true}' }

function matches(rule: ReceiverRule, record: StoredRecord): boolean {
  return (
    (rule.eventTypes?.includes(record.eventType) ?? true) &&
    (rule.subscriptionIds?.includes(record.subscriptionId) ?? true) &&
    (rule.webhookIds?.includes(record.id) ?? true)
  )
}
