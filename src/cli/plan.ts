// `webhook-reconciler plan`: a full sweep that touches nothing, and what would be done now, by cause.
import { Command } from 'commander'
import { formatDuration } from '../config/duration.ts'
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import type { TelemetryEvent } from '../observe/events.ts'
import { groupByCause, type Cause } from '../ops/causes.ts'
import type { Counts } from '../reconcile/decide.ts'
import { decide, decisions, type Verdict } from '../reconcile/decide.ts'
import type { FailedRecord } from '../reconcile/failed-record.ts'
import type { SweepReport } from '../reconcile/sweep/sweep-report.ts'
import { reasonOf, type Gate } from '../reconcile/retry/gates.ts'
import { askDaemon, gateOf, inWords, stopsOf, type AskedDaemon } from './daemon-status.ts'
import { estimateSeconds } from './estimate.ts'
import type { End, Io } from './io.ts'
import { showSpan, type Moments } from './moments.ts'
import { toldSweep } from './once-report.ts'
import { askReceiver } from './round.ts'
import { inSession, withSessionOptions, type Session, type SessionOptions } from './session.ts'
import { cell, table } from './table.ts'

interface PlanOptions extends SessionOptions {
  records?: true
}

/** What is known when the sweep has ended. */
interface Found {
  sweep: SweepReport
  /** Epoch ms of the platform's clock. */
  now: number
  failed: Counts
  receiverUp: boolean | undefined
  daemon: AskedDaemon
  secondsPerCall: number
  seconds: number
}

const noResponse = 'no response'
/** As many fit on a screen or two. */
const mostCauses = 50

/** What blocks retries of a subscription: the configuration, the receiver as it answers now, or the running daemon. */
function gateFor(
  { config }: Session,
  { daemon, receiverUp }: Pick<Found, 'daemon' | 'receiverUp'>,
): (subscriptionId: string) => Gate | undefined {
  if (!config.retry.enabled) return () => 'disabled'
  if (receiverUp === false) return () => 'receiver-down'
  return (subscriptionId) => gateOf(daemon, subscriptionId)
}

function verdictOf(session: Session, found: Found): (entry: FailedRecord) => Verdict {
  const gate = gateFor(session, found)
  return (entry) => decide(entry, session.policy, { now: found.now, gate: gate(entry.subscriptionId) })
}

async function look(session: Session, io: Io, secondsPerCall: () => number): Promise<Found> {
  const { config, reconciler, stop } = session
  const sweep = await reconciler.sweeper.make('full', stop)
  // Without a health address nobody knows, and nothing is held for it.
  const hasHealth = config.receiver.healthUrl !== undefined
  const receiverUp = hasHealth ? await askReceiver(reconciler, session.next('receiver'), stop) : undefined
  const now = reconciler.client.now()
  const daemon = await askDaemon(config.server, io)
  const { counts } = reconciler.backlog.summary(now, gateFor(session, { daemon, receiverUp }))
  const found = { sweep, now, failed: counts, receiverUp, daemon, secondsPerCall: secondsPerCall() }
  const { circuit, outcome, retry } = config
  const seconds = estimateSeconds(counts.due, {
    callsPerSecond: reconciler.rate.limit(),
    retriesPerSecond: retry.maxPerSecond,
    concurrency: retry.concurrency,
    secondsPerCall: found.secondsPerCall,
    initialLimit: circuit.enabled ? circuit.initialLimit : undefined,
    secondsPerOutcome: outcome.firstCheck / 1000,
  })
  return { ...found, seconds }
}

function asIso(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(Math.floor(ms)).toISOString()
}

/** When a record may be retried, epoch ms; undefined when it is not by itself. */
function comesAt({ decision, dueAt }: Verdict, now: number): number | undefined {
  return decision === 'due' || decision === 'backing-off' ? Math.max(now, dueAt) : undefined
}

function recordOf(entry: FailedRecord, verdict: Verdict, now: number): object {
  return {
    webhookId: entry.id,
    eventId: entry.eventId,
    subscriptionId: entry.subscriptionId,
    eventType: entry.eventType,
    event: asIso(entry.eventAt),
    attempts: entry.attempts,
    lastAttempt: entry.lastAttemptLocal === null ? null : asIso(entry.lastAt),
    responseStatusCode: entry.responseStatusCode,
    decision: verdict.decision,
    nextAttempt: asIso(comesAt(verdict, now)),
  }
}

