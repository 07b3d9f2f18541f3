// The table of causes for a terminal: the ten largest, and how many more there are.
import { causeColumns } from '../ops/cause-columns.ts'
import type { CauseStatus } from '../ops/causes.ts'
import { count, counted, type SubscriptionNames } from '../ops/words.ts'
import { cell, createShortIds, table } from './format.ts'

const maxCauses = 10

interface ListedCauses {
  total: number
  /** Largest first; may be truncated. */
  list: readonly CauseStatus[]
  more: { records: number }
}

/** Begins with an empty line; empty without causes. */
export function causeTable(
  { list, more, total }: ListedCauses,
  { now, subscriptions, width }: { now: Date; subscriptions: SubscriptionNames; width: number | undefined },
): string {
  if (total === 0) return ''
  const idOf = createShortIds(
    list.map(({ subscriptionId }) => subscriptionId),
    subscriptions,
  )
  const columns = causeColumns.map((column) => ({
    ...column,
    of: (cause: CauseStatus) => cell(column.lines(cause, { now, idOf }).join(', ')),
  }))
  const shown = list.slice(0, maxCauses)
  const left = total - shown.length
  const records = list.slice(maxCauses).reduce((sum, cause) => sum + cause.records, more.records)
  const rest = `... and ${count(left)} more with ${counted(records, 'delivery', 'deliveries')}: --json lists them\n`
  return `\n${table(columns, shown, { width })}${left > 0 ? rest : ''}`
}
