// The handle on the sandbox's records: adds them, lets events happen, and looks at them from outside the API.
import type { Clock } from '../src/runtime/clock.ts'
import { webhookStatuses, type WebhookStatus, type WireWebhook } from '../src/platform/wire.ts'
import { createSequence, hash } from './hash.ts'
import { knownEventTypes } from './payload.ts'
import { renderRecord } from './render.ts'
import {
  newRecord,
  seedRecords,
  subscriptionIds,
  type SeedContext,
  type SeedOptions,
  type WebhookOptions,
} from './seed.ts'
import type { Store } from './store.ts'
import type { World } from './world.ts'

/** What `seed` added. */
export interface Seeded {
  count: number
  /** Id of the n-th of them, in the order of their event times. Throws RangeError when there is none. */
  id(position: number): string
  ids(): string[]
}

export type EventOptions = Pick<WebhookOptions, 'subscriptionId' | 'eventType' | 'eventInstant' | 'requestPayload'>

export interface TrafficOptions {
  /** Events per second. */
  perSecond: number
  /** Default: those that `seed` makes by default. */
  subscriptionIds?: readonly string[]
  /** Default: the four that the specification knows. */
  eventTypes?: readonly string[]
}

export interface Records {
  /** Adds many made-up records; no delivery is made for them. */
  seed(options: SeedOptions): Seeded
  /** Adds one record as told; no delivery is made for it. Returns its id. */
  addWebhook(options?: WebhookOptions): string
  /** An event happens: its record is `processing` and delivered for the first time. Returns the record's id. */
  emit(options?: EventOptions): string
  /** Events happen at this rate until the function returned is called, or the sandbox is reset or closed. */
  startTraffic(options: TrafficOptions): () => void
  /** The record as the platform would show it. */
  record(id: string): WireWebhook | undefined
  counts(): Record<WebhookStatus, number>
  /** Number of records by subscription or event type, of one status or of all. Walks over all records. */
  countBy(what: 'subscriptionId' | 'eventType', status?: WebhookStatus): Record<string, number>
  /** How many retries of this record the platform accepted. */
  acceptedRetries(id: string): number
  /** Ids of the records of which more than one retry was accepted. Walks over all records. */
  retriedMoreThanOnce(): string[]
}

const everything = { from: -Infinity, to: Infinity }

/** `world` is that of the moment: a reset makes another. */
export function createRecords(world: () => World, clock: Clock, signal: AbortSignal): Records {
  const context = (): SeedContext => {
    const { seed, zone, now } = world()
    return { seed, zone, now: now() }
  }

  function emit(options: EventOptions = {}): string {
    const { store, engine } = world()
    const record = store.add(newRecord({ ...options, status: 'processing', lastAttempt: null }, context()))
    void engine.first(record)
    return store.idOf(record)
  }

  return {
    seed(options) {
      const { store } = world()
      const first = seedRecords(store, options, context())
      const { count } = options
      return {
        count,
        id(position) {
          if (!(position >= 0 && position < count)) throw new RangeError(`no record ${position} of ${count} was seeded`)
          return store.idOf(first + position)
        },
        ids: () => Array.from({ length: count }, (_, position) => store.idOf(first + position)),
      }
    },
    addWebhook(options = {}) {
      const { store } = world()
      return store.idOf(store.add(newRecord(options, context())))
    },
    emit,
    startTraffic: (options) => startTraffic(options, { world, clock, signal, emit }),
    record(id) {
      const { store, seed, readings } = world()
      const record = store.find(id)
      return record === undefined ? undefined : renderRecord(store, record, seed, readings())
    },
    counts() {
      const { byEvent } = world().store
      const entries = webhookStatuses.map((status, code) => [status, byEvent.count(1 << code, everything)])
      return Object.fromEntries(entries) as Record<WebhookStatus, number>
    },
    countBy(what, status) {
      const { store } = world()
      return countBy(store, what === 'eventType' ? store.eventTypeOf : store.subscriptionOf, status)
    },
    acceptedRetries(id) {
      const { store } = world()
      const record = store.find(id)
      return record === undefined ? 0 : store.acceptedOf(record)
    },
    retriedMoreThanOnce() {
      const { store } = world()
      const found: string[] = []
      for (let record = 0; record < store.size; record++)
        if (store.acceptedOf(record) > 1) found.push(store.idOf(record))
      return found
    },
  }
}

function countBy(store: Store, value: (record: number) => string, status?: WebhookStatus): Record<string, number> {
  const counts = new Map<string, number>()
  const code = status === undefined ? undefined : webhookStatuses.indexOf(status)
  for (let record = 0; record < store.size; record++) {
    if (code !== undefined && store.statusOf(record) !== code) continue
    counts.set(value(record), (counts.get(value(record)) ?? 0) + 1)
  }
  return Object.fromEntries(counts)
}

interface TrafficSource {
  world: () => World
  clock: Clock
  signal: AbortSignal
  emit: (options: EventOptions) => string
}

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
      await clock.sleep(startedAt + (count * 1000) / options.perSecond - clock.monotonic(), until)
      if (until.aborted || world() !== mine) return
      const subscriptionId = subscriptions[random.below(subscriptions.length)]
      const eventType = eventTypes[random.below(eventTypes.length)]
      emit({
        ...(subscriptionId === undefined ? {} : { subscriptionId }),
        ...(eventType === undefined ? {} : { eventType }),
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
