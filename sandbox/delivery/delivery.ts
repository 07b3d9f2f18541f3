// Delivers events to their subscriber and records the results: first deliveries, retries, and the platform's own retries.
import type { Clock } from '../../src/runtime/clock.ts'
import type { Stats } from '../api/stats.ts'
import type { Readings } from '../options.ts'
import type { Past } from '../records/past.ts'
import type { StoredRecord } from '../records/store.ts'
import type { Zone } from '../records/zone.ts'
import type { Receiver } from './receiver.ts'

export interface DeliveryOptions {
  clock: Clock
  stats: Stats
  zone: Zone
  readings: () => Readings
  /** The API's time, epoch milliseconds. */
  now: () => number
  receiver: Receiver
  past: Pick<Past, 'keep'>
  /** Drops waiting deliveries. */
  signal: AbortSignal
}

export interface DeliveryEngine {
  /** Retries a failed record. Resolves once its result is recorded, or at once if it is delivered later. */
  retry(record: StoredRecord): Promise<void>
  /** Delivers a record for the first time. */
  first(record: StoredRecord): void
  /** Resolves when no retry waits for its delivery, apart from the platform's own later retries. */
  idle(): Promise<void>
}

export function createDeliveryEngine(options: DeliveryOptions): DeliveryEngine {
  const { clock, past, readings, receiver, signal, stats, zone } = options
  const idlers: (() => void)[] = []
  let waiting = 0

  function begin(record: StoredRecord, counts = true): void {
    past.keep(record)
    record.status = 'processing'
    if (readings().countedAt === 'start') countAttempt(record, counts)
  }

  /** Sub-millisecond digits are invented, because the clock has none. */
  function countAttempt(record: StoredRecord, counts: boolean): void {
    if (counts) record.attempts++
    record.lastAttemptMicros = zone.local(options.now()) + ((record.random + record.attempts) % 1000)
  }

  /** True when it arrived. */
  function attempt(record: StoredRecord, counts = true): boolean {
    past.keep(record)
    record.result = receiver.take(record)
    if (readings().countedAt === 'end') countAttempt(record, counts)
    const { responseStatusCode: status } = record.result
    const arrived = status !== null && status >= 200 && status < 300
    record.status = arrived ? 'successful' : 'failed'
    stats.counts.deliveries[arrived ? 'succeeded' : 'failed']++
    return arrived
  }

  /** Retries a record after a delay. */
  async function retryLater(record: StoredRecord, delayMs: number): Promise<void> {
    waiting++
    try {
      await clock.sleep(delayMs, signal)
      attempt(record)
    } finally {
      if (--waiting === 0) for (const resolve of idlers.splice(0)) resolve()
    }
  }

  async function automaticRetries(record: StoredRecord): Promise<void> {
    const { automaticRetries: plan } = readings()
    for (const delayMs of plan?.delaysMs ?? []) {
      if (plan?.status === 'processing') record.status = 'processing'
      await clock.sleep(delayMs, signal)
      // A client may have retried it meanwhile.
      if (record.status !== plan?.status) return
      begin(record)
      if (attempt(record)) return
    }
  }

  /** Background work must not reject: it ends when the sandbox closes. */
  function detach(work: Promise<unknown>): void {
    work.catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
  }

  return {
    async retry(record) {
      const { mode, delayMs, meanwhile } = readings().delivery
      begin(record)
      // An attempt that counts at its start is shown as failed until it ends.
      if (mode === 'async') record.status = meanwhile
      if (mode === 'async') detach(retryLater(record, delayMs))
      else if (delayMs > 0) await retryLater(record, delayMs)
      else attempt(record)
    },
    first(record) {
      const counts = readings().counting === 'attempts'
      begin(record, counts)
      if (!attempt(record, counts)) detach(automaticRetries(record))
    },
    async idle() {
      if (waiting > 0) await new Promise<void>((resolve) => idlers.push(resolve))
    },
  }
}
