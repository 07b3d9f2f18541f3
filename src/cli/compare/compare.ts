// `webhook-reconciler compare`: what the platform says it delivered against what the receiver has processed. It only reads. @see docs/compare.md
import type { PlatformClient } from '../../platform/client.ts'
import { readEntityId, type WebhookRecord } from '../../platform/record.ts'
import { createTimeZone, laterReadingNotAfter } from '../../platform/time-zone.ts'
import { decide, noCounts } from '../../reconcile/decide.ts'
import { createFailedRecord } from '../../reconcile/failed-record.ts'
import { sweep } from '../../reconcile/sweep/sweep.ts'
import { exitCode, isAbort, UsageError, type ExitCode } from '../../runtime/errors.ts'
import { redact, redactedJson } from '../../runtime/redact.ts'
import { askDaemon, situationOf, type AskedDaemon } from '../daemon-client.ts'
import type { Io, Output } from '../io.ts'
import { asIso } from '../record.ts'
import { learnTime, spanOf } from '../round/gather.ts'
import { rateOf, uuidOf } from '../round/select.ts'
import { inSession, interrupted, type Session, type SessionOptions } from '../session.ts'
import { createMoments } from '../format.ts'
import type { CompareRecord, CompareReport } from './compare-report.ts'
import { compareText } from './compare-text.ts'
import { createKeyTable, inFile, onPlatform, type KeyTable } from './key-table.ts'
import { keyColumns, keyOf, readKeys, type KeyKind } from './read-keys.ts'

export interface CompareOptions extends SessionOptions {
  since: string
  until?: string
  type?: string[]
  subscription?: string[]
  key: string
  rate?: string
  records?: true
  output?: string
}

const maxListed = 1000
/** Bytes that may wait for a slow reader of stdout. */
const maxWaiting = 1024 * 1024
const drainMs = 20

/** The part of the daemon's calls that this command takes. */
const shareOfCalls = 0.5

interface Comparison {
  session: Session
  kind: KeyKind
  from: number
  until: number
  types: readonly string[] | undefined
  subscriptions: readonly string[] | undefined
  table: KeyTable
  /** When the file was written, epoch ms: what was delivered later may be missing in it. */
  writtenAt: number
  daemon: AskedDaemon
  /** Takes each difference. */
  differ: (record: CompareRecord) => Promise<void>
}

/** The file's keys. With --type, lines of other types are passed over. */
async function* fileKeys(
  file: string,
  { kind, types }: Pick<Comparison, 'kind' | 'types'>,
  io: Io,
): AsyncGenerator<string> {
  try {
    for await (const parts of readKeys(io.openInput(file), kind)) {
      if (kind !== 'entity' || (types?.includes(parts[0] ?? '') ?? true)) yield keyOf(parts)
    }
  } catch (error) {
    throw asUsage(file, error)
  }
}

function writtenAtOf(file: string, io: Io): number | undefined {
  try {
    return io.writtenAt(file)
  } catch (error) {
    throw asUsage(file, error)
  }
}

function asUsage(file: string, error: unknown): unknown {
  const isOfSystem = error instanceof Error && 'syscall' in error && 'code' in error
  return isOfSystem ? new UsageError(`${file} can't be read: ${String(error.code)}`) : error
}

/** Counts of the platform's records of the span, by what the file says of them. */
async function compareRecords(comparison: Comparison): Promise<CompareReport> {
  const { daemon, differ, from, kind, session, subscriptions, table, types, until, writtenAt } = comparison
  const { clock, config, policy, progress, reconciler, stop, target } = session
  const started = clock.monotonic()
  const now = await learnTime(session)
  const zone = createTimeZone(config.platform.timeZone)
  const entityIds = new Map<string, string>()
  const client: Pick<PlatformClient, 'list'> = {
    list: async (query, signal) =>
      reconciler.client.list({ ...query, onRow: (row) => noteEntity(entityIds, row) }, signal),
  }
  const report: CompareReport = {
    schemaVersion: 1,
    instance: session.instance,
    platform: session.platform,
    since: asIso(from),
    until: asIso(until),
    key: kind,
    seconds: 0,
    complete: true,
    equal: false,
    delivered: 0,
    notProcessed: { total: 0, list: [] },
    failed: { total: 0, processed: 0, byDecision: noCounts() },
    processing: 0,
    unknown: 0,
    severalEvents: 0,
    withoutKey: 0,
    exitCode: exitCode.incomplete,
  }

  function keyFor({ eventId, eventType, id }: WebhookRecord): string | undefined {
    const parts = { entity: [eventType, entityIds.get(id.toLowerCase()) ?? ''], eventId: [eventId], webhookId: [id] }[
      kind
    ]
    return parts.includes('') ? undefined : keyOf(parts)
  }

  async function note(record: WebhookRecord): Promise<void> {
    const key = keyFor(record)
    if (key === undefined) {
      report.withoutKey += 1
      return
    }
    const isProcessed = (table.addPlatform(key, record.eventId) & inFile) !== 0
    const entry = createFailedRecord(record, { zone, now })
    const { eventId, eventType, subscriptionId } = record
    const shown = {
      ...{ key, webhookId: record.id, eventId, subscriptionId, eventType, event: asIso(entry.eventAt) },
      ...{ lastAttempt: record.lastAttemptLocal === null ? null : asIso(entry.lastAt), attempts: record.attempts },
      responseStatusCode: record.responseStatusCode,
    }
    const isSettled = record.status === 'successful' && (isProcessed || entry.lastAt <= writtenAt)
    if (isSettled) {
      if (isProcessed) report.delivered += 1
      else {
        const lost = { group: 'not-processed', ...shown } as const
        report.notProcessed.total += 1
        if (report.notProcessed.list.length < maxListed) report.notProcessed.list.push(lost)
        await differ(lost)
      }
    } else if (record.status === 'failed') {
      const { decision } = decide(entry, policy, { now, ...situationOf(daemon, subscriptionId) })
      report.failed.total += 1
      report.failed.byDecision[decision] += 1
      if (isProcessed) report.failed.processed += 1
      await differ({ group: 'failed', ...shown, processed: isProcessed })
    } else {
      report.processing += 1
      await differ({ group: 'processing', ...shown, processed: isProcessed })
    }
  }

  const isMeant = ({ eventLocal, eventType, subscriptionId }: WebhookRecord): boolean => {
    const eventAt = laterReadingNotAfter(zone, eventLocal, now)
    const isIn = eventAt >= from && eventAt < until
    return isIn && (types?.includes(eventType) ?? true) && (subscriptions?.includes(subscriptionId) ?? true)
  }
  const { concurrency, sliceRecords } = config.sweep
  const options = { client, status: 'any', monotonic: clock.monotonic, concurrency, sliceRecords } as const
  // A second more, as `until` may lie within one: each record's own time decides.
  const span = spanOf(from, Math.min(until, now), now, zone)
  const whole = { from: span.from, to: span.to + 1 }
  // Nothing is retried here, and so nothing has to be kept out of the slices.
  const fence = (): Promise<() => void> => Promise.resolve(() => undefined)
  let listed = 0
  for await (const { listed: slice, skipped } of sweep([whole], { ...options, fence }, stop)) {
    report.complete &&= skipped === undefined && slice?.complete === true && slice.unreadable.length === 0
    for (const record of slice?.records ?? []) {
      if (isMeant(record)) await note(record)
    }
    listed += slice?.records.length ?? 0
    entityIds.clear()
    progress.show(() => `Listing the records of ${target}: ${listed} so far ...`)
  }
  report.seconds = Math.round(clock.monotonic() - started) / 1000
  report.unknown = table.count(inFile)
  report.severalEvents = table.severalEvents()
  return report
}

