// Records in tables and sentences. Pure functions.
import { cell, type TableColumn } from './format.ts'

/** The first columns of each table of records. */
export const recordColumns: readonly TableColumn<{ webhookId: string; eventType: string }>[] = [
  { name: 'webhook', of: ({ webhookId }) => cell(webhookId) },
  { name: 'event type', minWidth: 6, of: ({ eventType }) => cell(eventType) },
]
