// `webhook-reconciler compare`: what the platform says it delivered against what the receiver has processed. It only reads. @see docs/compare.md
import { decisionLines } from '../../ops/cause-columns.ts'
import { shownText } from '../../config/sources.ts'
import { count, counted, response } from '../../ops/words.ts'
import type { Config } from '../../config/schema.ts'
import { auditOnly } from '../../observe/log/log.ts'
import { createLogReporter } from '../../observe/log/log-reporter.ts'
import type { PlatformClient } from '../../platform/client.ts'
import { readEntityId, type WebhookRecord } from '../../platform/record.ts'
import { noCounts, type Decision } from '../../reconcile/decide.ts'
import type { Policy } from '../../reconcile/policy.ts'
import { failureOf } from '../../reconcile/platform-trouble.ts'
import { toPolicy } from '../../reconciler.ts'
import { periodOf } from '../../runtime/schedule.ts'
import { FailedRecord } from '../../reconcile/failed-record.ts'
import { exitCode, UsageError, type ExitCode } from '../../runtime/errors.ts'
import { redact, redactedJson } from '../../runtime/redact.ts'
import type { CommandFlags } from '../flags.ts'
import {
  answer,
  cell,
  createProgressLine,
  pairs,
  paragraph,
  paragraphs,
  table,
  widthOf,
  type ProgressLine,
  type TableColumn,
} from '../format.ts'
import type { Io, Output } from '../io.ts'
import { createMoments, type Moments } from '../moments.ts'
import { explainRecord, type ExplainedRecord } from '../../records/shown-record.ts'
import { recordColumns } from '../record.ts'
import { openPlatform, unavailable, type Platform } from '../platform.ts'
import { openService } from '../service.ts'
import { readLedger, type Ledger } from './ledger.ts'
import { keyOf, keyPart, readKeys, type KeyKind } from './read-keys.ts'
import { createSpanFilter, learnTime, listSpan, spanOf, type SpanSelection } from './span.ts'

type CompareFlags = CommandFlags & { key: KeyKind }

const maxListed = 1000
/** Bytes that may wait for a slow reader of stdout. */
const maxWaiting = 1024 * 1024
const drainMs = 20

/** The part of the daemon's calls that this command takes. */
const shareOfCalls = 0.5

/** A record on which the two sides do not agree, as `explain` shows it. */
interface DifferingRecord extends ExplainedRecord {
  group: 'not-processed' | 'failed' | 'processing'
  key: string
  /** True when the file has it. */
  processed: boolean
}

/** With --records each is a line. */
type Difference = DifferingRecord | { group: 'unknown'; key: string }

/** The way to the platform, and to people. */
interface Session extends Platform {
  config: Config
  policy: Policy
  moments: Moments
  progress: ProgressLine
  /** `payments at api.example.com`. */
  target: string
  /** Of the terminal behind stdout, in characters; undefined without one. */
  width: number | undefined
}

interface Comparison {
  io: Io
  session: Session
  kind: KeyKind
  span: SpanSelection
  ledger: Ledger
  /** A key of the file, to show. */
  sample: string | undefined
  /** When the file was written, epoch ms: what was delivered later may be missing in it. */
  writtenAt: number
  /** Takes each difference. */
  differ: (difference: Difference) => Promise<void>
}

/** The file's keys. With --type, lines of other types are passed over. @throws UsageError */
async function* keysOf(file: string, kind: KeyKind, { only }: SpanSelection, io: Io): AsyncGenerator<string> {
  for await (const parts of readKeys(io.openInput(file), kind)) {
    if (kind !== 'entity' || (only.type?.includes(parts[0] ?? '') ?? true)) yield keyOf(parts)
  }
}

