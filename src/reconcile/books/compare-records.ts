// Compares the platform's records of a span, in any status, with a ledger, for the daemon's books and for `compare`.
import type { PlatformClient } from '../../platform/client.ts'
import type { ListPurpose } from '../../platform/operations.ts'
import { property, type PlatformFailure } from '../../platform/http/response.ts'
import { readEntityId, type WebhookRecord } from '../../platform/record.ts'
import type { TimeZone } from '../../platform/time-zone.ts'
import { FailedRecord } from '../failed-record.ts'
import { sweep, type SweepOptions } from '../sweep/sweep.ts'
import { spanBetween } from '../window.ts'
import type { Ledger } from './ledger.ts'
import { keyOf, keyPart, type KeyKind } from './read-keys.ts'

/** Events from `from` until before `until`, epoch ms; given names in lower case restrict them. */
export interface SpanSelection {
  from: number
  until: number
  only?: Readonly<Partial<Record<'type' | 'subscription', readonly string[]>>>
}

/** Delivered and processed, delivered only, failed, or undecided. */
export type BookGroup = 'delivered' | 'not-processed' | 'failed' | 'processing'

export interface ComparedRecord {
  record: WebhookRecord
  entry: FailedRecord
  key: string
  group: BookGroup
  /** True if the ledger has it. */
  processed: boolean
  /** Its row as the platform sent it; only with `withRows`. */
  row: unknown
}

export interface CompareOptions extends Pick<SweepOptions, 'concurrency' | 'monotonic' | 'sliceRecords'> {
  client: Pick<PlatformClient, 'list' | 'now' | 'ping'>
  purpose?: ListPurpose
  kind: KeyKind
  ledger: Ledger
  zone: TimeZone
  /** Epoch ms of the platform's clock. */
  now: number
  /** A later delivery may not be in the ledger yet: it is `processing`. Default: none is. */
  settledBefore?: number
  withRows?: boolean
  /** Lets other work run: a slice may have 100,000 records. Default: none does. */
  turn?: () => Promise<void>
  compared: (one: ComparedRecord) => Promise<void> | void
}

export interface CompareResult {
  /** False if a part could not be listed reliably. */
  complete: boolean
  /** The key of a listed record that the ledger has, selected or not: the ledger is of this platform. Undefined without any. */
  match: string | undefined
  /** A sample key of the platform; undefined without any. */
  sample: string | undefined
  withoutKey: number
}

function groupOf({ status }: WebhookRecord, processed: boolean, isSettled: boolean): BookGroup {
  if (status !== 'successful') return status
  return processed ? 'delivered' : isSettled ? 'not-processed' : 'processing'
}

/** Each takes about 5 us. */
const recordsPerStep = 500

/** Rejects like list calls. */
export async function compareRecords(
  selection: SpanSelection,
  options: CompareOptions,
  signal: AbortSignal,
): Promise<CompareResult> {
  const { client, compared, kind, ledger, now, purpose, settledBefore = Infinity, withRows = false, zone } = options
  const { from, only = {}, until } = selection
  const entityIds = new Map<string, string>()
  const rows = new Map<string, unknown>()
  const idOf = (row: unknown): string => String(property(row, 'id')).toLowerCase()

  function onRow(row: unknown): void {
    const entityId = readEntityId(row)
    if (entityId !== undefined) entityIds.set(idOf(row), keyPart(entityId))
  }

  const noting = {
    ...(kind === 'entity' && { onRow }),
    ...(withRows && { onExactRow: (row: unknown) => rows.set(idOf(row), row) }),
  }

  function isMeant({ eventAt, eventType, subscriptionId }: FailedRecord): boolean {
    if (eventAt < from || eventAt >= Math.min(until, now)) return false
    return (
      (only.type?.includes(keyPart(eventType)) ?? true) &&
      (only.subscription?.includes(subscriptionId.toLowerCase()) ?? true)
    )
  }

  const result: CompareResult = { complete: true, match: undefined, sample: undefined, withoutKey: 0 }
  const listing = {
    ...options,
    client: {
      ...client,
      list: (...[query, stop]: Parameters<typeof client.list>) => client.list({ ...query, ...noting }, stop, purpose),
    },
    // They do not leave the list when retried: no retry has to wait.
    status: 'any' as const,
  }
  const span = spanBetween({ from, until: Math.min(until, now) }, now, zone)
  let failure: PlatformFailure | undefined
  let hasListed = false
  for await (const { listed, skipped } of sweep(span, listing, signal)) {
    failure ??= skipped?.failure
    hasListed ||= listed !== undefined
    result.complete &&= skipped === undefined && listed?.verdict === 'whole' && listed.unreadable.length === 0
    for (const [index, record] of (listed?.records ?? []).entries()) {
      if (index % recordsPerStep === 0) await options.turn?.()
      const { eventId, eventType } = record
      const id = record.id.toLowerCase()
      const parts = { entity: [eventType, entityIds.get(id) ?? ''], eventId: [eventId], webhookId: [id] }[kind]
      const key = parts.includes('') ? undefined : keyOf(parts)
      if (key !== undefined && result.match === undefined && ledger.has(key)) result.match = key
      // It may be later than the begin of a long listing.
      const entry = new FailedRecord(record, { zone, now: client.now() })
      if (!isMeant(entry)) continue
      if (key === undefined) {
        result.withoutKey += 1
        continue
      }
      const processed = ledger.note(key, eventId)
      result.sample ??= key
      const group = groupOf(record, processed, entry.lastAt <= settledBefore)
      await compared({ record, entry, key, group, processed, row: rows.get(id) })
    }
    entityIds.clear()
    rows.clear()
  }
  if (!hasListed && failure !== undefined) throw failure
  return result
}
