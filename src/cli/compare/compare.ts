// `webhook-reconciler compare`: what the platform says it delivered against what the receiver has processed. It only reads. @see docs/compare.md
import type { PlatformClient } from '../../platform/client.ts'
import { readEntityId, type WebhookRecord } from '../../platform/record.ts'
import { noCounts, type Decision } from '../../reconcile/decide.ts'
import { createFailedRecord } from '../../reconcile/failed-record.ts'
import { exitCode, UsageError, type ExitCode } from '../../runtime/errors.ts'
import { redact, redactedJson } from '../../runtime/redact.ts'
import { askDaemon, situationOf, type AskedDaemon } from '../daemon-client.ts'
import { answer } from '../format.ts'
import type { Io, Output } from '../io.ts'
import { createMoments } from '../moments.ts'
import { explainRecord } from '../record.ts'
import { learnTime, listSpans } from '../round/gather.ts'
import { createSpanFilter, spanOf, type SpanFlags, type SpanSelection } from '../round/select.ts'
import { inSession, type Session, type SessionOptions } from '../session.ts'
import { compareText, type CompareReport, type Difference, type DifferingRecord } from './compare-report.ts'
import { createKeyTable, inFile, onPlatform, type KeyTable } from './key-table.ts'
import { keyOf, readKeys, type KeyKind } from './read-keys.ts'

export interface CompareOptions extends SessionOptions, Omit<SpanFlags, 'response'> {
  key: KeyKind
  rate?: number
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
  span: SpanSelection
  table: KeyTable
  /** When the file was written, epoch ms: what was delivered later may be missing in it. */
  writtenAt: number
  daemon: AskedDaemon
  /** Takes each difference. */
  differ: (difference: Difference) => Promise<void>
}

/** The file's keys. With --type, lines of other types are passed over. @throws UsageError */
async function* keysOf(file: string, kind: KeyKind, { only }: SpanSelection, io: Io): AsyncGenerator<string> {
  try {
    for await (const parts of readKeys(io.openInput(file), kind)) {
      if (kind !== 'entity' || (only.type?.includes(parts[0] ?? '') ?? true)) yield keyOf(parts)
    }
  } catch (error) {
    throw asUsage(file, error)
  }
}

/** Epoch ms; undefined for standard input. @throws UsageError */
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

/** A client that notes the entity of each record that it lists, by the record's id. */
function notingEntities(client: PlatformClient, entityIds: Map<string, string>): Pick<PlatformClient, 'list'> {
  const onRow = (row: unknown): void => {
    const id = typeof row === 'object' && row !== null && 'id' in row ? row.id : undefined
    const entityId = readEntityId(row)
    if (typeof id === 'string' && entityId !== undefined) entityIds.set(id.toLowerCase(), entityId)
  }
  return { list: (query, signal) => client.list({ ...query, onRow }, signal) }
}

/** Undefined for a record that has none. */
function keyFor(
  { eventId, eventType, id }: WebhookRecord,
  kind: KeyKind,
  entityIds: ReadonlyMap<string, string>,
): string | undefined {
  const entityId = entityIds.get(id.toLowerCase()) ?? ''
  const parts = { entity: [eventType, entityId], eventId: [eventId], webhookId: [id] }[kind]
  return parts.includes('') ? undefined : keyOf(parts)
}