function daemonDocument(daemon: AskedDaemon): object {
  if ('problem' in daemon) return daemon
  const { holding, instance, open, pausedSince, url } = daemon
  return { url, instance, holding, pausedSince: asIso(pausedSince), openCircuits: [...open.keys()] }
}

function asDocument(session: Session, found: Found, causes: readonly Cause[], code: ExitCode, all: boolean): object {
  const { reconciler } = session
  const verdict = verdictOf(session, found)
  return {
    schemaVersion: 1,
    instance: session.instance,
    platform: session.platform,
    now: asIso(found.now),
    sweep: toldSweep(found.sweep),
    receiver: found.receiverUp === undefined ? null : { up: found.receiverUp },
    daemon: daemonDocument(found.daemon),
    failed: found.failed,
    leftOut: reconciler.backlog.leftOut.any(),
    causes: causes.map((cause) => ({
      eventType: cause.eventType,
      subscriptionId: cause.subscriptionId,
      responseStatusCode: cause.responseStatusCode,
      records: cause.records,
      byDecision: cause.byDecision,
      oldestEvent: asIso(cause.oldestAt),
      nextAttempt: asIso(nextOf(cause, found.now)),
    })),
    estimate: {
      records: found.failed.due,
      seconds: Math.round(found.seconds),
      callsPerSecond: Math.round(reconciler.rate.limit() * 10) / 10,
    },
    ...(all && {
      records: [...reconciler.backlog.entries()].map((entry) => recordOf(entry, verdict(entry), found.now)),
    }),
    exitCode: code,
  }
}

function shownDecisions(counts: Counts): string {
  const some = decisions.filter((decision) => counts[decision] > 0)
  return some.length === 1 ? some.join('') : some.map((decision) => `${counts[decision]} ${decision}`).join(', ')
}

function shownNext(nextAt: number | undefined, now: number, moments: Moments): string {
  if (nextAt === undefined) return '-'
  return nextAt <= now ? 'now' : moments.show(nextAt)
}

/** When the first of them may be retried, epoch ms; undefined when none will be by itself. */
function nextOf({ byDecision, nextDueAt }: Cause, now: number): number | undefined {
  return byDecision.due > 0 ? now : nextDueAt
}

function causeTable(causes: readonly Cause[], now: number, { moments }: Session, width: number | undefined): string {
  const columns = [
    { name: 'count', align: 'right' as const },
    ...['event type', 'subscription', 'last response', 'oldest event', 'decision', 'next attempt'].map((name) => ({
      name,
    })),
  ]
  const rows = causes
    .slice(0, mostCauses)
    .map((cause) => [
      String(cause.records),
      cell(cause.eventType),
      cell(cause.subscriptionId),
      String(cause.responseStatusCode ?? noResponse),
      moments.show(cause.oldestAt),
      shownDecisions(cause.byDecision),
      shownNext(nextOf(cause, now), now, moments),
    ])
  const more = causes.length - rows.length
  return table(columns, rows, width) + (more > 0 ? `... and ${more} more causes: --json has them all\n` : '')
}

function recordTable(session: Session, found: Found, width: number | undefined): string {
  const { reconciler, moments } = session
  const verdict = verdictOf(session, found)
  const names = [
    'webhook',
    'event',
    'event type',
    'event time',
    'attempts',
    'last response',
    'decision',
    'next attempt',
  ]
  const rows = [...reconciler.backlog.entries()]
    .sort((a, b) => a.eventAt - b.eventAt)
    .map((entry) => {
      const one = verdict(entry)
      const { attempts, eventAt, eventId, eventType, id, responseStatusCode } = entry
      return [
        cell(id),
        cell(eventId),
        cell(eventType),
        moments.show(eventAt),
        String(attempts),
        String(responseStatusCode ?? noResponse),
        one.decision,
        shownNext(comesAt(one, found.now), found.now, moments),
      ]
    })
  return table(
    names.map((name) => ({ name })),
    rows,
    width,
  )
}