/** A client that notes the entity of each record that it lists, by the record's id. */
function notingEntities(client: PlatformClient, entityIds: Map<string, string>): Pick<PlatformClient, 'list'> {
  const onRow = (row: unknown): void => {
    const id = typeof row === 'object' && row !== null && 'id' in row ? row.id : undefined
    const entityId = readEntityId(row)
    if (typeof id === 'string' && entityId !== undefined) entityIds.set(id.toLowerCase(), keyPart(entityId))
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

/** Counts of the platform's records of the span, by what the file says of them. */
async function compareRecords({ differ, io, kind, ledger, sample, session, span, writtenAt }: Comparison) {
  const { config, connection, policy, progress, target } = session
  const { clock, signal: stop } = io
  const { zone } = connection
  const started = clock.monotonic()
  const now = await learnTime(session.client, stop)
  const entityIds = new Map<string, string>()
  const client = notingEntities(session.client, entityIds)
  let [complete, listed, delivered, processing, withoutKey] = [true, 0, 0, 0, 0]
  let [matched, other]: [boolean, string | undefined] = [false, undefined]
  const notProcessed = { total: 0, list: [] as DifferingRecord[] }
  const failed = { total: 0, processed: 0, byDecision: noCounts() }

  function add(difference: DifferingRecord): void {
    if (difference.group === 'processing') processing += 1
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
      withoutKey += 1
      return
    }
    const processed = ledger.note(key, record.eventId)
    matched ||= processed
    other ??= key
    const { status } = record
    if (status === 'successful' && processed) {
      delivered += 1
      return
    }
    const entry = new FailedRecord(record, { zone, now })
    const isLost = status === 'successful' && entry.lastAt <= writtenAt
    const group = isLost ? 'not-processed' : status === 'failed' ? 'failed' : 'processing'
    const explained = explainRecord(entry, { policy, situation: { now }, status, isSelected: true })
    const difference = { group, key, ...explained, processed } as const
    add(difference)
    await differ(difference)
  }

  const filter = createSpanFilter(span, zone, now)
  const listing = { client, monotonic: clock.monotonic, ...policy.sweep, stop }
  for await (const { listed: slice, skipped } of listSpan(filter.span, listing)) {
    complete &&= skipped === undefined && slice?.verdict === 'whole'
    for (const record of slice?.records ?? []) {
      if (filter.isMeant(record)) await compareRecord(record)
    }
    listed += slice?.records.length ?? 0
    entityIds.clear()
    progress.show(() => `Listing the records of ${target}: ${listed} so far ...`)
  }
  if (complete && !matched && sample !== undefined && other !== undefined) {
    throw new UsageError(
      `no key of the file is one of the platform's in this span: the file has "${shownText(sample)}", the platform "${shownText(other)}"`,
    )
  }
  const [unknown, severalEvents] = [ledger.unknown(), ledger.severalEvents()]
  const differences = notProcessed.total + failed.total + processing + unknown + severalEvents + withoutKey
  const equal = complete && differences === 0
  return {
    // Follows SemVer's major: fields are added, not changed. Times are ISO 8601 in UTC.
    schemaVersion: 1,
    instance: config.instance.name,
    /** Host of the platform's base URL. */
    platform: new URL(config.platform.baseUrl).host,
    since: new Date(span.from),
    until: new Date(span.until),
    key: kind,
    seconds: Math.round(clock.monotonic() - started) / 1000,
    /** False when a part of the span could not be listed, or not with certainty: the books may differ in more. */
    complete,
    /** True when it is complete and all below but `delivered` is 0. */
    equal,
    /** Delivered by the platform, and processed by the receiver. */
    delivered,
    /** Delivered by the platform, and not processed: no retry can bring them back. The first 1,000 are listed. */
    notProcessed,
    /** Failed records, by decision; `processed`: so many of them the receiver has processed without answering 2xx. */
    failed,
    /** Under way on the platform, or delivered after the file was written: compare again later. */
    processing,
    /** Keys of the file that the platform does not have in this span; at most so many when it is not complete. */
    unknown,
    /** Keys that stand for more than one event: compare by eventId or webhookId to separate them. */
    severalEvents,
    /** Records whose key could not be read. */
    withoutKey,
    exitCode: equal ? exitCode.done : exitCode.incomplete,
  }
}

export type CompareReport = Awaited<ReturnType<typeof compareRecords>>

const maxShown = 20

type CompareShown = Pick<Session, 'config' | 'moments' | 'target' | 'width'> & { file: string }

/** The ones that no retry brings back. */
function lostTable({ notProcessed: { list, total } }: CompareReport, { config, moments, width }: CompareShown): string {
  if (total === 0) return ''
  const columns: TableColumn<ExplainedRecord>[] = [
    ...recordColumns,
    {
      name: 'subscription',
      minWidth: 8,
      isOptional: true,
      of: ({ subscriptionId: id }) => cell(config.subscriptions[id] ?? id),
    },
    { name: 'event', of: ({ event }) => moments.show(event) },
    { name: 'answer', of: ({ responseStatusCode }) => response(responseStatusCode) },
  ]
  return `\nDelivered and not processed:\n${table(columns, list, { width, max: maxShown, total, rest: '--records' })}`
}

function notes(report: CompareReport, { file, moments, width }: CompareShown): string {
  const { complete, failed, key, notProcessed, severalEvents, since, unknown, until, withoutKey } = report
  const span = `--since ${moments.show(since)} --until ${moments.show(until)}`
  const exhausted = failed.byDecision.exhausted > 0 ? ' --exhausted' : ''
  const all = [
    !complete && 'A part of the span could not be listed with certainty: run it again.',
    notProcessed.total > 0 &&
      'No retry can bring back what was delivered and not processed: the platform shows it as successful. Look for these events in the logs of the receiver, and process them from there or from the API.',
    failed.total > 0 && `To retry the failed ones: webhook-reconciler retry ${span}${exhausted}`,
    complete &&
      unknown > 0 &&
      `${counted(unknown, 'key')} of ${cell(file)} ${unknown === 1 ? 'is' : 'are'} unknown to the platform: of another subscription, or outside of the span.${file === '-' ? '' : ' --records lists them.'}`,
    severalEvents > 0 &&
      `${counted(severalEvents, 'key stands', 'keys stand')} for more than one event: compare by --key ${key === 'entity' ? 'eventId' : 'webhookId'} to separate them.`,
    withoutKey > 0 &&
      `${counted(withoutKey, 'record has', 'records have')} no ${key} on the platform, and could not be compared.`,
  ]
  return paragraphs(all, width)
}

function compareText(report: CompareReport, shown: CompareShown): string {
  const { complete, delivered, equal, failed, notProcessed, processing, seconds, since, unknown, until } = report
  const { file, moments, target, width } = shown
  const decided = [
    ...(failed.total > 0 ? [decisionLines(failed.byDecision).join(', ')] : []),
    ...(failed.processed > 0 ? [`${count(failed.processed)} processed all the same`] : []),
  ].join('; ')
  const lines: [string, string][] = [
    ['delivered and processed', count(delivered)],
    ['delivered, not processed', count(notProcessed.total)],
    ['failed', decided === '' ? '0' : `${count(failed.total)} (${decided})`],
    ['processing', count(processing)],
    ['processed, unknown to the platform', `${complete || unknown === 0 ? '' : 'at most '}${count(unknown)}`],
  ]
  const head = `${target}, events from ${moments.show(since)} to ${moments.show(until)}, compared with ${cell(file)} in ${seconds.toFixed(1)} s: ${equal ? 'EQUAL' : 'NOT EQUAL'}`
  return (
    paragraph(head, width) + pairs(lines, { indent: '  ', width }) + lostTable(report, shown) + notes(report, shown)
  )
}

/** A file that can't be used is the operator's to mend. */
function asUsage(error: unknown, file: string, output: string | undefined): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return error
  const path = 'path' in error ? String(error.path) : file
  // The output is written beside its place.
  const isOutput = output !== undefined && path.startsWith(output)
  return new UsageError(`${isOutput ? output : path} can't be ${isOutput ? 'written' : 'read'}: ${String(error.code)}`)
}

