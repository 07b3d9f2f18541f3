// The part of the status page with single records: of an event, a webhook or a cause. Without scripts.
import { readCursor, writeCursor } from '../records/cursor.ts'
import { BadRequest, readFilter, type Fields } from '../records/filter.ts'
import type { RecordsPage } from '../records/records.ts'
import type { ExplainedRecord } from '../records/shown-record.ts'
import { counted } from '../runtime/counted.ts'
import { platformNow } from './figures.ts'
import { html, section, table, type Html, type Part } from './html.ts'
import type { RecordsEndpointOptions } from './records-endpoint.ts'
import type { StatusDocument } from './status-document.ts'
import { clockTime, nextText, response, standbyText, word } from './words.ts'

/** Records for the page. */
export interface FoundOnPage {
  /** Undefined: none were looked for, see `problem`. */
  records: readonly ExplainedRecord[] | undefined
  /** Query of the next page; undefined on the last. */
  next: string | undefined
  /** Why records may be missing, or why there are none. */
  problem: string | undefined
  /** The searched id, a UUID. */
  searched: string | undefined
}

const shown = 100
const listNames = ['group', 'subscription', 'type', 'response', 'decision'] as const
const names = ['event', ...listNames, 'cursor'] as const

/** The records that the page's query requests; undefined if none. Never queries the platform. */
export function readRecordsQuery(query: string): URLSearchParams | undefined {
  const params = new URLSearchParams(query)
  return names.some((name) => (params.get(name) ?? '') !== '') ? params : undefined
}

async function all({ batches }: RecordsPage): Promise<ExplainedRecord[]> {
  const records: ExplainedRecord[] = []
  for await (const batch of batches) records.push(...batch)
  return records
}

const none = { records: undefined, next: undefined, searched: undefined }

/** Searches memory for the id of an event, then of a webhook. */
export async function findForPage(
  params: URLSearchParams,
  { now, records, standsBy, subscriptions }: RecordsEndpointOptions,
): Promise<FoundOnPage> {
  const standby = standsBy()
  if (standby !== undefined) return { ...none, problem: standbyText(standby.leader) }
  const searched = (params.get('event') ?? '').trim()
  const meant: Fields = Object.fromEntries(
    listNames.flatMap((name) => (params.has(name) ? [[name, params.getAll(name)] as const] : [])),
  )
  try {
    const asOf = Math.round(now())
    const find = async (fields: Fields, cursor?: string): Promise<FoundOnPage> => {
      const after = cursor === undefined ? undefined : readCursor(cursor, fields).after
      const page = await records.fromMemory({
        filter: readFilter(fields, { now: asOf, subscriptions }),
        limit: shown,
        after,
      })
      const { incomplete: problem, next: last } = page
      const next =
        last &&
        String(
          new URLSearchParams([
            ...Object.entries(fields).flatMap(([name, values]) => values.map((value) => [name, value])),
            ['cursor', writeCursor(last, asOf, fields)],
          ]),
        )
      return { records: await all(page), next, problem, searched: undefined }
    }
    if (searched === '') return await find(meant, params.get('cursor') ?? undefined)
    const ofEvent = await find({ event: [searched] })
    const found = ofEvent.records?.length !== 0 ? ofEvent : await find({ webhook: [searched] })
    return { ...found, searched }
  } catch (error) {
    if (error instanceof BadRequest) return { ...none, problem: error.message }
    throw error
  }
}

const columns = [
  { name: 'webhook' },
  { name: 'event' },
  { name: 'type' },
  { name: 'response' },
  { name: 'decision' },
  { name: 'next retry' },
] as const

/** The command that explains an id, including one that the daemon does not hold. */
function commandOf(searched: string, commandPrefix: string): Html {
  return html`<code>${`${commandPrefix} webhook-reconciler explain ${searched}`.trim()}</code>`
}

export function recordsSection(
  { next, problem, records, searched }: FoundOnPage,
  status: StatusDocument,
  commandPrefix: string,
): Part {
  const { subscriptions } = status
  const now = platformNow(status)
  const rows = records?.map((record): Part[] => {
    const { event, eventId, subscriptionId, webhookId } = record
    return [
      html`<code>${webhookId}</code>`,
      html`<code>${word(eventId)}</code> ${event === null ? '' : clockTime(event, now)}`,
      html`${word(record.eventType)} <span class="row">${word(subscriptions[subscriptionId] ?? subscriptionId)}</span>`,
      html`${response(record.responseStatusCode)}, ${counted(record.attempts, 'attempt', 'attempts')}`,
      html`${record.decision} <span class="row">${record.explanation}</span>`,
      nextText(record, now),
    ]
  })
  const notHeld = searched !== undefined && records?.length === 0
  const command = searched && commandOf(searched, commandPrefix)
  return section('records', searched === undefined ? 'Records' : 'Found', [
    rows !== undefined && rows.length > 0 && table('The oldest event first.', columns, rows),
    notHeld &&
      html`<p>
        The daemon has no failed record with this id: it may be delivered, in delivery, excluded, outside the window, or
        mistyped.
      </p>`,
    problem !== undefined && html`<p class="sub">${problem}</p>`,
    command !== undefined && html`<p class="sub">Details from the platform: ${command}</p>`,
    searched === undefined && records?.length === 0 && html`<p>None.</p>`,
    next !== undefined && html`<p class="sub"><a href="?${next}#records">Next ${shown}</a></p>`,
    html`<p class="sub"><a href="?refresh=on">Back</a></p>`,
  ])
}

/** The search field for an id. */
export function searchForm(searched: string | undefined): Html {
  return html`<form method="get" role="search">
    <label>Event or webhook id <input name="event" size="36" value="${searched ?? ''}" /></label>
    <button>Find</button>
  </form>`
}
