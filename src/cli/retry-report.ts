// What `retry` tells at its end: recovered, failed again, refused; as JSON and in words, and the exit code. Pure functions.
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import type { RetryEvent } from '../reconcile/retry/dispatcher.ts'
import { type OutcomeEvent } from '../reconcile/confirm/outcomes.ts'
import { outcomes, type Outcome } from '../reconcile/confirm/evidence.ts'
import type { FoundStatus, RetryResult } from '../platform/operations.ts'
import type { StoppedBy } from './once-report.ts'
import { cell, pairs, table } from './table.ts'

/** What became of one record. */
export interface Told {
  webhookId: string
  eventId: string
  subscriptionId: string
  eventType: string
  /** What the platform said to the last PATCH. */
  result: RetryResult
  /** With `already-resolved`: the status that the platform found. */
  found?: FoundStatus
  /** Undefined while it is not known, and when there is none to wait for. */
  outcome?: Outcome
  /** What the receiver answered last; null: no response. */
  responseStatusCode?: number | null
}

/** Follows the facts of one run. */
export interface Ledger {
  retried(event: RetryEvent): void
  settled(event: OutcomeEvent): void
  told(): readonly Told[]
  sums(): Sums
}

export interface Sums extends Record<Outcome, number> {
  /** Records that were sent a PATCH. */
  retried: number
  /** Not failed any more when the PATCH came: somebody else was there before. */
  resolved: number
  /** The platform said no, or could not be asked. */
  refused: number
}

/** Undefined while its outcome is not known. */
function kindOf({ outcome, result }: Told): keyof Sums | undefined {
  if (outcome !== undefined) return outcome
  if (result === 'accepted') return undefined
  return result === 'already-resolved' ? 'resolved' : 'refused'
}

export function createLedger(): Ledger {
  const byId = new Map<string, Told>()
  /** Retries whose answer was lost: they have an outcome yet to come. */
  const lost = new Set<string>()

  return {
    retried({ answer, eventId, eventType, id, subscriptionId }) {
      if (!answer.sent) return
      const { found, record, result } = answer
      const known = byId.get(id)
      byId.set(id, {
        webhookId: id,
        eventId: eventId || (record?.eventId ?? ''),
        subscriptionId: subscriptionId || (record?.subscriptionId ?? ''),
        eventType: eventType || (record?.eventType ?? ''),
        result,
        ...(found !== undefined && { found }),
        // A final answer tells its outcome before it is told itself.
        ...(known?.outcome !== undefined && {
          outcome: known.outcome,
          responseStatusCode: known.responseStatusCode ?? null,
        }),
      })
      if (answer.lost === true && known?.outcome === undefined) lost.add(id)
    },
    settled({ eventId, eventType, id, outcome, responseStatusCode, subscriptionId }) {
      const known = byId.get(id) ?? { webhookId: id, eventId, subscriptionId, eventType, result: 'accepted' as const }
      lost.delete(id)
      byId.set(id, { ...known, outcome, responseStatusCode })
    },
    told: () => [...byId.values()],
    sums() {
      const sums: Sums = { retried: byId.size, resolved: 0, refused: 0, recovered: 0, 'failed-again': 0, unknown: 0 }
      for (const one of byId.values()) {
        const kind = lost.has(one.webhookId) ? undefined : kindOf(one)
        if (kind !== undefined) sums[kind] += 1
      }
      return sums
    },
  }
}

/** The report as `--json` prints it. `schemaVersion` follows SemVer's major: fields are added, not changed. */
export interface RetryReport {
  schemaVersion: 1
  instance: string
  platform: string
  startedAt: string
  seconds: number
  /** Failed records that were asked for; of these the ones that are left alone, and why. */
  found: number
  parked: number
  excluded: number
  /** Of which the last attempt was made in this moment. */
  justTried: number
  /** Records of the event that are not failed. */
  notFailed: number
  /** Records for which there was no room in memory; another run comes to them. */
  leftOut: boolean
  /** False when a part of what was asked for could not be listed. */
  complete: boolean
  /** True when the list became shorter while it was read, as when the daemon recovers records beside this run. */
  moved?: boolean
  /** Values of --type and --subscription of which there is no failed record: `type account-activated`. */
  notFound?: readonly string[]
  /** The operator's pause of the running daemon, as far as it could be asked; null when nothing was due. */
  pause?: { known: false; problem: string } | { known: true; since: string | null } | null
  sums: Sums
  /** Chosen, and not retried in this run; `stoppedBy` tells why. */
  held: number
  /** Retries whose outcome was not known yet at the end. */
  awaiting: number
  /** Retries that were in flight when `shutdown.grace` was over. */
  cutOff: number
  stoppedBy: StoppedBy | null
  records: readonly Told[]
  exitCode: ExitCode
}

