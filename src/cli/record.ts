// Records in tables and sentences. Pure functions.
import { nextText } from '../ops/words.ts'
import type { ExplainedRecord } from '../records/shown-record.ts'
import { cell, type TableColumn } from './format.ts'

/** The first columns of each table of records. */
export const recordColumns: readonly TableColumn<{ webhookId: string; eventType: string }>[] = [
  { name: 'webhook', of: ({ webhookId }) => cell(webhookId) },
  { name: 'event type', minWidth: 6, of: ({ eventType }) => cell(eventType) },
]

/** The next retry in words. `show` formats a future time. */
export function nextRetryText(
  { nextRetry, nextRetryBy: by }: Pick<ExplainedRecord, 'nextRetry' | 'nextRetryBy'>,
  now: Date,
  show: (at: Date) => string,
): string {
  const when = (at: number): string => (at <= now.getTime() ? 'now' : show(new Date(at)))
  return nextText({ by, at: nextRetry?.getTime() ?? Infinity }, when)
}
