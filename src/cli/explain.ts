// `webhook-reconciler explain`: the records of one event, each with what is decided of it and why.
import { nextText } from '../ops/words.ts'
import { createTimeZone, type TimeZone } from '../platform/time-zone.ts'
import type { WebhookRecord } from '../platform/record.ts'
import { decide, nextRetryOf, noRetry, type Decision, type NextRetry, type Situation } from '../reconcile/decide.ts'
import { createFailedRecord, type FailedRecord } from '../reconcile/failed-record.ts'
import type { Policy } from '../reconcile/policy.ts'
import { sentenceOf, type Because } from '../reconcile/reasons.ts'
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import { askDaemon, inWords, situationOf, type AskedDaemon } from './daemon-client.ts'
import { recordsOfEvent, type EventRecords } from './round/event-records.ts'
import type { Io } from './io.ts'
import { searchIds } from './round/gather.ts'
import { asIso, reportRecord } from './round/report.ts'
import { uuidOf } from './round/select.ts'
import { inSession, type Session, type SessionOptions } from './session.ts'
import { cell, counted, pairs, paragraph } from './format.ts'

/** A decision, or what holds before any: the status in place of `failed`, or a place outside the window. */
export type State = Decision | Exclude<WebhookRecord['status'], 'failed'> | 'outside' | 'settling'

/** One record as the platform shows it, with what is decided of it. */
export interface Explanation {
  entry: FailedRecord
  status: WebhookRecord['status']
  state: State
  because: Because
  next: NextRetry
  /** When its event leaves the window, epoch ms of the platform's clock. */
  leavesAt: number
}

export interface ExplainOptions {
  policy: Policy
  zone: TimeZone
  situation: Situation
}

/** A pure function of the record, the policy and the time. */
export function explain(record: WebhookRecord, { policy, situation, zone }: ExplainOptions): Explanation {
  const { now } = situation
  const { status } = record
  const entry = createFailedRecord(record, { zone, now })
  const leavesAt = entry.eventAt + policy.window.lookback
  const settledAt = entry.eventAt + policy.window.settle
  const shown = { entry, status, leavesAt, next: noRetry }
  if (status !== 'failed') return { ...shown, state: status, because: status }
  const verdict = decide(entry, policy, situation)
  const { because, decision, dueAt } = verdict
  if (decision === 'excluded') return { ...shown, state: decision, because }
  if (leavesAt < now) return { ...shown, state: 'outside', because: 'outside' }
  if (settledAt > now && decision !== 'exhausted') {
    const settling = { ...verdict, decision: 'backing-off', dueAt: Math.max(settledAt, dueAt) } as const
    return { ...shown, state: 'settling', because: 'settling', next: nextRetryOf(settling, situation, leavesAt) }
  }
  return { ...shown, state: decision, because, next: nextRetryOf(verdict, situation, leavesAt) }
}

/** The command that retries a record in spite of the decision; undefined where none is needed, or none helps. */
function byHand({ entry, state, status }: Explanation): string | undefined {
  if (status !== 'failed' || state === 'due' || state === 'settling') return undefined
  return `webhook-reconciler retry ${state === 'exhausted' ? '--exhausted ' : ''}${cell(entry.id)}`
}

function nextOf({ next }: Explanation, now: number, { moments }: Session): string {
  const text = nextText(next, (at) => (at <= now ? 'now' : `at ${moments.show(at)}`))
  return next.by === 'probe' ? `${text}: this record, or another one before it` : text
}

function block(one: Explanation, now: number, session: Session): string {
  const { entry } = one
  const { width, moments } = session
  const { show } = moments
  const answered = entry.responseStatusCode === null ? 'no response' : `answered ${entry.responseStatusCode}`
  const last =
    entry.lastAttemptLocal === null
      ? 'none is shown'
      : `${entry.attempts}, the last at ${show(entry.lastAt)}: ${answered}`
  const command = byHand(one)
  return (
    `webhook ${cell(entry.id)}: ${one.state}\n` +
    pairs(
      [
        ['why', sentenceOf(one.because)],
        ['event type', cell(entry.eventType)],
        ['subscription', cell(entry.subscriptionId)],
        ['event time', show(entry.eventAt)],
        ['attempts', last],
        ['next retry', nextOf(one, now, session)],
        ...(one.status === 'failed' ? [['in the window until', show(one.leavesAt)] as const] : []),
        ...(command === undefined ? [] : [['to retry it now', command] as const]),
      ],
      { indent: '  ', width },
    )
  )
}

function documentOf({ because, entry, leavesAt, next, state, status }: Explanation): object {
  return { ...reportRecord(entry, because, next), status, state, leavesWindow: asIso(leavesAt) }
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
export function awaitedRemarks(list: readonly Explanation[], daemon: AskedDaemon): string[] {
  if ('problem' in daemon || daemon.awaiting === 0 || !list.some(({ state }) => state === 'due')) return []
  const retries = counted(daemon.awaiting, 'retry', 'retries')
  return [`The daemon awaits the outcome of ${retries}: that of a record that is due may be one of them.`]
}

const noneFound =
  'The platform shows no record of such an event, and no failed record with such a webhook id. A webhook that was delivered is shown by the id of its event.'

interface ExplainShown {
  /** As given. */
  id: string
  found: EventRecords
  now: number
  daemon: AskedDaemon
}

function printText(list: readonly Explanation[], { daemon, found, id, now }: ExplainShown, session: Session): void {
  const { moments, print, target, width } = session
  const lines = [
    paragraph(
      `Event ${cell(found.records[0]?.eventId ?? id)} of ${target}, ${moments.show(now)}: ${counted(list.length, 'record')}`,
      width,
    ),
    ...list.map((one) => block(one, now, session)),
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

/** Runs `explain`. */
export async function explainCommand(text: string, io: Io, options: SessionOptions): Promise<ExitCode> {
  const id = uuidOf(text, 'id')
  return inSession(io, options, {}, async (session) => {
    const { config, reconciler, policy } = session
    const found = await find(id, session)
    const now = reconciler.client.now()
    const daemon = await askDaemon(config.server, io)
    const zone = createTimeZone(config.platform.timeZone)
    const situationIn = (subscriptionId: string): Situation =>
      config.retry.enabled
        ? { now, ...situationOf(daemon, subscriptionId) }
        : { now, gate: 'disabled', stopsForMs: Infinity }
    const list = found.records.map((record) =>
      explain(record, { policy, zone, situation: situationIn(record.subscriptionId) }),
    )
    const code = list.length === 0 ? exitCode.incomplete : exitCode.done
    if (options.json !== true) printText(list, { id, found, now, daemon }, session)
    else
      session.printJson({
        schemaVersion: 1,
        instance: session.instance,
        platform: session.platform,
        now: asIso(now),
        eventId: found.records[0]?.eventId ?? null,
        records: list.map(documentOf),
        remarks: [...remarks(found), ...awaitedRemarks(list, daemon)],
        exitCode: code,
      })
    return code
  })
}
