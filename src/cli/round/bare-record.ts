// Records that are known by their id alone, as they are not on the list of failed ones: retried, and then known by the answer.
import type { WebhookRecord } from '../../platform/record.ts'
import { createTimeZone, laterReadingNotAfter } from '../../platform/time-zone.ts'
import type { Session } from '../session.ts'

/** Later than any attempt. */
const endOfTime = Date.UTC(9999, 0, 1)

/**
 * A record of which only the id is known. The answer to its retry must not pass for an attempt of ours: so it begins with as
 * many attempts as it may have, and a last one that nothing comes after.
 */
export function bareRecord(id: string, eventLocal: number, { policy }: Session): WebhookRecord {
  return {
    id,
    eventId: '',
    subscriptionId: '',
    status: 'failed',
    attempts: policy.maxAttempts - 1,
    eventLocal,
    lastAttemptLocal: endOfTime,
    eventType: '',
    module: '',
    responseStatusCode: null,
  }
}

/** Some platforms show attempts to the second. */
const attemptPrecisionMs = 2000

/** Takes in the record that the answer to a retry shows, before the answer is judged: now its outcome can be checked. */
export function adopt(record: WebhookRecord, { config, reconciler }: Session): void {
  const entry = reconciler.backlog.get(record.id)
  if (entry?.awaiting === undefined) return
  const zone = createTimeZone(config.platform.timeZone)
  const now = reconciler.client.now()
  const { attempts, eventId, eventLocal, eventType, lastAttemptLocal, module, status, subscriptionId } = record
  const eventAt = laterReadingNotAfter(zone, eventLocal, now)
  const lastAt = lastAttemptLocal === null ? -Infinity : laterReadingNotAfter(zone, lastAttemptLocal, now)
  // A failed attempt of this very moment is the requested one; an older one came before it.
  const showsOurs = status === 'failed' && lastAt >= entry.triedAt - attemptPrecisionMs
  Object.assign(entry, { eventId, eventType, module, subscriptionId, eventAt, attempts, lastAttemptLocal })
  entry.localSecond = Math.floor(eventLocal / 1000)
  entry.awaiting.baseline = showsOurs
    ? { attempts: attempts - 1, lastAttemptLocal: null }
    : { attempts, lastAttemptLocal }
}