function emptyReport({ kind, session, span }: Comparison): CompareReport {
  return {
    schemaVersion: 1,
    instance: session.instance,
    platform: session.platform,
    since: new Date(span.from),
    until: new Date(span.until),
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
}

/** Counts of the platform's records of the span, by what the file says of them. */
async function compareRecords(comparison: Comparison): Promise<CompareReport> {
  const { daemon, differ, kind, session, span, table, writtenAt } = comparison
  const { clock, connection, policy, progress, reconciler, target } = session
  const { zone } = connection
  const started = clock.monotonic()
  const now = await learnTime(session)
  const entityIds = new Map<string, string>()
  const client = notingEntities(reconciler.client, entityIds)
  const report = emptyReport(comparison)

  function count(difference: DifferingRecord): void {
    const { failed, notProcessed } = report
    if (difference.group === 'processing') report.processing += 1
    else if (difference.group === 'failed') {
      failed.total += 1
      // Of a failed record that is compared whatever its age the state is a decision.
      failed.byDecision[difference.state as Decision] += 1
      if (difference.processed) failed.processed += 1
    } else {
      notProcessed.total += 1
      if (notProcessed.list.length < maxListed) notProcessed.list.push(difference)
    }
  }

  async function compareRecord(record: WebhookRecord): Promise<void> {
    const key = keyFor(record, kind, entityIds)
    if (key === undefined) {
      report.withoutKey += 1
      return
    }
    const processed = (table.addPlatform(key, record.eventId) & inFile) !== 0
    const { status, subscriptionId } = record
    if (status === 'successful' && processed) {
      report.delivered += 1
      return
    }
    const entry = createFailedRecord(record, { zone, now })
    const isLost = status === 'successful' && entry.lastAt <= writtenAt
    const group = isLost ? 'not-processed' : status === 'failed' ? 'failed' : 'processing'
    const situation = { now, ...situationOf(daemon, subscriptionId) }
    const explained = explainRecord(entry, { policy, situation, status, isSelected: true })
    const difference = { group, key, ...explained, processed } as const
    count(difference)
    await differ(difference)
  }

  const filter = createSpanFilter(span, zone, now)
  let listed = 0
  for await (const { listed: slice, skipped } of listSpans([filter.span], session, { client, status: 'any' })) {
    report.complete &&= skipped === undefined && slice?.complete === true && slice.unreadable.length === 0
    for (const record of slice?.records ?? []) {
      if (filter.isMeant(record)) await compareRecord(record)
    }
    listed += slice?.records.length ?? 0
    entityIds.clear()
    progress.show(() => `Listing the records of ${target}: ${listed} so far ...`)
  }
  const seconds = Math.round(clock.monotonic() - started) / 1000
  return judge({ ...report, seconds, unknown: table.count(inFile), severalEvents: table.severalEvents() })
}

function judge(report: CompareReport): CompareReport {
  const { complete, failed, notProcessed, processing, severalEvents, unknown, withoutKey } = report
  const differences = notProcessed.total + failed.total + processing + unknown + severalEvents + withoutKey
  const equal = complete && differences === 0
  return { ...report, equal, exitCode: equal ? exitCode.done : exitCode.incomplete }
}

/** Runs `compare`. */
export async function compareCommand(file: string, io: Io, options: CompareOptions): Promise<ExitCode> {
  const { key: kind } = options
  const now = io.clock.now()
  const span = spanOf(options, { moments: createMoments(options.zone), now })
  const plan = {
    change: (config: Session['config']) => {
      const maxRequestsPerSecond = options.rate ?? config.platform.maxRequestsPerSecond * shareOfCalls
      return { ...config, platform: { ...config.platform, maxRequestsPerSecond } }
    },
  }
  return inSession(io, options, plan, async (session) => {
    const output: Output & { close?(): void } = options.output === undefined ? io.stdout : io.openOutput(options.output)
    const differ = async (difference: Difference): Promise<void> => {
      if (options.records !== true) return
      session.progress.clear()
      output.write(`${redactedJson(difference)}\n`)
      while ((output.writableLength ?? 0) > maxWaiting) await io.clock.sleep(drainMs, session.stop)
    }
    try {
      const table = createKeyTable()
      const writtenAt = writtenAtOf(file, io) ?? now
      for await (const key of keysOf(file, kind, span, io)) table.addProcessed(key)
      const daemon = await askDaemon(session.config.server, io)
      const report = await compareRecords({ session, kind, span, table, writtenAt, daemon, differ })
      if (options.records === true && file !== '-' && report.unknown > 0) {
        for await (const key of keysOf(file, kind, span, io)) {
          if ((table.known(key) & onPlatform) === 0) await differ({ group: 'unknown', key })
        }
      }
      const text = (): string => compareText(report, { ...session, file })
      session.progress.clear()
      if (options.records === true) io.stderr.write(redact(text()))
      else answer(output, options, report, text)
      return report.exitCode
    } finally {
      output.close?.()
    }
  })
}
