// The numbers of all records, one array for each field.

/** By record number. Times are local microseconds (zone.ts); texts and results are numbers of interned values. */
export interface Columns {
  event: Float64Array
  lastAttempt: Float64Array
  status: Uint8Array
  attempts: Uint16Array
  accepted: Uint16Array
  subscription: Uint32Array
  eventType: Uint16Array
  result: Uint32Array
}

export function emptyColumns(capacity: number): Columns {
  return {
    event: new Float64Array(capacity),
    lastAttempt: new Float64Array(capacity),
    status: new Uint8Array(capacity),
    attempts: new Uint16Array(capacity),
    accepted: new Uint16Array(capacity),
    subscription: new Uint32Array(capacity),
    eventType: new Uint16Array(capacity),
    result: new Uint32Array(capacity),
  }
}

/** A copy with room for more. */
export function grown(columns: Columns, capacity: number): Columns {
  const next = emptyColumns(capacity)
  next.event.set(columns.event)
  next.lastAttempt.set(columns.lastAttempt)
  next.status.set(columns.status)
  next.attempts.set(columns.attempts)
  next.accepted.set(columns.accepted)
  next.subscription.set(columns.subscription)
  next.eventType.set(columns.eventType)
  next.result.set(columns.result)
  return next
}
