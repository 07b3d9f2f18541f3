// Rate limits of gateways: a token bucket, or a quota for each minute of the clock.
import { z } from 'zod'
import { httpStatus, names } from '../fields.ts'

const common = {
  /** The limited operations. */
  operations: z
    .array(z.enum(['token', 'list', 'retry']))
    .readonly()
    .default(['list', 'retry']),
  /** Limits only retries of webhooks of these subscriptions. */
  subscriptionIds: names.optional(),
  status: httpStatus.default(429),
  /** `exact`: whole seconds until a call is allowed again; a number: always that many seconds. */
  retryAfter: z.union([z.enum(['exact', 'absent']), z.number().min(0)]).default('exact'),
}

export const limitSchema = z.discriminatedUnion('kind', [
  /** Calls per second, and `burst` at once after a rest. */
  z.strictObject({
    kind: z.literal('bucket'),
    perSecond: z.number().positive(),
    burst: z.number().min(1).default(1),
    ...common,
  }),
  /** Calls per minute, which begins at this second. */
  z.strictObject({
    kind: z.literal('quota'),
    perMinute: z.number().int().min(1),
    fromSecond: z.number().min(0).lt(60).default(0),
    ...common,
  }),
])

export type Limit = z.output<typeof limitSchema>

/** Counts the limited calls. */
export interface LimitMeter {
  /** Counts a call at this time, epoch ms. If it is refused, returns the ms until one is allowed. */
  take(now: number): number | undefined
  /** Number of allowed calls. */
  granted(): number
}

const minuteMs = 60_000

export function createLimitMeter(limit: Limit): LimitMeter {
  let granted = 0
  let [level, filledAt] = [limit.kind === 'bucket' ? limit.burst : 0, -Infinity]
  let minute = -Infinity

  function fill(now: number): void {
    if (limit.kind === 'bucket') {
      const gained = filledAt === -Infinity ? 0 : (Math.max(0, now - filledAt) / 1000) * limit.perSecond
      ;[level, filledAt] = [Math.min(limit.burst, level + gained), now]
      return
    }
    const present = Math.floor((now / 1000 - limit.fromSecond) / 60)
    if (present !== minute) [level, minute] = [limit.perMinute, present]
  }

  return {
    take(now) {
      fill(now)
      if (level >= 1 - 1e-9) {
        level -= 1
        granted += 1
        return undefined
      }
      if (limit.kind === 'bucket') return ((1 - level) / limit.perSecond) * 1000
      return (minute + 1) * minuteMs + limit.fromSecond * 1000 - now
    },
    granted: () => granted,
  }
}

/** The `Retry-After` of a 429; undefined for none. */
export function retryAfterOf({ retryAfter }: Limit, waitMs: number): string | undefined {
  if (retryAfter === 'absent') return undefined
  return String(retryAfter === 'exact' ? Math.ceil(waitMs / 1000) : retryAfter)
}