function noteEntity(entityIds: Map<string, string>, row: unknown): void {
  const id = typeof row === 'object' && row !== null && 'id' in row ? row.id : undefined
  const entityId = readEntityId(row)
  if (typeof id === 'string' && entityId !== undefined) entityIds.set(id.toLowerCase(), entityId)
}

function judge(report: CompareReport): CompareReport {
  const { complete, failed, notProcessed, processing, severalEvents, unknown, withoutKey } = report
  const differences = notProcessed.total + failed.total + processing + unknown + severalEvents + withoutKey
  const equal = complete && differences === 0
  return { ...report, equal, exitCode: equal ? exitCode.done : exitCode.incomplete }
}

function kindOf(text: string): KeyKind {
  if (Object.hasOwn(keyColumns, text)) return text as KeyKind
  throw new UsageError(`--key: one of ${Object.keys(keyColumns).join(', ')}, not "${text}"`)
}

/** Runs `compare`. */
export async function compareCommand(file: string, io: Io, options: CompareOptions): Promise<ExitCode> {
  const kind = kindOf(options.key)
  const moments = createMoments(options.zone)
  const now = io.clock.now()
  const from = moments.parse(options.since, { option: '--since', now, edge: 'earlier' })
  const until =
    options.until === undefined ? now : moments.parse(options.until, { option: '--until', now, edge: 'later' })
  if (from >= until)
    throw new UsageError(`--since (${moments.show(from)}) must be before --until (${moments.show(until)})`)
  const plan = {
    change: (config: Session['config']) => {
      const maxRequestsPerSecond = rateOf(options.rate) ?? config.platform.maxRequestsPerSecond * shareOfCalls
      return { ...config, platform: { ...config.platform, maxRequestsPerSecond } }
    },
  }
  return inSession(io, options, plan, async (session) => {
    const output: Output & { close?(): void } = options.output === undefined ? io.stdout : io.openOutput(options.output)
    const write = (text: string): void => {
      session.progress.clear()
      output.write(text)
    }
    const differ = async (record: CompareRecord): Promise<void> => {
      if (options.records !== true) return
      write(`${redactedJson(record)}\n`)
      while ((output.writableLength ?? 0) > maxWaiting) await io.clock.sleep(drainMs, session.stop)
    }
    try {
      const { type: types, subscription } = options
      const subscriptions = subscription?.map((id) => uuidOf(id, '--subscription'))
      const table = createKeyTable()
      const writtenAt = writtenAtOf(file, io) ?? now
      for await (const key of fileKeys(file, { kind, types }, io)) table.addProcessed(key)
      const daemon = await askDaemon(session.config.server, io)
      const comparison = { session, kind, from, until, types, subscriptions, table, writtenAt, daemon, differ }
      const report = judge(await compareRecords(comparison))
      if (options.records === true && file !== '-' && report.unknown > 0) {
        for await (const key of fileKeys(file, { kind, types }, io)) {
          if ((table.known(key) & onPlatform) === 0) await differ({ group: 'unknown', key })
        }
      }
      const text = compareText(report, { ...session, file })
      if (options.records === true) io.stderr.write(redact(text))
      else write(options.json === true ? `${redactedJson(report, 2)}\n` : redact(text))
      return report.exitCode
    } catch (error) {
      if (!isAbort(error, session.stop)) throw error
      return interrupted(io)
    } finally {
      output.close?.()
    }
  })
}
