// `webhook-reconciler records` and `explain`: shows the daemon's records, each with its decision and the reason.
import type { ExplainedRecord } from '../records/shown-record.ts'
import { isDisabled } from '../ops/figures.ts'
import { nextText, prefixed, response, span } from '../ops/words.ts'
import { counted } from '../runtime/counted.ts'
import { CommandFailure, exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import { redactedJson, visibleText } from '../runtime/redact.ts'
import { ask, askStatus, findDaemon, type Daemon } from './ask.ts'
import type { CommandFlags } from './flags.ts'
import { print, cell, pairs, paragraph, recordColumns, table, widthOf, type TableColumn } from './format.ts'
import { drained, type Io } from './io.ts'
import { createMoments, type Moments } from './moments.ts'
import { narrowingOf, uuidOf } from './selection.ts'

/** A page of `GET /records`. */
interface RecordsResponse {
  instance: string
  now: Date
  records: ExplainedRecord[]
  incomplete: string | null
  next: string | null
  error: string | null
}

type Query = Readonly<Record<string, string | readonly string[] | undefined>>

/** Number of records in a response that is read whole. */
const pageRecords = 1000

/** One page of a query. The platform is given 20 s for a page. */
async function askRecords(daemon: Daemon, query: Query, io: Io): Promise<RecordsResponse> {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one) => [name, one] as [string, string]),
  )
  const path = `/records?${new URLSearchParams(given).toString()}`
  return (await ask(daemon, { path, has: 'records', opens: true }, io)) as unknown as RecordsResponse
}

/** All pages of a query, up to `max` records. */
async function* pagesOf(daemon: Daemon, query: Query, max: number, io: Io): AsyncGenerator<RecordsResponse> {
  let [cursor, left]: [string | undefined, number] = [undefined, max]
  do {
    const limit = String(Math.min(left, pageRecords))
    const page = await askRecords(daemon, { ...query, cursor, limit }, io)
    yield page
    left -= page.records.length
    cursor = page.next ?? undefined
  } while (cursor !== undefined && left > 0)
}

/** Reasons why records may be missing. */
const remarksOf = ({ error, incomplete }: Pick<RecordsResponse, 'error' | 'incomplete'>): string[] =>
  [incomplete, error].filter((text) => text !== null)

function recordTable(records: readonly ExplainedRecord[], now: Date, width: number | undefined): string {
  const columns: TableColumn<ExplainedRecord>[] = [
    ...recordColumns,
    { name: 'age', of: ({ event }) => (event === null ? '-' : span(now.getTime() - event.getTime())) },
    { name: 'attempts', align: 'right', of: ({ attempts }) => String(attempts) },
    { name: 'response', of: ({ responseStatusCode }) => response(responseStatusCode) },
    { name: 'decision', minWidth: 6, of: ({ decision }) => decision },
    { name: 'next', of: (record) => nextText(record, now) },
  ]
  return table(columns, records, { width })
}

const csvColumns = [
  ...(['webhookId', 'eventId', 'subscriptionId', 'eventType', 'decision', 'why', 'event', 'lastAttempt'] as const),
  ...(['attempts', 'responseStatusCode', 'leavesWindow', 'nextRetry', 'nextRetryBy'] as const),
]

