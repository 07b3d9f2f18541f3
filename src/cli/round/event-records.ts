// The records of one event, as the platform shows them now.
import type { PlatformClient } from '../../platform/client.ts'
import type { UnreadableRow, WebhookRecord } from '../../platform/record.ts'
import { maxPageSize } from '../../platform/wire.ts'

export interface EventRecords {
  /** Each id once, in any status. */
  records: WebhookRecord[]
  unreadable: UnreadableRow[]
  /** Rows of other events: the platform ignores the filter. */
  foreign: number
}

/** An event has a record for each subscription: more pages than this do not answer the question. */
const maxPages = 10

/**
 * The records of one event, as the platform shows them now.
 * @throws PlatformFailure, TokenError, or the signal's reason
 */
export async function recordsOfEvent(
  client: PlatformClient,
  eventId: string,
  signal: AbortSignal,
): Promise<EventRecords> {
  const records = new Map<string, WebhookRecord>()
  const unreadable: UnreadableRow[] = []
  let foreign = 0
  for (let page = 0; page < maxPages; page += 1) {
    const answer = await client.list({ eventId, page, size: maxPageSize }, signal)
    for (const record of answer.records) {
      if (record.eventId.toLowerCase() === eventId.toLowerCase()) records.set(record.id.toLowerCase(), record)
      else foreign += 1
    }
    unreadable.push(...answer.unreadable)
    if (answer.rows < (answer.size ?? maxPageSize)) break
  }
  return { records: [...records.values()], unreadable, foreign }
}
