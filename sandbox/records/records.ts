// The handle on the sandbox's records: adds them, lets events happen, and looks at them from outside the API.
import { z } from 'zod'
import type { Clock } from '../../src/runtime/clock.ts'
import { webhookStatuses, type WebhookStatus, type WireWebhook } from '../../src/platform/wire.ts'
import { someNames } from '../fields.ts'
import type { World } from '../world.ts'
import { createSequence, hash } from './hash.ts'
import { knownEventTypes } from './payload.ts'
import { renderRecord } from './render.ts'
import {
  newRecord,
  seedRecords,
  subscriptionIds,
  webhookSchema,
  type SeedOptions,
  type WebhookOptions,
} from './seed.ts'
import type { StoredRecord } from './store.ts'

/** Result of `seed`. */
export interface Seeded {
  count: number
  /** Id of the n-th of them, in the order of their event times. Throws RangeError when there is none. */
  id(position: number): string
  ids(): string[]
}

export const eventSchema = webhookSchema.pick({
  subscriptionId: true,
  eventType: true,
  eventInstant: true,
  requestPayload: true,
})

export type EventOptions = z.infer<typeof eventSchema>

export const trafficSchema = z.strictObject({
  /** Events per second; 0 stops them. */
  perSecond: z.number().min(0).max(10_000),
  /** Default: those that `seed` makes by default. */
  subscriptionIds: someNames.optional(),
  /** Default: the four that the specification knows. */
  eventTypes: someNames.optional(),
})

export type TrafficOptions = z.infer<typeof trafficSchema>

export interface Records {
  /** Adds many made-up records; no delivery is made for them. */
  seed(options: SeedOptions): Seeded
  /** Adds one given record, without a delivery. Returns its id. */
  addWebhook(options?: WebhookOptions): string
  /** An event happens: its record is `processing` and delivered for the first time. Returns the record's id. */
  emit(options?: EventOptions): string
  /** Events happen at this rate until the function returned is called, or the sandbox is reset or closed. */
  startTraffic(options: TrafficOptions): () => void
  /** The record as the platform would show it. */
  record(id: string): WireWebhook | undefined
  counts(): Record<WebhookStatus, number>
  /** Number of records by subscription or event type, of one status or of all. */
  countBy(what: 'subscriptionId' | 'eventType', status?: WebhookStatus): Record<string, number>
  /** How many retries of this record the platform accepted. */
  acceptedRetries(id: string): number
  /** Ids of the records of which more than one retry was accepted. */
  retriedMoreThanOnce(): string[]
}

/** `world` is that of the moment: a reset makes another. */
export function createRecords(world: () => World, clock: Clock, signal: AbortSignal): Records {
  function add(options: WebhookOptions): StoredRecord {
    const mine = world()
    const record = newRecord(options, { ...mine, now: mine.now() })
    mine.store.add([record])
    return record
  }

  function emit(options: EventOptions = {}): string {
    const record = add({ ...options, status: 'processing', lastAttempt: null })
    void world().engine.first(record)
    return record.id
  }

  return {
    seed(options) {
      const mine = world()
      const records = seedRecords(options, { ...mine, now: mine.now() })
      mine.store.add(records)
      return {
        count: records.length,
        id(position) {
          const record = records[position]
          if (record === undefined) throw new RangeError(`no record ${position} of ${records.length} was seeded`)
          return record.id
        },
        ids: () => records.map(({ id }) => id),
      }
    },
    addWebhook: (options = {}) => add(options).id,
    emit,
    startTraffic: (options) => startTraffic(options, { world, clock, signal, emit }),
    record(id) {
      const { store, readings } = world()
      const record = store.find(id)
      return record === undefined ? undefined : renderRecord(record, readings())
    },
    counts() {
      const counts = countBy(world().store.inOrder('event'), 'status')
      const entries = webhookStatuses.map((status) => [status, counts[status] ?? 0])
      return Object.fromEntries(entries) as Record<WebhookStatus, number>
    },
    countBy(what, status) {
      const all = world().store.inOrder('event')
      return countBy(status === undefined ? all : all.filter((record) => record.status === status), what)
    },
    acceptedRetries: (id) => world().store.find(id)?.acceptedRetries ?? 0,
    retriedMoreThanOnce() {
      const all = world().store.inOrder('event')
      return all.filter(({ acceptedRetries }) => acceptedRetries > 1).map(({ id }) => id)
    },
  }
}

function countBy(
  records: readonly StoredRecord[],
  what: 'subscriptionId' | 'eventType' | 'status',
): Record<string, number> {
  const counts = new Map<string, number>()
  for (const record of records) counts.set(record[what], (counts.get(record[what]) ?? 0) + 1)
  return Object.fromEntries(counts)
}

interface TrafficSource {
  world: () => World
  clock: Clock
  signal: AbortSignal
  emit: (options: EventOptions) => string
}

/** Overdue events come at most so many at once: where the machine is too slow for the rate, requests and timers get their turn. */
const maxBurst = 50

function startTraffic(options: TrafficOptions, { world, clock, signal, emit }: TrafficSource): () => void {
  const mine = world()
  const stop = new AbortController()
  const until = AbortSignal.any([signal, stop.signal])
  const random = createSequence(hash(mine.seed, 0x74726166))
  const subscriptions = options.subscriptionIds ?? subscriptionIds(mine.seed)
  const eventTypes = options.eventTypes ?? knownEventTypes

  async function run(): Promise<void> {
    const startedAt = clock.monotonic()
    for (let count = 1; ; count++) {
      const dueInMs = startedAt + (count * 1000) / options.perSecond - clock.monotonic()
      await clock.sleep(count % maxBurst === 0 ? Math.max(1, dueInMs) : dueInMs, until)
      if (until.aborted || world() !== mine) return
      emit({
        subscriptionId: subscriptions[random.below(subscriptions.length)],
        eventType: eventTypes[random.below(eventTypes.length)],
      })
    }
  }

  run().catch((error: unknown) => {
    if (!until.aborted) throw error
  })
  return () => {
    stop.abort()
  }
}
