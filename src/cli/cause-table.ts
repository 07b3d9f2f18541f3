// The table of causes for a terminal: the ten largest, and how many more there are.
import { causeColumns, onlyCountedText } from '../ops/cause-columns.ts'
import type { CauseStatus } from '../ops/causes.ts'
import { platformNow } from '../ops/figures.ts'
import type { StatusFacts } from '../ops/status-document.ts'
import { count, counted } from '../runtime/counted.ts'
import { subscriptionName } from '../ops/words.ts'
import { cell, paragraph, table } from './format.ts'

const maxCauses = 10

/** Begins with an empty line; empty without causes. */
export function causeTable(
  { causes, subscriptions, ...times }: Pick<StatusFacts, 'causes' | 'clock' | 'now' | 'subscriptions'>,
  width: number | undefined,
): string {
  const { list, more, onlyCounted, total } = causes
  const evicted = onlyCounted > 0 ? paragraph(`... and ${onlyCountedText(onlyCounted)}`, width) : ''
  if (total === 0) return evicted && `\n${evicted}`
  const idOf = (id: string): string => subscriptionName(id, subscriptions)
  const context = { now: times.now, platformNow: platformNow(times), idOf }
  const columns = causeColumns.map((column) => ({
    ...column,
    of: (cause: CauseStatus) => cell(column.lines(cause, context).join(', ')),
  }))
  const shown = list.slice(0, maxCauses)
  const left = total - shown.length
  const records = list.slice(maxCauses).reduce((sum, cause) => sum + cause.records, more.records)
  const rest = `... and ${count(left)} more with ${counted(records, 'delivery', 'deliveries')}: --json lists them\n`
  return `\n${table(columns, shown, { width })}${left > 0 ? rest : ''}${evicted}`
}
