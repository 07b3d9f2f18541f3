// Faults that can be switched on and off while the sandbox runs: which there are, and which calls they hit.
import { z } from 'zod'
import { count, headers, httpStatus, milliseconds, names, share } from '../fields.ts'
import type { Sequence } from '../records/hash.ts'
import type { SandboxRequest } from './http.ts'

const faultSchema = z.discriminatedUnion('kind', [
  /** The call takes this long more. */
  z.strictObject({ kind: z.literal('latency'), ms: milliseconds }),
  /** Any status instead of the response. `applied`: after the call has done its work. `code` stands in an `error` body. */
  z.strictObject({
    kind: z.literal('status'),
    status: httpStatus,
    body: z
      .union([
        z.enum(['error', 'html', 'empty']),
        z.strictObject({ text: z.string(), contentType: z.string().optional() }),
      ])
      .optional(),
    code: z.string().optional(),
    headers: headers.optional(),
    applied: z.boolean().optional(),
  }),
  /** The connection is reset, before or after the call has done its work. */
  z.strictObject({ kind: z.literal('reset'), when: z.enum(['before', 'after']) }),
  /** No response, ever; the work is done all the same when `applied`. */
  z.strictObject({ kind: z.literal('hang'), applied: z.boolean().optional() }),
  /** Content-Length promises all, half of it comes, then the connection ends. */
  z.strictObject({ kind: z.literal('cut') }),
  /** The body comes in pieces. */
  z.strictObject({ kind: z.literal('drip'), bytes: z.number().int().min(1), everyMs: milliseconds }),
  /** The body is JSON that ends in the middle; the HTTP message is whole. */
  z.strictObject({ kind: z.literal('broken-json') }),
  /** The body is followed by spaces up to this many MiB. */
  z.strictObject({ kind: z.literal('huge-body'), mebibytes: z.number().min(0).max(512) }),
  /** The response to a retry shows a record with another id. */
  z.strictObject({ kind: z.literal('wrong-id') }),
])

export type Fault = z.infer<typeof faultSchema>

/** Which calls a fault hits. `api` is list and retry. */
export const faultRuleSchema = z.strictObject({
  operation: z.enum(['token', 'list', 'retry', 'api', 'any']),
  fault: faultSchema,
  /** Share of the calls that are hit; default 1. */
  probability: share.optional(),
  /** Lets this many calls pass first; default 0. */
  skip: count.optional(),
  /** Hits at most this many calls; default no limit. */
  count: count.optional(),
  /** Hits only retries of these webhooks. */
  webhookIds: names.optional(),
})

export interface FaultRule extends z.infer<typeof faultRuleSchema> {
  /** In-process only: hits only requests that this accepts. */
  when?: (request: SandboxRequest) => boolean
}

export interface Faults {
  /** Replaces all rules. */
  set(...rules: readonly FaultRule[]): void
  /** Calls hit since the start, by kind of fault. */
  hits(): Record<string, number>
  rules(): readonly FaultRule[]
  /** The faults that hit this call; counts them. */
  draw(request: SandboxRequest): readonly Fault[]
}

interface Armed {
  rule: FaultRule
  seen: number
  hit: number
}

export function createFaults(random: Sequence, initial: readonly FaultRule[] = []): Faults {
  let armed: Armed[] = initial.map(arm)
  const hitsByKind = new Map<string, number>()

  return {
    set(...rules) {
      armed = rules.map(arm)
    },
    hits: () => Object.fromEntries(hitsByKind),
    rules: () => armed.map(({ rule }) => rule),
    draw(request) {
      const drawn: Fault[] = []
      for (const entry of armed) {
        const { rule } = entry
        if (!concerns(rule, request)) continue
        if (entry.seen++ < (rule.skip ?? 0) || entry.hit >= (rule.count ?? Infinity)) continue
        if (!random.chance(rule.probability ?? 1)) continue
        entry.hit++
        hitsByKind.set(rule.fault.kind, (hitsByKind.get(rule.fault.kind) ?? 0) + 1)
        drawn.push(rule.fault)
      }
      return drawn
    },
  }
}

function arm(rule: FaultRule): Armed {
  return { rule, seen: 0, hit: 0 }
}

function concerns(rule: FaultRule, request: SandboxRequest): boolean {
  const { operation } = request
  const aimed =
    rule.operation === operation ||
    (rule.operation === 'api' && (operation === 'list' || operation === 'retry')) ||
    (rule.operation === 'any' && operation !== 'other')
  return aimed && isNamed(rule, request.webhookId) && (rule.when?.(request) ?? true)
}

function isNamed({ webhookIds }: FaultRule, id: string | undefined): boolean {
  return webhookIds === undefined || (id !== undefined && webhookIds.includes(id.toLowerCase()))
}
