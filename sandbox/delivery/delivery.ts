// Sends events to their subscribers and records what came of it: first deliveries, retries, and the platform's own retries.
import type { Clock } from '../../src/runtime/clock.ts'
import type { Readings } from '../options.ts'
import { post, type Courier } from './post.ts'
import { renderPayload } from '../records/render.ts'
import type { Stats } from '../api/stats.ts'

import type { AttemptResult, StoredRecord } from '../records/store.ts'
import type { Zone } from '../records/zone.ts'

export interface DeliveryOptions {
  clock: Clock
  stats: Stats
  zone: Zone
  readings: () => Readings
  /** The API's time, epoch milliseconds. */
  now: () => number
  /** Takes the events out; closed with the engine. */
  courier: Courier
  receiverUrl: string
}

export interface DeliveryEngine {
  /** Takes a failed record on again, at once. Resolves when its result is recorded, or at once when it is delivered later. */
  retry(record: StoredRecord): Promise<void>
  /** Delivers a `processing` record for the first time; resolves when its result is recorded. */
  first(record: StoredRecord): Promise<void>
  /** Resolves when no delivery is under way or waits for its delay. The platform's own later retries do not count. */
  idle(): Promise<void>
  /** Drops what is under way. */
  close(): Promise<void>
}

export function createDeliveryEngine(options: DeliveryOptions): DeliveryEngine {
  const { clock, courier, stats, zone, readings } = options
  const closing = new AbortController()
  const waiting: (() => void)[] = []
  let underWay = 0

  function begin(record: StoredRecord, counts = true): void {
    record.status = 'processing'
    if (readings().countedAt === 'start') countAttempt(record, counts)
  }

  /** Sub-millisecond digits are made up: a clock of milliseconds has none. */
  function countAttempt(record: StoredRecord, counts: boolean): void {
    if (counts) record.attempts++
    record.lastAttemptMicros = zone.local(options.now()) + ((record.random + record.attempts) % 1000)
  }

  /** True when it arrived. */
  async function attempt(record: StoredRecord, counts = true): Promise<boolean> {
    const { eventId, id: webhookId, subscriptionId } = record
    record.result = await post(courier, {
      url: options.receiverUrl,
      webhookId,
      eventId,
      subscriptionId,
      payload: renderPayload(record),
      signal: closing.signal,
    })
    if (readings().countedAt === 'end') countAttempt(record, counts)
    const arrived = succeeded(record.result)
    record.status = arrived ? 'successful' : 'failed'
    return arrived
  }

  /** Runs one delivery in the accounts of `idle` and the statistics. Resolves to undefined when the sandbox closes. */
  async function account(work: () => Promise<boolean>): Promise<boolean | undefined> {
    underWay++
    stats.deliveryStarted()
    let result: boolean | undefined
    try {
      result = await work()
    } catch (error) {
      if (!closing.signal.aborted) throw error
    } finally {
      stats.deliveryEnded(result)
      if (--underWay === 0) for (const resolve of waiting.splice(0)) resolve()
    }
    return result
  }

  async function automaticRetries(record: StoredRecord): Promise<void> {
    const { automaticRetries: plan } = readings()
    for (const delayMs of plan?.delaysMs ?? []) {
      if (plan?.status === 'processing') record.status = 'processing'
      await clock.sleep(delayMs, closing.signal)
      // A client may have retried it meanwhile.
      if (record.status !== plan?.status) return
      begin(record)
      const delivered = await account(() => attempt(record))
      if (delivered !== false) return
    }
  }

  /** Background work must not reject: it ends when the sandbox closes. */
  function detach(work: Promise<unknown>): void {
    work.catch((error: unknown) => {
      if (!closing.signal.aborted) throw error
    })
  }

  return {
    async retry(record) {
      const { mode, delayMs, meanwhile } = readings().delivery
      const waitsFailed = mode === 'async' && meanwhile === 'failed'
      if (!waitsFailed) begin(record)
      const done = account(async () => {
        if (delayMs > 0) await clock.sleep(delayMs, closing.signal)
        if (waitsFailed) begin(record)
        return attempt(record)
      })
      if (mode === 'sync') await done
      else detach(done)
    },
    async first(record) {
      const counts = readings().counting === 'attempts'
      begin(record, counts)
      const arrived = await account(() => attempt(record, counts))
      if (arrived === false) detach(automaticRetries(record))
    },
    async idle() {
      if (underWay > 0) await new Promise<void>((resolve) => waiting.push(resolve))
    },
    async close() {
      closing.abort(new Error('the sandbox is closing'))
      for (const resolve of waiting.splice(0)) resolve()
      await courier.close()
    },
  }
}

function succeeded({ responseStatusCode }: AttemptResult): boolean {
  return responseStatusCode !== null && responseStatusCode >= 200 && responseStatusCode < 300
}
