// Rows of lists as JSON text, cached until the record or the readings change, because most rows are sent repeatedly.
import type { Readings } from '../options.ts'
import { renderRecord } from './render.ts'
import type { StoredRecord } from './store.ts'

export interface RowTexts {
  /** The row of a record by these readings. */
  text(record: StoredRecord, readings: Readings): string
}

type Changing = Pick<StoredRecord, 'status' | 'attempts' | 'lastAttemptMicros' | 'result'>

interface Kept extends Changing {
  readings: Readings
  text: string
}

/** About 10 MB. */
const maxKept = 10_000

export function createRowTexts(): RowTexts {
  const kept = new Map<StoredRecord, Kept>()

  function isAsKept(record: StoredRecord, row: Kept): boolean {
    return (
      row.status === record.status &&
      row.attempts === record.attempts &&
      row.lastAttemptMicros === record.lastAttemptMicros &&
      row.result === record.result
    )
  }

  return {
    text(record, readings) {
      const row = kept.get(record)
      if (row?.readings === readings && isAsKept(record, row)) return row.text
      if (kept.size >= maxKept) kept.clear()
      const { attempts, lastAttemptMicros, result, status } = record
      const text = JSON.stringify(renderRecord(record, readings))
      kept.set(record, { attempts, lastAttemptMicros, result, status, readings, text })
      return text
    },
  }
}