/** Runs `compare`. */
export async function compareCommand(io: Io, options: CompareFlags, [file = '']: string[]): Promise<ExitCode> {
  try {
    return await compareBooks(file, io, options)
  } catch (error) {
    throw asUsage(error, file, options.output)
  }
}

async function compareBooks(file: string, io: Io, options: CompareFlags): Promise<ExitCode> {
  const { key: kind } = options
  const now = io.clock.now()
  const span = spanOf(options, { moments: createMoments(options.zone), now })
  const progress = createProgressLine(io.stderr, io.clock)
  const { http, key, log, ...service } = openService(io, options, progress.output, { quiet: options.verbose !== true })
  const maxRequestsPerSecond = options.rate ?? service.config.platform.maxRequestsPerSecond * shareOfCalls
  const config = { ...service.config, platform: { ...service.config.platform, maxRequestsPerSecond } }
  const reporter = createLogReporter(options.verbose === true ? log : auditOnly(log), io.clock)
  const target = `${config.instance.name} at ${new URL(config.platform.baseUrl).host}`
  const session: Session = {
    ...openPlatform(config, io, { key, transport: http.transport, emit: reporter.observe }),
    ...{ config, target, progress, policy: toPolicy(config, periodOf(config.schedule)) },
    moments: createMoments(options.zone),
    width: widthOf(io.stdout),
  }
  try {
    if (options.output !== undefined && file !== '-' && io.isSameFile(options.output, file)) {
      throw new UsageError(`--output ${cell(options.output)} is the file with the keys: name another one`)
    }
    const output: Output & { close?(isWhole: boolean): void } =
      options.output === undefined ? io.stdout : io.openOutput(options.output)
    let isWhole = false
    const differ = async (difference: Difference): Promise<void> => {
      if (options.records !== true) return
      session.progress.clear()
      output.write(`${redactedJson(difference)}\n`)
      while ((output.writableLength ?? 0) > maxWaiting) await io.clock.sleep(drainMs, io.signal)
    }
    try {
      const writtenAt = io.writtenAt(file) ?? now
      let sample: string | undefined
      const ledger = await readLedger(keysOf(file, kind, span, io), (key) => (sample ??= key))
      const report = await compareRecords({ io, session, kind, span, ledger, sample, writtenAt, differ })
      if (options.records === true && report.complete && file !== '-' && report.unknown > 0) {
        for await (const key of keysOf(file, kind, span, io)) {
          if (!ledger.isNoted(key)) await differ({ group: 'unknown', key })
        }
      }
      const text = (): string => compareText(report, { ...session, file })
      session.progress.clear()
      if (options.records === true) io.stderr.write(redact(text()))
      else answer(output, options, report, text)
      isWhole = true
      return report.exitCode
    } finally {
      output.close?.(isWhole)
    }
  } catch (error) {
    const failure = failureOf(error)
    if (failure === undefined) throw error
    return unavailable(failure, target, { stderr: progress.output })
  } finally {
    progress.clear()
    await http.close()
  }
}