export function judge(report: Omit<RetryReport, 'exitCode'>): ExitCode {
  const { awaiting, cutOff, held, stoppedBy, sums } = report
  if (stoppedBy === 'unauthorized') return exitCode.authenticationRejected
  if (stoppedBy === 'platform') return exitCode.platformUnreachable
  const bad = sums.refused + sums['failed-again'] + sums.unknown + held + awaiting + cutOff
  const left = report.parked + report.excluded + report.justTried
  const nothing = report.found + report.notFailed === 0 && sums.retried === 0
  return bad + left > 0 || report.leftOut || !report.complete || stoppedBy !== null || nothing
    ? exitCode.incomplete
    : exitCode.done
}

const advice: Readonly<Record<StoppedBy, string>> = {
  unauthorized:
    "the list is allowed, the retry is not: ask the platform's operator for the permission to retry webhooks",
  platform: 'the platform does not answer: run again when it does',
  receiver: 'the health address of the receiver does not answer 2xx (receiver.healthUrl): run again when it does',
  circuit: 'nearly all retries failed again: put the receiver right, then run again',
  signal: 'a signal: run again for the rest, what has arrived is passed over',
}

const mostShown = 20

/** Those that did not arrive, the first of them. */
function badTable(records: readonly Told[], width: number | undefined): string {
  const bad = records.filter(
    ({ outcome, result }) => outcome !== 'recovered' && (outcome !== undefined || result !== 'accepted'),
  )
  const worth = bad.filter(({ result }) => result !== 'already-resolved')
  if (worth.length === 0) return ''
  const columns = ['webhook', 'event', 'event type', 'what came of it', 'response'].map((name) => ({ name }))
  const rows = worth
    .slice(0, mostShown)
    .map(({ eventId, eventType, outcome, responseStatusCode, result, webhookId }) => [
      cell(webhookId),
      cell(eventId),
      cell(eventType),
      outcome ?? result,
      cell(outcome === undefined ? undefined : (responseStatusCode ?? 'no response')),
    ])
  const more = worth.length > mostShown ? `... and ${worth.length - mostShown} more: --json has them all\n` : ''
  return `\n${table(columns, rows, width)}${more}`
}

function lines(report: RetryReport): [string, string][] {
  const { awaiting, cutOff, excluded, held, justTried, notFailed, parked, sums } = report
  const all: [number, string, string][] = [
    [1, 'recovered', String(sums.recovered)],
    [1, 'failed again', String(sums['failed-again'])],
    [1, 'refused', String(sums.refused)],
    [sums.unknown, 'unknown', `${sums.unknown} (no outcome within outcome.giveUpAfter)`],
    [sums.resolved, 'resolved before', `${sums.resolved} (not failed any more when asked for)`],
    [notFailed, 'not failed', `${notFailed} (nothing to do)`],
    [parked, 'parked', `${parked} left alone (retry.maxAttempts): add --parked for these`],
    [excluded, 'excluded', `${excluded} left alone (select.*, window.notBefore): name these by their webhook ids`],
    [justTried, 'just tried', `${justTried} left alone (tried within the last seconds): run again for these`],
    [held, 'not retried', String(held)],
    [awaiting, 'not awaited', `${awaiting} (accepted; what became of them is seen by the daemon, or the next run)`],
    [cutOff, 'cut off', `${cutOff} (what came of them is not known)`],
  ]
  return all.filter(([count]) => count > 0).map(([, name, value]) => [name, value])
}

/** `width` is that of the terminal; undefined without one. */
export function asText(report: RetryReport, width: number | undefined): string {
  const { complete, leftOut, moved = false, notFound = [], pause, records, seconds, stoppedBy, sums } = report
  const head = `${report.instance} at ${report.platform}: ${sums.retried} ${sums.retried === 1 ? 'retry' : 'retries'} in ${seconds} s\n`
  const notes = [
    ...(report.found === 0 && sums.retried === 0 && notFound.length === 0
      ? ['No failed record was found for what was asked.']
      : []),
    ...notFound.map((what) => `There is no failed record of ${cell(what)} in the span.`),
    ...(leftOut ? ['There was no room for all of them (backlog.maxRecords): run again for the rest.'] : []),
    ...(complete ? [] : ['A part of what was asked for could not be listed: run again.']),
    ...(moved
      ? ['The list became shorter while it was read, so a record may be missing here: run again to be sure.']
      : []),
    ...(pause?.known === false
      ? [`Nobody knows here whether an operator has paused the daemon: ${pause.problem}.`]
      : []),
    ...(stoppedBy === null ? [] : [`Stopped early by: ${stoppedBy} (${advice[stoppedBy]}).`]),
  ]
  return `${head}${pairs(lines(report), '  ')}${badTable(records, width)}${notes.map((note) => `${note}\n`).join('')}`
}

/** How far a run is, in one line. */
export function progressOf(sums: Sums): { done: number; text: string } {
  const done = outcomes.reduce((sum, outcome) => sum + sums[outcome], sums.resolved + sums.refused)
  const text = `${sums.recovered} recovered, ${sums['failed-again']} failed again, ${sums.refused} refused`
  return { done, text: `${text}, ${sums.retried - done} waited for` }
}
