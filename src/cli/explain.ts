// `webhook-reconciler explain`: the records of one event, each with what is decided of it and why.
import { Command } from 'commander'
import { shownText } from '../config/layer.ts'
import { exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import { createTimeZone } from '../platform/time-zone.ts'
import { isUuid, type WebhookRecord } from '../platform/record.ts'
import type { Config } from '../config/schema.ts'
import type { Gate } from '../reconcile/retry/gates.ts'
import { createFailedRecord } from '../reconcile/failed-record.ts'
import { recordsOfEvent, type EventRecords } from './event-records.ts'
import { explain, leavesWindowAt, type Explanation, type Situation } from './explanation.ts'
import { askDaemon, gateOf, inWords, type AskedDaemon } from './daemon-status.ts'
import type { End, Io } from './io.ts'
import { inSession, withSessionOptions, type Session, type SessionOptions } from './session.ts'
import { cell, pairs } from './table.ts'

/** @throws UsageError for what is no UUID */
export function uuidGiven(text: string, what: string): string {
  if (isUuid(text)) return text.toLowerCase()
  throw new UsageError(`${what}: a UUID such as 123e4567-e89b-12d3-a456-426614174000, not "${shownText(text)}"`)
}

interface Explained {
  record: WebhookRecord
  explanation: Explanation
  /** Epoch ms; `lastAt` undefined when no attempt is shown. */
  eventAt: number
  lastAt: number | undefined
  leavesAt: number
}

function explained(record: WebhookRecord, situation: Situation): Explained {
  const { eventAt, lastAt } = createFailedRecord(record, { ...situation })
  return {
    record,
    explanation: explain(record, situation),
    eventAt,
    lastAt: record.lastAttemptLocal === null ? undefined : lastAt,
    leavesAt: leavesWindowAt(record, situation),
  }
}

function nextOf({ nextAt }: Explanation, now: number, session: Session): string {
  if (nextAt === undefined) return 'none by itself'
  return nextAt <= now ? 'now: with the next turn of the daemon' : session.moments.show(nextAt)
}

function block(one: Explained, now: number, session: Session): string {
  const { explanation, record } = one
  const { show } = session.moments
  const answered = record.responseStatusCode === null ? 'no response' : `answered ${record.responseStatusCode}`
  const last =
    one.lastAt === undefined ? 'none is shown' : `${record.attempts}, the last at ${show(one.lastAt)}: ${answered}`
  return (
    `webhook ${cell(record.id)}: ${explanation.state}\n` +
    pairs(
      [
        ['event type', cell(record.eventType)],
        ['subscription', cell(record.subscriptionId)],
        ['event time', show(one.eventAt)],
        ['attempts', last],
        ['why', explanation.why],
        ['next retry', nextOf(explanation, now, session)],
        ...(record.status === 'failed' ? [['in the window until', show(one.leavesAt)] as const] : []),
      ],
      '  ',
    )
  )
}

const asIso = (ms: number | undefined): string | null =>
  ms === undefined ? null : new Date(Math.floor(ms)).toISOString()

function documentOf(one: Explained): object {
  const { explanation, record } = one
  return {
    webhookId: record.id,
    subscriptionId: record.subscriptionId,
    eventType: record.eventType,
    status: record.status,
    event: asIso(one.eventAt),
    attempts: record.attempts,
    lastAttempt: asIso(one.lastAt),
    responseStatusCode: record.responseStatusCode,
    state: explanation.state,
    why: explanation.why,
    nextRetry: asIso(explanation.nextAt),
    leavesWindow: asIso(one.leavesAt),
  }
}

/** What is odd about the platform's answer. */
function remarks({ foreign, unreadable }: EventRecords): string[] {
  return [
    ...(foreign > 0
      ? [
          'The platform also showed records of other events: it may pass over data.webhook.eventId, and this one may be missing.',
        ]
      : []),
    ...unreadable.map(
      ({ field, id }) => `A record can't be read (${cell(id)}): its ${field} is not what it should be.`,
    ),
  ]
}

function tellInWords(
  eventId: string,
  list: readonly Explained[],
  found: EventRecords,
  { now, daemon }: { now: number; daemon: AskedDaemon },
  session: Session,
): void {
  const { moments, print, target } = session
  const count = list.length === 1 ? '1 record' : `${list.length} records`
  const none =
    'The platform shows no record of this event. Is it an event id, and not a webhook id? And of this platform?'
  const lines = [
    `Event ${eventId} of ${target}, ${moments.show(now)}: ${count}\n`,
    ...(list.length === 0 ? [`${none}\n`] : list.map((one) => block(one, now, session))),
    ...remarks(found).map((remark) => `${remark}\n`),
    ...(list.length > 0 ? [`${inWords(daemon)}\n`] : []),
  ]
  print(lines.join('\n'))
}

/** The gate that blocks a record: by the configuration, or as the running daemon says. */
function gateFor(config: Config, daemon: AskedDaemon, { subscriptionId }: WebhookRecord): Gate | undefined {
  return config.retry.enabled ? gateOf(daemon, subscriptionId) : 'disabled'
}

async function explainEvent(text: string, io: Io, options: SessionOptions): Promise<ExitCode> {
  const eventId = uuidGiven(text, 'eventId')
  return inSession(io, options, {}, async (session) => {
    const { config, engine, moments, policy, stop } = session
    const found = await recordsOfEvent(engine.client, eventId, stop)
    const now = engine.client.now()
    const daemon = await askDaemon(config.server, io)
    const zone = createTimeZone(config.platform.timeZone)
    const list = found.records.map((record) =>
      explained(record, { policy, zone, now, gate: gateFor(config, daemon, record), show: moments.show }),
    )
    const code = list.length === 0 ? exitCode.incomplete : exitCode.done
    if (options.json !== true) tellInWords(eventId, list, found, { now, daemon }, session)
    else
      session.printJson({
        schemaVersion: 1,
        instance: session.instance,
        platform: session.platform,
        now: asIso(now),
        eventId,
        records: list.map(documentOf),
        remarks: remarks(found),
        exitCode: code,
      })
    return code
  })
}

export function explainCommand(io: Io, end: End): Command {
  return withSessionOptions(new Command('explain'))
    .description(
      "show an event's records, what is decided of each and why, and when it is retried next; touches nothing",
    )
    .argument('<eventId>', 'id of the event (UUID)')
    .action(async (eventId: string, options: SessionOptions) => {
      end(await explainEvent(eventId, io, options))
    })
}
