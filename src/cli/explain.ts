// `webhook-reconciler explain`: the records of one event, each with what is decided of it and why.
import type { Config } from '../config/schema.ts'
import { createTimeZone, type TimeZone } from '../platform/time-zone.ts'
import type { WebhookRecord } from '../platform/record.ts'
import { decide, type Decision } from '../reconcile/decide.ts'
import { createFailedRecord } from '../reconcile/failed-record.ts'
import type { Policy } from '../reconcile/policy.ts'
import { sentenceOf, type Because } from '../reconcile/reasons.ts'
import type { Gate } from '../reconcile/retry/gates.ts'
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import { askDaemon, gateOf, inWords, type AskedDaemon } from './daemon-client.ts'
import { recordsOfEvent, type EventRecords } from './round/event-records.ts'
import type { Io } from './io.ts'
import { searchIds } from './round/gather.ts'
import { uuidOf } from './round/select.ts'
import { inSession, type Session, type SessionOptions } from './session.ts'
import { cell, counted, pairs } from './format.ts'

/** A decision, or what holds before any: the status in place of `failed`, or a place outside the window. */
export type State = Decision | Exclude<WebhookRecord['status'], 'failed'> | 'outside' | 'settling'

/** One record as the platform shows it, with what is decided of it. Times in epoch ms of the platform's clock. */
export interface Explanation {
  record: WebhookRecord
  state: State
  because: Because
  /** When it is retried automatically, in the past or present for one that is due; undefined when it is not. */
  nextAt: number | undefined
  eventAt: number
  /** Undefined when no attempt is shown. */
  lastAt: number | undefined
  /** When its event leaves the window. */
  leavesAt: number
}

export interface ExplainOptions {
  policy: Policy
  zone: TimeZone
  /** Epoch ms of the platform's clock. */
  now: number
  /** The gate that blocks its subscription now; undefined when none is known to. */
  gate: Gate | undefined
}

/** A pure function of the record, the policy and the time. */
export function explain(record: WebhookRecord, { gate, now, policy, zone }: ExplainOptions): Explanation {
  const entry = createFailedRecord(record, { zone, now })
  const leavesAt = entry.eventAt + policy.window.lookback
  const settledAt = entry.eventAt + policy.window.settle
  const lastAt = record.lastAttemptLocal === null ? undefined : entry.lastAt
  const shown = { record, eventAt: entry.eventAt, lastAt, leavesAt, nextAt: undefined }
  if (record.status !== 'failed') return { ...shown, state: record.status, because: record.status }
  const { because, decision, dueAt } = decide(entry, policy, { now, gate })
  if (decision === 'excluded') return { ...shown, state: decision, because }
  if (leavesAt < now) return { ...shown, state: 'outside', because: 'outside' }
  if (settledAt > now && decision !== 'parked') {
    return { ...shown, state: 'settling', because: 'settling', nextAt: Math.max(settledAt, dueAt) }
  }
  const isComing = decision === 'due' || (decision === 'backing-off' && because !== 'too-late')
  return { ...shown, state: decision, because, nextAt: isComing ? dueAt : undefined }
}

/** The command that retries a record in spite of the decision; undefined where none is needed, or none helps. */
function byHand({ record, state }: Explanation): string | undefined {
  if (record.status !== 'failed' || state === 'due' || state === 'settling') return undefined
  return `webhook-reconciler retry ${state === 'parked' ? '--parked ' : ''}${cell(record.id)}`
}

function nextOf({ nextAt }: Explanation, now: number, session: Session): string {
  if (nextAt === undefined) return 'none automatically'
  return nextAt <= now ? 'now' : session.moments.show(nextAt)
}

function block(one: Explanation, now: number, session: Session): string {
  const { lastAt, record } = one
  const { show } = session.moments
  const answered = record.responseStatusCode === null ? 'no response' : `answered ${record.responseStatusCode}`
  const last = lastAt === undefined ? 'none is shown' : `${record.attempts}, the last at ${show(lastAt)}: ${answered}`
  const command = byHand(one)
  return (
    `webhook ${cell(record.id)}: ${one.state}\n` +
    pairs(
      [
        ['why', sentenceOf(one.because)],
        ['event type', cell(record.eventType)],
        ['subscription', cell(record.subscriptionId)],
        ['event time', show(one.eventAt)],
        ['attempts', last],
        ['next retry', nextOf(one, now, session)],
        ...(record.status === 'failed' ? [['in the window until', show(one.leavesAt)] as const] : []),
        ...(command === undefined ? [] : [['to retry it now', command] as const]),
      ],
      '  ',
    )
  )
}

const asIso = (ms: number | undefined): string | null =>
  ms === undefined ? null : new Date(Math.floor(ms)).toISOString()

function documentOf({ because, eventAt, lastAt, leavesAt, nextAt, record, state }: Explanation): object {
  return {
    webhookId: record.id,
    subscriptionId: record.subscriptionId,
    eventType: record.eventType,
    status: record.status,
    event: asIso(eventAt),
    attempts: record.attempts,
    lastAttempt: asIso(lastAt),
    responseStatusCode: record.responseStatusCode,
    state,
    why: because,
    explanation: sentenceOf(because),
    nextRetry: asIso(nextAt),
    leavesWindow: asIso(leavesAt),
  }
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
  const { moments, print, target } = session
  const lines = [
    `Event ${cell(found.records[0]?.eventId ?? id)} of ${target}, ${moments.show(now)}: ${counted(list.length, 'record')}\n`,
    ...(list.length === 0 ? [`${noneFound}\n`] : list.map((one) => block(one, now, session))),
    ...remarks(found).map((remark) => `${remark}\n`),
    ...(list.length > 0 ? [`${inWords(daemon)}\n`] : []),
    ...awaitedRemarks(list, daemon).map((remark) => `${remark}\n`),
  ]
  print(lines.join('\n'))
}

/** The gate that blocks a record: by the configuration, or as the running daemon says. */
function gateFor(config: Config, daemon: AskedDaemon, { subscriptionId }: WebhookRecord): Gate | undefined {
  return config.retry.enabled ? gateOf(daemon, subscriptionId) : 'disabled'
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
    const list = found.records.map((record) =>
      explain(record, { policy, zone, now, gate: gateFor(config, daemon, record) }),
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
