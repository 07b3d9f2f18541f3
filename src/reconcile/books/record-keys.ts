// The key of a record in the books of the receiver, and the group that the two sides put it in.
import type { PlatformClient } from '../../platform/client.ts'
import type { ListPurpose } from '../../platform/operations.ts'
import { readEntityId, type WebhookRecord } from '../../platform/record.ts'
import { keyOf, keyPart, type KeyKind } from './read-keys.ts'

export interface RecordKeys {
  /** Lists records, and notes the entity of each. */
  client: Pick<PlatformClient, 'list'>
  /** Of a record that it has listed; undefined for one that has none. */
  keyOf(record: WebhookRecord): string | undefined
  /** Forgets the noted ones. */
  clear(): void
}

export function createRecordKeys(client: PlatformClient, kind: KeyKind, purpose?: ListPurpose): RecordKeys {
  const entityIds = new Map<string, string>()

  function onRow(row: unknown): void {
    const id = typeof row === 'object' && row !== null && 'id' in row ? row.id : undefined
    const entityId = readEntityId(row)
    if (typeof id === 'string' && entityId !== undefined) entityIds.set(id.toLowerCase(), keyPart(entityId))
  }

  return {
    client: {
      list: (query, signal) => client.list(kind === 'entity' ? { ...query, onRow } : query, signal, purpose),
    },
    keyOf({ eventId, eventType, id }) {
      const entityId = entityIds.get(id.toLowerCase()) ?? ''
      const parts = { entity: [eventType, entityId], eventId: [eventId], webhookId: [id] }[kind]
      return parts.includes('') ? undefined : keyOf(parts)
    },
    clear() {
      entityIds.clear()
    },
  }
}

/** Delivered and processed, delivered and not, failed, or not decided yet. */
export type BookGroup = 'delivered' | 'not-processed' | 'failed' | 'processing'

/** `settledBefore`: a delivery after then may not be in the books yet. Both times in epoch ms of the platform's clock. */
export function groupOf(
  { status }: Pick<WebhookRecord, 'status'>,
  { lastAt, processed, settledBefore }: { lastAt: number; processed: boolean; settledBefore: number },
): BookGroup {
  if (status === 'failed') return 'failed'
  if (status === 'processing') return 'processing'
  return processed ? 'delivered' : lastAt <= settledBefore ? 'not-processed' : 'processing'
}
