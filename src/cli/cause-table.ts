// The table of causes as text for a terminal: the ten largest, and how many more there are.
import { causeColumns } from '../ops/cause-columns.ts'
import type { CauseStatus } from '../ops/causes.ts'
import { count, counted, type SubscriptionNames } from '../ops/words.ts'
import { cell, createShortIds, table } from './format.ts'

const maxCauses = 10

export interface CausesShown {
  /** The largest first, not always all. */
  list: readonly CauseStatus[]
  /** How many there are, and how many records they have. */
  total: number
  records: number
  now: Date
  subscriptions: SubscriptionNames
}

export function causeTable(
  { list, now, records, subscriptions, total }: CausesShown,
  width: number | undefined,
): string {
  const idOf = createShortIds(
    list.map(({ subscriptionId }) => subscriptionId),
    subscriptions,
  )
  const shown = list.slice(0, maxCauses)
  const columns = causeColumns.map((column) => ({
    ...column,
    of: (cause: CauseStatus) => cell(column.lines(cause, { now, idOf }).join(', ')),
  }))
  const rest = records - shown.reduce((sum, cause) => sum + cause.records, 0)
  const more = `... and ${count(total - shown.length)} more with ${counted(rest, 'delivery', 'deliveries')}: --json lists them\n`
  return table(columns, shown, { width }) + (total > shown.length ? more : '')
}
