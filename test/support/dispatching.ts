// The dispatcher with records in its backlog, and an eye on what is in flight.
import type { WebhookRecord } from '../../src/platform/record.ts'
import { dayMs, learn, listingOf, minuteMs, testNow } from './backlog.ts'
import { accepted, failedRecord } from './fake-platform.ts'
import { reconcile, type Reconcile, type ReconcileOptions } from './reconcile.ts'

/** A subscription by its number. */
export const subscription = (number: number): string => `aaaaaaaa-0000-4000-8000-${String(number).padStart(12, '0')}`

/** Records that are due, one a minute, oldest first. */
export function due(count: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    failedRecord({ eventLocal: testNow - 2 * dayMs + index * minuteMs, ...fields }),
  )
}

/** The dispatcher with these records in its backlog, as if a sweep had brought them. */
export function holding(records: WebhookRecord[], options: ReconcileOptions = {}): Reconcile {
  const world = reconcile({ ...options, records })
  learn(world.backlog, listingOf(records, { askedAt: 0 }), testNow)
  world.planner.changed()
  return world
}

/** Counts what is in flight, of all and of each id. */
export function watching(takesMs: (record: WebhookRecord) => number): {
  onRetry: NonNullable<ReconcileOptions['onRetry']>
  bind: (world: Reconcile) => void
  most: { all: number; ofOneId: number; bySubscription: Map<string, number> }
} {
  const flying: WebhookRecord[] = []
  const most = { all: 0, ofOneId: 0, bySubscription: new Map<string, number>() }
  let world: Reconcile | undefined
  return {
    most,
    bind: (one) => {
      world = one
    },
    async onRetry(record, platform) {
      if (record === undefined) throw new Error('a record that does not exist was retried')
      flying.push(record)
      const of = (key: 'id' | 'subscriptionId'): number => flying.filter((other) => other[key] === record[key]).length
      most.all = Math.max(most.all, flying.length)
      most.ofOneId = Math.max(most.ofOneId, of('id'))
      const before = most.bySubscription.get(record.subscriptionId) ?? 0
      most.bySubscription.set(record.subscriptionId, Math.max(before, of('subscriptionId')))
      await world?.clock.sleep(takesMs(record))
      flying.splice(flying.indexOf(record), 1)
      platform.set(record.id, { status: 'successful' })
      return accepted({ ...record, status: 'successful' })
    },
  }
}

/** How the platform of a test delivers a retry. */
export interface Delivery {
  /** From the PATCH to its end, in ms. */
  takesMs: number
  arrives: boolean
  /** What the receiver answers when it does not. Default 503. */
  statusCode?: number
}

/**
 * A platform that answers a PATCH at once with `processing` and delivers by itself, or with `waits` answers when it has
 * delivered. `of` says how, when the PATCH comes; undefined for a delivery that never ends.
 */
export function delivering(
  of: (record: WebhookRecord) => Delivery | undefined,
  waits = false,
): { onRetry: NonNullable<ReconcileOptions['onRetry']>; bind: (world: Reconcile) => Reconcile } {
  let world: Reconcile | undefined

  async function deliver(
    record: WebhookRecord,
    { arrives, statusCode = 503, takesMs }: Delivery,
  ): Promise<WebhookRecord> {
    await world?.clock.sleep(takesMs)
    const [attempts, lastAttemptLocal] = [record.attempts + 1, world?.clock.now() ?? 0]
    const ended = { attempts, lastAttemptLocal, responseStatusCode: arrives ? 200 : statusCode }
    world?.platform.set(record.id, { ...ended, status: arrives ? 'successful' : 'failed' })
    return { ...record, ...ended, status: arrives ? 'successful' : 'failed' }
  }

  return {
    bind: (one) => (world = one),
    async onRetry(record, platform) {
      if (record?.status !== 'failed') {
        return { result: 'already-resolved', reason: 'conflict', sent: true, found: 'other' }
      }
      const how = of(record)
      platform.set(record.id, { status: 'processing' })
      const done = how && deliver(record, how)
      return accepted(waits ? await done : { ...record, status: 'processing' })
    },
  }
}
