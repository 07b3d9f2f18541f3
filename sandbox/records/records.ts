// Access to the sandbox's records outside of the API: adds them, creates events, and reads them.
import { z } from 'zod'
import type { Clock } from '../../src/runtime/clock.ts'
import { webhookStatuses, type WebhookStatus } from '../../src/platform/wire.ts'
import type { WireWebhook } from '../api/wire.ts'
import type { SandboxPlatform } from '../api/routes.ts'
import { someNames } from '../fields.ts'
import { createSequence } from './hash.ts'
import { knownEventTypes } from './payload.ts'
import { renderRecord } from './render.ts'
import { newRecord, seedRecords, subscriptionIds, type SeedOptions, type WebhookOptions } from './seed.ts'
import type { StoredRecord } from './store.ts'

export type EventOptions = Pick<WebhookOptions, 'eventInstant' | 'eventType' | 'subscriptionId'>

export const trafficSchema = z.strictObject({
  /** Events per second. */
  perSecond: z.number().positive().max(1000),
  /** Default: those that `seed` makes by default. */
  subscriptionIds: someNames.optional(),
})

export type TrafficOptions = z.infer<typeof trafficSchema>

export interface Records {
  /** Adds invented records, without deliveries. Returns their ids in the order of their event times. */
  seed(options: SeedOptions): string[]
  /** Adds one given record, without a delivery. Returns its id. */
  addWebhook(options?: WebhookOptions): string
  /** Creates an event and delivers it for the first time. Returns the record's id. */
  emit(options?: EventOptions): string
  /** Creates events at this rate until the sandbox is closed. */
  startTraffic(options: TrafficOptions): void
  /** The record as the platform would show it. */
  record(id: string): WireWebhook | undefined
  counts(): Record<WebhookStatus, number>
  /** Number of accepted retries of this record. */
  acceptedRetries(id: string): number
}

export function createRecords(platform: SandboxPlatform, clock: Clock, signal: AbortSignal): Records {
  const { engine, ledger, readings, store, zone } = platform

  /** Records that were delivered before the sandbox began: the receiver has processed them. */
  function enterDelivered(records: readonly StoredRecord[]): void {
    const offsetMs = zone.local(clock.now()) / 1000 - clock.now()
    for (const { id, lastAttemptMicros, status } of records)
      if (status === 'successful') ledger.enter(id, (lastAttemptMicros ?? 0) / 1000 - offsetMs)
  }

  function add(options: WebhookOptions): StoredRecord {
    const record = newRecord(options, { ...platform, now: platform.now() })
    store.add([record])
    return record
  }

  function emit(options: EventOptions = {}): string {
    const record = add({ ...options, status: 'processing', lastAttempt: null })
    engine.first(record)
    return record.id
  }

  async function makeTraffic({ perSecond, subscriptionIds: given }: TrafficOptions): Promise<void> {
    const random = createSequence(4)
    const subscriptions = given ?? subscriptionIds()
    const startedAt = clock.monotonic()
    for (let count = 1; !signal.aborted; count++) {
      // Never at once: requests and timers get their turn even if the machine is too slow for the rate.
      await clock.sleep(Math.max(1, startedAt + (count * 1000) / perSecond - clock.monotonic()), signal)
      emit({
        subscriptionId: subscriptions[random.below(subscriptions.length)],
        eventType: random.pick(knownEventTypes),
      })
    }
  }

  return {
    seed(options) {
      const records = seedRecords(options, { ...platform, now: platform.now() })
      store.add(records)
      enterDelivered(records)
      return records.map(({ id }) => id)
    },
    addWebhook(options = {}) {
      const record = add(options)
      enterDelivered([record])
      return record.id
    },
    emit,
    startTraffic(options) {
      makeTraffic(options).catch((error: unknown) => {
        if (!signal.aborted) throw error
      })
    },
    record(id) {
      const record = store.find(id)
      return record === undefined ? undefined : renderRecord(record, readings())
    },
    counts() {
      const byStatus = Map.groupBy(store.all, ({ status }) => status)
      const entries = webhookStatuses.map((status) => [status, byStatus.get(status)?.length ?? 0])
      return Object.fromEntries(entries) as Record<WebhookStatus, number>
    },
    acceptedRetries: (id) => store.find(id)?.acceptedRetries ?? 0,
  }
}
