// `retry.orderPerEntity`: the events of one transfer or account are retried in their order. Pure functions. @see docs/architecture.md "Retry plan"
import { attemptsOf } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'

const keyOf = ({ entityId, subscriptionId }: FailedRecord): string => `${subscriptionId} ${entityId}`

function isBefore(a: FailedRecord, b: FailedRecord): boolean {
  return a.eventAt < b.eventAt || (a.eventAt === b.eventAt && a.id < b.id)
}

/** True when later events of the same entity wait for it no longer: it is parked, or its outcome will never be known. */
function isReleased(record: FailedRecord, { maxAttempts }: Policy): boolean {
  if (record.awaiting !== undefined) return false
  return record.letsPass || attemptsOf(record) >= maxAttempts
}

/**
 * Records that the order allows: those without an older open record of the same entity. Each subscription has an order of
 * its own.
 */
export function firstOfEach(records: Iterable<FailedRecord>, policy: Policy): (record: FailedRecord) => boolean {
  const first = new Map<string, FailedRecord>()
  for (const record of records) {
    if (record.entityId === '' || isReleased(record, policy)) continue
    const key = keyOf(record)
    const known = first.get(key)
    if (known === undefined || isBefore(record, known)) first.set(key, record)
  }
  return (record) => {
    if (record.entityId === '') return true
    const open = first.get(keyOf(record))
    return open === undefined || open === record || isBefore(record, open)
  }
}
