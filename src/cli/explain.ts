// `webhook-reconciler explain`: the records of one event, each with what is decided of it and why.
import { counted, response } from '../ops/words.ts'
import { toDate } from '../runtime/instant.ts'
import { readReceiverAnswer, unreadableReasons, type ReceiverAnswer, type WebhookRecord } from '../platform/record.ts'
import type { Situation } from '../reconcile/decide.ts'
import { FailedRecord } from '../reconcile/failed-record.ts'
import { exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import { askDaemon, inWords, situationOf, type AskedDaemon } from './daemon-client.ts'
import type { CommandFlags } from './flags.ts'
import type { Io } from './io.ts'
import { recordsOfEvent, searchIds, type EventRecords } from './round/gather.ts'
import { explainRecord, type ExplainedRecord } from '../records/shown-record.ts'
import { nextRetryText } from './record.ts'
import { uuidOf } from './round/select.ts'
import { inSession, type Session } from './session.ts'
import { visibleText } from '../runtime/redact.ts'
import { cell, pairs, paragraph } from './format.ts'

type ExplainFlags = Omit<CommandFlags, 'response'> & { response?: true }

/** By webhook id. */
type Answers = ReadonlyMap<string, ReceiverAnswer>

const maxAnswerLength = 500

/** The receiver's words, on one line, without what a terminal would obey. */
function wordsOf(text: string | null): string {
  return text === null ? 'none' : visibleText(text.slice(0, maxAnswerLength)).replaceAll(/\s+/g, ' ').trim()
}

/** The command that retries a record in spite of the decision; undefined where none is needed, or none helps. */
function byHand({ state, status, webhookId }: ExplainedRecord): string | undefined {
  if (status !== 'failed' || state === 'due' || state === 'settling') return undefined
  return `webhook-reconciler retry ${state === 'exhausted' ? '--exhausted ' : ''}${cell(webhookId)}`
}

function block(one: ExplainedRecord, now: Date, answer: ReceiverAnswer | undefined, session: Session): string {
  const { config, moments, width } = session
  const { attempts, lastAttempt, nextRetryBy, responseStatusCode, subscriptionId: id } = one
  const name = config.subscriptions[id]
  const last = `${attempts}, the last at ${moments.show(lastAttempt)}: ${response(responseStatusCode)}`
  const next = nextRetryText(one, now, (at) => `at ${moments.show(at)}`)
  const lines: [string, string | undefined][] = [
    ['why', one.explanation],
    ['event type', cell(one.eventType)],
    ['subscription', cell(name === undefined ? id : `${name} (${id})`)],
    ['event time', moments.show(one.event)],
    ['attempts', lastAttempt === null ? 'none is shown' : last],
    ['error message', answer && wordsOf(answer.error)],
    ['response body', answer && wordsOf(answer.body)],
    ['next retry', nextRetryBy === 'probe' ? `${next}: this record, or another one before it` : next],
    ['in the window until', one.status === 'failed' ? moments.show(one.leavesWindow) : undefined],
    ['to retry it now', byHand(one)],
  ]
  return `webhook ${cell(one.webhookId)}: ${one.state}\n${pairs(lines, { indent: '  ', width })}`
}

/** The oddities of the platform's answer. */
function remarksOf({ foreign, unreadable }: EventRecords): string[] {
  const others =
    'The platform also showed records of other events: it may ignore data.webhook.eventId, and a record may be missing here.'
  const odd = unreadable.map(({ field, id }) => `A record (${cell(id)}) can't be read: ${unreadableReasons[field]}.`)
  return foreign > 0 ? [others, ...odd] : odd
}

/** The platform shows a record as failed until its retry is delivered; only the daemon knows that it was retried. */
export function awaitedRemarks(list: readonly ExplainedRecord[], daemon: AskedDaemon): string[] {
  if ('problem' in daemon || daemon.awaiting === 0 || !list.some(({ state }) => state === 'due')) return []
  const retries = counted(daemon.awaiting, 'retry', 'retries')
  return [`The daemon awaits the outcome of ${retries}: that of a record that is due may be one of them.`]
}

const noneFound =
  'The platform shows no record of such an event, and no failed record with such a webhook id. For a delivered webhook give the event id.'

/** The records of an event, or the one with this webhook id if there is no such event. */
async function find(id: string, session: Session): Promise<EventRecords> {
  const { reconciler, progress, stop, target } = session
  const found = await recordsOfEvent(reconciler.client, id, stop)
  if (found.records.length > 0) return found
  const records: WebhookRecord[] = []
  progress.show(() => `Looking for webhook ${id} among the failed records of ${target} ...`)
  await searchIds([id], session, (meant) => records.push(...meant))
  return records.length === 0 ? found : { records, unreadable: [], foreign: 0 }
}

/** What the receiver answered to each record of an event. */
async function askAnswers(eventId: string, { reconciler, stop }: Session): Promise<Answers> {
  const answers = new Map<string, ReceiverAnswer>()
  await recordsOfEvent(reconciler.client, eventId, stop, (row) => {
    const answer = readReceiverAnswer(row)
    if (answer !== undefined) answers.set(answer.id, answer)
  })
  return answers
}

/** Runs `explain`. */
export async function explainCommand(
  io: Io,
  { response: isAsked, ...flags }: ExplainFlags,
  [text = '']: string[],
): Promise<ExitCode> {
  const id = uuidOf(text, 'id')
  if (isAsked === true && (flags.json === true || io.stdout.isTTY !== true)) {
    throw new UsageError("--response: the receiver's words may be confidential, and are shown on a terminal only")
  }
  return inSession(io, flags, {}, async (session) => {
    const { config, connection, reconciler, policy } = session
    const found = await find(id, session)
    const eventId = found.records[0]?.eventId
    const answers: Answers = isAsked === true && eventId !== undefined ? await askAnswers(eventId, session) : new Map()
    const now = reconciler.client.now()
    const daemon = await askDaemon(config.server, io)
    const situationIn = (subscriptionId: string): Situation =>
      config.retry.enabled
        ? { now, ...situationOf(daemon, subscriptionId) }
        : { now, gate: 'disabled', stopsForMs: Infinity }
    const list = found.records.map((record) => {
      const entry = new FailedRecord(record, { zone: connection.zone, now })
      const { status, subscriptionId } = record
      return explainRecord(entry, { policy, situation: situationIn(subscriptionId), status })
    })
    const code = list.length === 0 || found.unreadable.length > 0 ? exitCode.incomplete : exitCode.done
    const [odd, awaited] = [remarksOf(found), awaitedRemarks(list, daemon)]
    const document = {
      schemaVersion: 1,
      instance: session.instance,
      platform: session.platform,
      now: toDate(now),
      eventId: eventId ?? null,
      records: list,
      remarks: [...odd, ...awaited],
      exitCode: code,
    }
    const remarks = [...(list.length === 0 ? [noneFound, ...odd] : [...odd, inWords(daemon)]), ...awaited]
    session.answer(document, () => {
      const { moments, target, width } = session
      const records = counted(list.length, 'record')
      return [
        paragraph(`Event ${cell(eventId ?? id)} of ${target}, ${moments.show(now)}: ${records}`, width),
        ...list.map((one) => block(one, new Date(now), answers.get(one.webhookId.toLowerCase()), session)),
        ...remarks.map((text) => paragraph(text, width)),
      ].join('\n')
    })
    return code
  })
}