/** What follows from the counts, one line each. */
function conclusions({ config, reconciler }: Session, found: Found): string[] {
  const { failed } = found
  const rate = Math.round(reconciler.rate.limit() * 10) / 10
  const reasons = [
    ...(config.retry.enabled ? [] : [reasonOf('disabled')]),
    ...(found.receiverUp === false ? [reasonOf('receiver-down')] : []),
    ...stopsOf(found.daemon),
  ]
  const held = [...new Set(reasons)].join('; ') || 'the circuits of their subscriptions are open'
  const lines: [number, string][] = [
    [
      failed.due,
      `Would be retried now: ${failed.due}, in about ${showSpan(found.seconds)} at ${rate} calls/s, if the receiver takes them.`,
    ],
    [failed.held, `Held: ${failed.held}, because ${held}.`],
    [failed['backing-off'], `Later, by itself: ${failed['backing-off']} backing-off.`],
    [
      failed.parked,
      `Not any more: ${failed.parked} parked (retry.maxAttempts ${config.retry.maxAttempts}); ` +
        '`webhook-reconciler retry --parked --since TIME` tries them once more.',
    ],
    [failed.excluded, `Not at all: ${failed.excluded} excluded by select.* or window.notBefore.`],
  ]
  const told = lines.filter(([count]) => count > 0).map(([, line]) => line)
  const leftOut = 'There was no room for all of them in memory (backlog.maxRecords): the table shows a part.'
  return [...told, ...(reconciler.backlog.leftOut.any() ? [leftOut] : [])]
}

function asText(
  session: Session,
  found: Found,
  causes: readonly Cause[],
  options: PlanOptions,
  width?: number,
): string {
  const { config, moments, target } = session
  const { listed, result, seconds } = found.sweep
  const head =
    `${target}, ${moments.show(found.now)}\n` +
    `One full sweep in ${seconds.toFixed(1)} s, ${result}: ${listed} failed records in the last ` +
    `${formatDuration(config.window.lookback)}. Nothing was touched.\n`
  if (listed === 0) return `${head}There is nothing to retry.\n`
  const records = options.records === true ? `\n${recordTable(session, found, width)}` : ''
  const rows = causes.length > 0 ? `\n${causeTable(causes, found.now, session, width)}` : ''
  return `${head}${inWords(found.daemon)}\n${rows}${records}\n${conclusions(session, found).join('\n')}\n`
}

function judge(session: Session, { sweep }: Found): ExitCode {
  const { failure, result } = sweep
  if (failure?.rejected === true) return exitCode.authenticationRejected
  if (result === 'failed') return exitCode.platformUnreachable
  return result === 'incomplete' || session.reconciler.backlog.leftOut.any() ? exitCode.incomplete : exitCode.done
}

async function plan(io: Io, options: PlanOptions): Promise<ExitCode> {
  const calls = { count: 0, seconds: 0 }
  let tick = (): void => undefined
  function hear(event: TelemetryEvent): void {
    if (event.type !== 'platform-request') return
    calls.count += 1
    calls.seconds += event.seconds
    tick()
  }
  return inSession(io, options, { hear }, async (session) => {
    const { reconciler, print, printJson, progress, target } = session
    tick = () => {
      progress.show(() => `Listing the failed records of ${target}: ${reconciler.backlog.size()} so far ...`)
    }
    const found = await look(session, io, () => (calls.count === 0 ? 0 : calls.seconds / calls.count))
    const code = judge(session, found)
    const causes = groupByCause(reconciler.backlog.entries(), {
      policy: session.policy,
      now: found.now,
      gateOf: gateFor(session, found),
      maxCauses: Infinity,
      maxParked: 0,
    }).list
    if (options.json === true) printJson(asDocument(session, found, causes, code, options.records === true))
    else if (found.sweep.failure === undefined)
      print(asText(session, found, causes, options, io.stdout.isTTY === true ? io.stdout.columns : undefined))
    if (found.sweep.failure !== undefined)
      progress.output.write(
        `${target}: the sweep failed, so nothing is known: ${found.sweep.failure.message}\n` +
          'For each step on the way there: webhook-reconciler check\n',
      )
    return code
  })
}

export function planCommand(io: Io, end: End): Command {
  return withSessionOptions(new Command('plan'))
    .description('show what would be retried now, by cause, and how long it would take; touches nothing')
    .option('--records', 'list the records too')
    .action(async (options: PlanOptions) => {
      end(await plan(io, options))
    })
}
