// Faults, and rules for the calls that they hit; both can change while the sandbox runs.
import { z } from 'zod'
import { count, headers, httpStatus, milliseconds, names, share } from '../fields.ts'
import type { Sequence } from '../records/hash.ts'
import type { SandboxRequest } from './http.ts'

const faultSchema = z.discriminatedUnion('kind', [
  /** Delays the call. */
  z.strictObject({ kind: z.literal('latency'), ms: milliseconds }),
  /** Replaces the response. `applied`: after the call's work is done. `code`: that of an `error` body. */
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
  /** Resets the connection, before or after the call's work. */
  z.strictObject({ kind: z.literal('reset'), when: z.enum(['before', 'after']) }),
  /** Never responds; `applied`: but does the call's work. */
  z.strictObject({ kind: z.literal('hang'), applied: z.boolean().optional() }),
  /** Closes the connection after half of the announced body. */
  z.strictObject({ kind: z.literal('cut') }),
  /** Sends the body in small pieces. */
  z.strictObject({ kind: z.literal('drip'), bytes: z.number().int().min(1), everyMs: milliseconds }),
  /** Truncates the JSON; the HTTP message is complete. */
  z.strictObject({ kind: z.literal('broken-json') }),
  /** Pads the body with spaces to this many MiB. */
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
