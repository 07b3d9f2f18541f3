// Faults that can be switched on and off while the sandbox runs: which there are, and which calls they hit.
import type { Operation, SandboxRequest } from './exchange.ts'
import type { Sequence } from './hash.ts'

/** How `Retry-After` tells a time: in seconds, as an HTTP date, or not at all. */
export type RetryAfter = { seconds: number; form?: 'seconds' | 'date' } | 'absent'

export type FaultBody = 'error' | 'html' | 'empty' | { text: string; contentType?: string }

export type Fault =
  /** The call takes this long more; `maxMs`: uniformly up to that. */
  | { kind: 'latency'; ms: number; maxMs?: number }
  /** Any status instead of the answer. `applied`: after the call has done its work, else before. `code` stands in an `error` body. */
  | {
      kind: 'status'
      status: number
      body?: FaultBody
      code?: string
      headers?: Record<string, string>
      applied?: boolean
    }
  /** 429, or another status, with Retry-After. */
  | { kind: 'throttle'; retryAfter: RetryAfter; status?: number }
  /** The connection is reset, before or after the call has done its work. */
  | { kind: 'reset'; when: 'before' | 'after' }
  /** No answer, ever; the work is done all the same when `applied`. */
  | { kind: 'hang'; applied?: boolean }
  /** Content-Length promises all, this share of it comes (default 0.5), then the connection ends. */
  | { kind: 'cut'; share?: number }
  /** The body comes in pieces (default 16 bytes each 100 ms). */
  | { kind: 'drip'; bytes?: number; everyMs?: number }
  /** The body is JSON that ends in the middle; the HTTP message is whole. */
  | { kind: 'broken-json' }
  /** The body is followed by spaces up to this many MiB. */
  | { kind: 'huge-body'; mebibytes: number }
  /** Default 302. */
  | { kind: 'redirect'; location: string; status?: number }
  /** `expires_in` of a token answer: any JSON value, undefined leaves it out. */
  | { kind: 'expires-in'; value?: unknown }
  /** The token endpoint refuses with this OAuth error (default `invalid_client`, 401). */
  | { kind: 'refuse-token'; error?: string; description?: string; status?: number }
  /** The answer to a retry shows a record with another id. */
  | { kind: 'wrong-id' }
  /** The answer has these headers too, such as `age`, or instead of its own. Names in lower case. */
  | { kind: 'headers'; headers: Record<string, string> }
  /** The answer has no `Date` header. */
  | { kind: 'no-date' }
  /** Deliveries only: never ends, so that the record stays `processing`. */
  | { kind: 'stuck' }

/** `api` is list and retry; `delivery` is a POST to a subscriber (`latency` and `stuck` only). */
export type FaultTarget = Exclude<Operation, 'other'> | 'api' | 'any' | 'delivery'

export interface FaultRule {
  operation: FaultTarget
  fault: Fault
  /** Share of the calls that are hit, 0 to 1; default 1. */
  probability?: number
  /** Lets this many calls pass first; default 0. */
  skip?: number
  /** Hits at most this many calls; default no limit. */
  count?: number
  /** Hits only retries and deliveries of these webhooks. */
  webhookIds?: readonly string[]
  /** In-process only: hits only requests that this accepts. */
  when?: (request: SandboxRequest) => boolean
}

export interface Faults {
  /** Replaces all rules. */
  set(...rules: readonly FaultRule[]): void
  /** Adds one; the function returned takes it away again. */
  add(rule: FaultRule): () => void
  /** Takes all rules away, or those of one target. */
  clear(target?: FaultTarget): void
  /** Calls hit since the start, by kind of fault. */
  hits(): Record<string, number>
  rules(): readonly FaultRule[]
}

export interface FaultDraw {
  /** The faults that hit this call; counts them. */
  forRequest(request: SandboxRequest): readonly Fault[]
  forDelivery(webhookId: string): readonly Fault[]
}

interface Armed {
  rule: FaultRule
  seen: number
  hit: number
}

export function createFaults(random: Sequence, initial: readonly FaultRule[] = []): Faults & FaultDraw {
  let armed: Armed[] = initial.map(arm)
  const hitsByKind = new Map<string, number>()

  function draw(matches: (rule: FaultRule) => boolean): Fault[] {
    const drawn: Fault[] = []
    for (const entry of armed) {
      const { rule } = entry
      if (!matches(rule)) continue
      if (entry.seen++ < (rule.skip ?? 0) || entry.hit >= (rule.count ?? Infinity)) continue
      if (!random.chance(rule.probability ?? 1)) continue
      entry.hit++
      hitsByKind.set(rule.fault.kind, (hitsByKind.get(rule.fault.kind) ?? 0) + 1)
      drawn.push(rule.fault)
    }
    return drawn
  }

  return {
    set(...rules) {
      armed = rules.map(arm)
    },
    add(rule) {
      const entry = arm(rule)
      armed.push(entry)
      return () => {
        armed = armed.filter((other) => other !== entry)
      }
    },
    clear(target) {
      armed = target === undefined ? [] : armed.filter(({ rule }) => rule.operation !== target)
    },
    hits: () => Object.fromEntries(hitsByKind),
    rules: () => armed.map(({ rule }) => rule),
    forRequest: (request) => draw((rule) => concerns(rule, request)),
    forDelivery: (webhookId) => draw((rule) => rule.operation === 'delivery' && names(rule, webhookId)),
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
  return aimed && names(rule, request.webhookId) && (rule.when?.(request) ?? true)
}

function names({ webhookIds }: FaultRule, id: string | undefined): boolean {
  return webhookIds === undefined || (id !== undefined && webhookIds.includes(id.toLowerCase()))
}
