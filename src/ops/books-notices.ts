// Notices of the books: unprocessed deliveries, and why an hour cannot be compared. Pure functions.
import { count, counted } from '../runtime/counted.ts'
import type { NoticeCondition } from './condition-notices.ts'
import type { BooksStatus, StatusFacts } from './status-document.ts'
import { platformNow } from './figures.ts'
import { clockTime, sinceOf, span, subscriptionName } from './words.ts'

/** A ledger that is unusable for less than this may be restarting. */
const passingMs = 1_800_000
/** A truncated ledger response could explain a share this large. */
const doubtfulShare = 0.5

/** `all subscriptions`, `2 of 5 subscriptions`, or the only name; undefined if there is one in all, or none is known. */
function partText(names: ReadonlySet<string>, total: number, what: string): string | undefined {
  if (total === 1 || names.size === 0) return undefined
  const [only = ''] = names
  if (names.size === 1) return `${what} ${only}`
  return names.size === total ? `all ${what}s` : `${count(names.size)} of ${count(total)} ${what}s`
}

function unprocessedText({ unprocessed }: BooksStatus, { now, subscriptions: names }: StatusFacts): string {
  const { causes, delivered, eventTypes, since, subscriptions, total, until } = unprocessed
  const percent = (100 * total) / Math.max(delivered, total)
  const share = percent < 1 ? 'less than 1' : count(Math.round(percent))
  const codes = new Set(causes.list.map(({ responseStatusCode }) => responseStatusCode))
  const code = codes.size === 1 ? ([...codes][0] ?? '2xx') : '2xx'
  const parts = [
    partText(
      new Set(causes.list.map(({ subscriptionId: id }) => subscriptionName(id, names))),
      subscriptions,
      'subscription',
    ),
    partText(new Set(causes.list.map(({ eventType }) => eventType)), eventTypes, 'type'),
  ].filter((part) => part !== undefined)
  const where = parts.join(' and ').replace('all subscriptions and all types', 'all subscriptions and types')
  const noun = total === 1 ? 'delivery' : 'deliveries'
  const [from, to] = [since ?? now, until ?? now].map((at) => clockTime(at, now).slice(0, -3))
  return `${count(total)} ${noun} acknowledged with ${code} ${total === 1 ? 'is' : 'are'} not processed: ${share} % of all from ${from} to ${to}${where === '' ? '' : `, in ${where}`}.`
}

function unprocessedDetail({ unprocessed: { causes, delivered, isConfirmed, total } }: BooksStatus, now: Date): string {
  const first = Math.min(...causes.list.map(({ firstDelivery }) => firstDelivery.getTime()))
  const last = Math.max(...causes.list.map(({ lastDelivery }) => lastDelivery.getTime()))
  return [
    ...(first < Infinity
      ? [`They were delivered from ${clockTime(new Date(first), now)} to ${clockTime(new Date(last), now)}.`]
      : []),
    'An hour is compared after its end.',
    ...(isConfirmed ? [] : ['The ledger is asked twice about each hour, in case it was late.']),
    ...(total >= doubtfulShare * delivered ? ['A truncated ledger response looks the same: count its lines.'] : []),
  ].join(' ')
}

/** The notices of the books. */
export function booksConditions(status: StatusFacts): NoticeCondition[] {
  const { books, now } = status
  if (books === null) return []
  const { comparedUntil, due, problem, unprocessed, withoutKey } = books
  const until = `Not all events since ${clockTime(comparedUntil, now)} UTC are compared with the ledger`
  return [
    unprocessed.total > 0 && {
      level: 'trouble',
      text: unprocessedText(books, status),
      detail: unprocessedDetail(books, now),
      advice: `They cannot be retried. Find out why the receiver lost them, and import what it lacks: webhook-reconciler compare --since ${sinceOf([unprocessed.since])} --payloads lost.ndjson`,
      runbook: 'Unprocessed',
    },
    problem !== null && {
      level: now.getTime() - problem.since.getTime() < passingMs ? 'waiting' : 'trouble',
      text: `${problem.text}.`,
      detail: `${until}: losses among them are unknown.`,
      advice:
        "Fix what it names: ledger.url, or ask the platform's operator. It is asked again after 10 min, an hour if keys did not match, or up to 8 h if listed in part.",
      runbook: 'BooksStale',
    },
    problem === null &&
      platformNow(status) > due && {
        level: 'working',
        text: `${until} yet: ${span(platformNow(status).getTime() - comparedUntil.getTime())}.`,
        advice: 'Nothing to do: it follows behind retries and sweeps.',
        isAside: true,
        runbook: 'BooksStale',
      },
    withoutKey > 0 && {
      level: 'working',
      text: `${counted(withoutKey, 'delivery has', 'deliveries have')} no key and cannot be compared with the ledger.`,
      advice: 'If the receiver knows event or webhook ids, set ledger.key to eventId or webhookId.',
      isAside: true,
    },
  ]
}
