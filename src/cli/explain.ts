// `webhook-reconciler explain`: the records of one event, each with what is decided of it and why.
import { counted, nextText, response } from '../ops/words.ts'
import { createTimeZone } from '../platform/time-zone.ts'
import { readReceiverAnswer, type ReceiverAnswer, type WebhookRecord } from '../platform/record.ts'
import type { Situation } from '../reconcile/decide.ts'
import { createFailedRecord } from '../reconcile/failed-record.ts'
import { exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import { askDaemon, inWords, situationOf, type AskedDaemon } from './daemon-client.ts'
import type { Io } from './io.ts'
import { recordsOfEvent, searchIds, type EventRecords } from './round/gather.ts'
import { asIso, explainRecord, type ExplainedRecord } from './record.ts'
import { uuidOf } from './round/select.ts'
import { inSession, type Session, type SessionOptions } from './session.ts'
import { visibleText } from '../runtime/redact.ts'
import { cell, pairs, paragraph } from './format.ts'

export interface ExplainFlags extends SessionOptions {
  response?: true
}

/** By webhook id. */
type Answers = ReadonlyMap<string, ReceiverAnswer>

const maxAnswerLength = 500

/** The receiver's words, on one line, without what a terminal would obey. */
function answerPairs(answer: ReceiverAnswer | undefined): (readonly [name: string, value: string])[] {
  const show = (text: string | null): string =>
    text === null ? 'none' : visibleText(text.slice(0, maxAnswerLength)).replaceAll(/\s+/g, ' ').trim()
  return answer === undefined
    ? []
    : [
        ['error message', show(answer.error)],
        ['response body', show(answer.body)],
      ]
}

/** The command that retries a record in spite of the decision; undefined where none is needed, or none helps. */
function byHand({ state, status, webhookId }: ExplainedRecord): string | undefined {
  if (status !== 'failed' || state === 'due' || state === 'settling') return undefined
  return `webhook-reconciler retry ${state === 'exhausted' ? '--exhausted ' : ''}${cell(webhookId)}`
}

function block(
  one: ExplainedRecord,
  { answers, now }: Pick<ExplainShown, 'answers' | 'now'>,
  { config, moments, width }: Session,
): string {
  const name = config.subscriptions[one.subscriptionId]
  const { attempts, lastAttempt, nextRetryBy: by, responseStatusCode } = one
  const show = (iso: string | null): string => moments.show(iso === null ? undefined : Date.parse(iso))
  const answered = response(responseStatusCode)
  const last = lastAttempt === null ? 'none is shown' : `${attempts}, the last at ${show(lastAttempt)}: ${answered}`
  const at = one.nextRetry === null ? Infinity : Date.parse(one.nextRetry)
  const next = nextText({ by, at }, () => (at <= now ? 'now' : `at ${moments.show(at)}`))
  const command = byHand(one)
  return (
    `webhook ${cell(one.webhookId)}: ${one.state}\n` +
    pairs(
      [
        ['why', one.explanation],
        ['event type', cell(one.eventType)],
        ['subscription', cell(name === undefined ? one.subscriptionId : `${name} (${one.subscriptionId})`)],
        ['event time', show(one.event)],
        ['attempts', last],
        ...answerPairs(answers.get(one.webhookId.toLowerCase())),
        ['next retry', by === 'probe' ? `${next}: this record, or another one before it` : next],
        ...(one.status === 'failed' ? [['in the window until', show(one.leavesWindow)] as const] : []),
        ...(command === undefined ? [] : [['to retry it now', command] as const]),
      ],
      { indent: '  ', width },
    )
  )
}

/** The oddities of the platform's answer. */
function remarks({ foreign, unreadable }: EventRecords): string[] {
  return [
    ...(foreign > 0
      ? [
          'The platform also showed records of other events: it may ignore data.webhook.eventId, and a record may be missing here.',
        ]
      : []),
    ...unreadable.map(({ field, id }) => `A record (${cell(id)}) can't be read: its ${field} has an unexpected form.`),
  ]
}

/** The platform shows a record as failed until its retry is delivered; only the daemon knows that it was retried. */
export function awaitedRemarks(list: readonly ExplainedRecord[], daemon: AskedDaemon): string[] {
  if ('problem' in daemon || daemon.awaiting === 0 || !list.some(({ state }) => state === 'due')) return []
  const retries = counted(daemon.awaiting, 'retry', 'retries')
  return [`The daemon awaits the outcome of ${retries}: that of a record that is due may be one of them.`]
}

const noneFound =
  'The platform shows no record of such an event, and no failed record with such a webhook id. For a delivered webhook give the event id.'

interface ExplainShown {
  /** As given. */
  id: string
  found: EventRecords
  now: number
  daemon: AskedDaemon
  answers: Answers
}

function printText(list: readonly ExplainedRecord[], shown: ExplainShown, session: Session): void {
  const { daemon, found, id, now } = shown
  const { moments, print, target, width } = session
  const lines = [
    paragraph(
      `Event ${cell(found.records[0]?.eventId ?? id)} of ${target}, ${moments.show(now)}: ${counted(list.length, 'record')}`,
      width,
    ),
    ...list.map((one) => block(one, shown, session)),
    ...[
      ...(list.length === 0 ? [noneFound] : []),
      ...remarks(found),
      ...(list.length > 0 ? [inWords(daemon)] : []),
      ...awaitedRemarks(list, daemon),
    ].map((text) => paragraph(text, width)),
  ]
  print(lines.join('\n'))
}

/** The records of an event, or the one with this webhook id if there is no such event. */
async function find(id: string, session: Session): Promise<EventRecords> {
  const { reconciler, progress, stop, target } = session
  const found = await recordsOfEvent(reconciler.client, id, stop)
  if (found.records.length > 0) return found
  const records: WebhookRecord[] = []
  const missing = new Set([id])
  progress.show(() => `Looking for webhook ${id} among the failed records of ${target} ...`)
  await searchIds(missing, session, (meant) => records.push(...meant))
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
export async function explainCommand(text: string, io: Io, options: ExplainFlags): Promise<ExitCode> {
  const id = uuidOf(text, 'id')
  const isAsked = options.response === true
  if (isAsked && (options.json === true || io.stdout.isTTY !== true)) {
    throw new UsageError("--response: the receiver's words may be confidential, and are shown on a terminal only")
  }
  return inSession(io, options, {}, async (session) => {
    const { config, reconciler, policy } = session
    const found = await find(id, session)
    const [first] = found.records
    const answers: Answers = isAsked && first !== undefined ? await askAnswers(first.eventId, session) : new Map()
    const now = reconciler.client.now()
    const daemon = await askDaemon(config.server, io)
    const zone = createTimeZone(config.platform.timeZone)
    const situationIn = (subscriptionId: string): Situation =>
      config.retry.enabled
        ? { now, ...situationOf(daemon, subscriptionId) }
        : { now, gate: 'disabled', stopsForMs: Infinity }
    const list = found.records.map((record) => {
      const situation = situationIn(record.subscriptionId)
      return explainRecord(createFailedRecord(record, { zone, now }), { policy, situation, status: record.status })
    })
    const code = list.length === 0 ? exitCode.incomplete : exitCode.done
    if (options.json !== true) printText(list, { id, found, now, daemon, answers }, session)
    else
      session.printJson({
        schemaVersion: 1,
        instance: session.instance,
        platform: session.platform,
        now: asIso(now),
        eventId: found.records[0]?.eventId ?? null,
        records: list,
        remarks: [...remarks(found), ...awaitedRemarks(list, daemon)],
        exitCode: code,
      })
    return code
  })
}