/** A value of CSV, escaped so that a spreadsheet does not evaluate it as a formula. @see RFC 4180 */
function csvValue(value: ExplainedRecord[(typeof csvColumns)[number]]): string {
  const text = value instanceof Date ? value.toISOString() : visibleText(String(value ?? ''))
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

const csvLine = (record: ExplainedRecord): string => `${csvColumns.map((name) => csvValue(record[name])).join(',')}\r\n`

/** Runs `records`. Text, CSV and the one JSON document are written page by page. */
export async function recordsCommand(io: Io, options: CommandFlags): Promise<ExitCode> {
  const { decision, event, format = 'text', limit = Infinity } = options
  const daemon = findDaemon(io, options, 'records')
  const narrowing = narrowingOf(options, { moments: createMoments(options.zone), now: io.clock.now() })
  const query: Query = { ...narrowing, event: event && uuidOf(event, '--event'), decision }
  let [listed, last]: [number, RecordsResponse | undefined] = [0, undefined]
  const gaps = new Set<string>()
  for await (const page of pagesOf(daemon, query, limit, io)) {
    const { instance, now, records } = page
    if (format === 'json') {
      const head = redactedJson({ schemaVersion: 1, instance, now }).slice(0, -1)
      if (last === undefined) io.stdout.write(`${head},"records":[`)
      const rows = records.map((record, index) => `${listed + index === 0 ? '' : ','}\n${redactedJson(record)}`)
      io.stdout.write(rows.join(''))
    } else if (format === 'csv') {
      io.stdout.write((last === undefined ? `${csvColumns.join(',')}\r\n` : '') + records.map(csvLine).join(''))
    } else if (records.length > 0) io.stdout.write(visibleText(recordTable(records, now, widthOf(io.stdout))))
    await drained(io.stdout, io)
    listed += records.length
    if (page.incomplete !== null) gaps.add(page.incomplete)
    last = page
  }
  const isMore = last?.next !== null
  const { error = null } = last ?? {}
  const incomplete = gaps.size === 0 ? null : [...gaps].join(' ')
  if (format === 'json')
    io.stdout.write(`\n],"count":${listed},${redactedJson({ isMore, incomplete, error }).slice(1)}\n`)
  else if (format === 'text' && listed === 0) io.stdout.write('No match found.\n')
  for (const text of remarksOf({ error, incomplete })) io.stderr.write(visibleText(`${text}\n`))
  return error === null && incomplete === null ? exitCode.done : exitCode.incomplete
}

type ExplainFlags = Omit<CommandFlags, 'response'> & { response?: true }

/** The receiver's response to a record. */
interface ReceiverWords {
  webhookId: string
  message: string | null
  body: string | null
}

const maxResponseLength = 500

/** The receiver's text on one line, without control characters. */
function wordsOf(text: string | null): string {
  return text === null ? 'none' : visibleText(text.slice(0, maxResponseLength)).replaceAll(/\s+/g, ' ').trim()
}

/** The command that retries a record against its decision; undefined if unneeded or useless. */
function byHand(
  { decision, status, webhookId }: ExplainedRecord,
  { commandPrefix, isRejected }: BlockShown,
): string | undefined {
  if (isRejected || status !== 'failed' || ['due', 'settling', 'awaiting', 'blocked'].includes(decision))
    return undefined
  const command = `webhook-reconciler retry ${decision === 'exhausted' ? '--exhausted ' : ''}${cell(webhookId)}`
  return prefixed(command, commandPrefix)
}

interface BlockShown {
  commandPrefix: string
  isRejected: boolean
  names: Readonly<Record<string, string>>
  moments: Moments
  now: Date
  words: ReceiverWords | undefined
  width: number | undefined
}

function block(one: ExplainedRecord, shown: BlockShown): string {
  const { moments, names, now, width, words } = shown
  const { attempts, lastAttempt, nextRetryBy, responseStatusCode, subscriptionId: id } = one
  const name = names[id]
  const last = `${attempts}, the last at ${moments.show(lastAttempt)}: ${response(responseStatusCode)}`
  const next = nextText(one, now, (at) => `at ${moments.show(at)}`)
  const lines: [string, string | undefined][] = [
    ['why', cell(one.explanation)],
    ['event type', cell(one.eventType)],
    ['subscription', cell(name === undefined ? id : `${name} (${id})`)],
    ['event time', moments.show(one.event)],
    ['attempts', lastAttempt === null ? 'none shown' : last],
    ['error message', words && wordsOf(words.message)],
    ['response body', words && wordsOf(words.body)],
    ['next retry', nextRetryBy === 'probe' ? `${next}: this record, or another one before it` : next],
    ['in the window until', one.status === 'failed' ? moments.show(one.leavesWindow) : undefined],
    ['to retry it now', byHand(one, shown)],
  ]
  return `webhook ${cell(one.webhookId)}: ${one.decision}\n${pairs(lines, { indent: '  ', width })}`
}

const noneFound =
  'No record of this event was found, and no failed record with this webhook id. For a delivered webhook, give the event id.'

/** The records of an event, or else the record with this webhook id. */
async function find(daemon: Daemon, id: string, io: Io): Promise<RecordsResponse> {
  /** Why the event may have further records: some could not be read or requested. */
  let problem: string | null
  try {
    const ofEvent = await askRecords(daemon, { event: id }, io)
    if (ofEvent.records.length > 0) return ofEvent
    problem = ofEvent.incomplete
  } catch (error) {
    // The daemon may hold the webhook although it cannot list the event.
    if (!(error instanceof CommandFailure && error.code === exitCode.platformUnreachable)) throw error
    problem = error.message
  }
  const found = await askRecords(daemon, { webhook: id }, io)
  return found.records.length > 0 ? found : { ...found, incomplete: found.incomplete ?? problem }
}

export async function explainCommand(io: Io, options: ExplainFlags, texts: string[]): Promise<ExitCode> {
  const ids = texts.map((text) => uuidOf(text, 'id'))
  if (options.response === true && (options.json === true || io.stdout.isTTY !== true)) {
    throw new UsageError('--response: it may be confidential, and is shown on a terminal only')
  }
  const { response: isAsked, ...flags } = options
  const daemon = findDaemon(io, flags, 'explain')
  const moments = createMoments(flags.zone)
  const status = await askStatus(daemon, io)
  const width = widthOf(io.stdout)
  const documents = []
  let code: ExitCode = exitCode.done
  for (const id of ids) {
    const found = await find(daemon, id, io)
    const { instance, now, records } = found
    // Empty where the platform names no event.
    const eventId = records.find((record) => record.eventId !== '')?.eventId
    const path = `/records/response?event=${eventId ?? ''}`
    const words: ReceiverWords[] =
      isAsked === true && eventId !== undefined
        ? ((await ask(daemon, { path, has: 'responses', opens: true }, io))['responses'] as ReceiverWords[])
        : []
    const remarks = [...(records.length === 0 ? [noneFound] : []), ...remarksOf(found)]
    if (records.length === 0 || found.error !== null) code = exitCode.incomplete
    documents.push({ instance, now, id, eventId: eventId ?? null, records, remarks })
    if (options.json === true) continue
    const wordsFor = ({ webhookId }: ExplainedRecord): ReceiverWords | undefined =>
      words.find((one) => one.webhookId.toLowerCase() === webhookId.toLowerCase())
    const head = `Event ${cell(eventId ?? id)} of ${cell(instance)}, ${moments.show(now)}: ${counted(records.length, 'record')}`
    const shown = { ...daemon, isRejected: isDisabled(status), names: status.subscriptions, moments, now, width }
    const blocks = records.map((one) => block(one, { ...shown, words: wordsFor(one) }))
    const text = [paragraph(head, width), ...blocks, ...remarks.map((remark) => paragraph(remark, width))]
    io.stdout.write(`${documents.length > 1 ? '\n' : ''}${visibleText(text.join('\n'))}`)
  }
  if (options.json === true)
    print(io.stdout, { json: true }, { schemaVersion: 2, events: documents, exitCode: code }, () => '')
  return code
}
