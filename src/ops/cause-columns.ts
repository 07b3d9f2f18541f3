// The table of causes: its columns and the lines of each cell. The page renders HTML, commands text.
import { decisions, type Counts } from '../reconcile/decide.ts'
import { count, counted } from '../runtime/counted.ts'
import type { CauseStatus } from './causes.ts'
import { fromNow, nextText, response, span } from './words.ts'

interface CellContext {
  now: Date
  platformNow: Date
  idOf: (subscriptionId: string) => string
}

export interface CauseColumn {
  name: string
  align?: 'right'
  /** Width to which a column may shrink before it is omitted. */
  minWidth?: number
  isOptional?: boolean
  lines(cause: CauseStatus, context: CellContext): string[]
}

const shownTypes = 4

/** Missing deliveries without a known cause. */
export const onlyCountedText = (records: number): string =>
  `${counted(records, 'delivery', 'deliveries')} that are only counted: the backlog is full (backlog.maxRecords).`

/** Largest first, because a narrow column is truncated; without its number if it is the only one, and nothing else follows. */
export function decisionLines(counts: Counts, isFollowed = false): string[] {
  const some = decisions.filter((decision) => counts[decision] > 0).toSorted((a, b) => counts[b] - counts[a])
  return some.length === 1 && !isFollowed ? some : some.map((decision) => `${count(counts[decision])} ${decision}`)
}

function stateLines({ byDecision, circuit, records }: CauseStatus): string[] {
  // A circuit does not block exhausted records.
  const isBlocked = circuit !== 'closed' && byDecision.exhausted < records
  return [...(isBlocked ? [`circuit ${circuit}`] : []), ...decisionLines(byDecision)]
}

function typeLines({ eventTypes: { list, total } }: CauseStatus): string[] {
  if (total === 1) return list.map(({ eventType }) => eventType)
  const shown = list.slice(0, shownTypes).map(({ eventType, records }) => `${eventType} ${count(records)}`)
  return total > shown.length ? [...shown, `and ${counted(total - shown.length, 'more type', 'more types')}`] : shown
}

export const causeColumns: readonly CauseColumn[] = [
  { name: 'subscription', lines: ({ subscriptionId }, { idOf }) => [idOf(subscriptionId)] },
  {
    name: 'last failure',
    minWidth: 12,
    lines: ({ lastAttempt, responseStatusCode }, { now }) => [
      response(responseStatusCode),
      ...(lastAttempt === null ? [] : [fromNow(lastAttempt, now)]),
    ],
  },
  { name: 'missing', align: 'right', lines: ({ records }) => [count(records)] },
  { name: 'decision', minWidth: 11, lines: stateLines },
  { name: 'next retry', lines: (cause, { now }) => [nextText(cause, now)] },
  {
    name: 'oldest',
    isOptional: true,
    lines: ({ oldestEvent }, { platformNow }) =>
      oldestEvent === null ? [] : [span(platformNow.getTime() - oldestEvent.getTime())],
  },
  { name: 'event types', minWidth: 9, lines: typeLines },
]
