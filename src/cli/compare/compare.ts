// `webhook-reconciler compare`: checks the deliveries of the platform against the events that the receiver has processed. Read-only. @see docs/compare.md
import { decisionLines } from '../../ops/cause-columns.ts'
import { shownText } from '../../runtime/redact.ts'
import { response } from '../../ops/words.ts'
import { count, counted } from '../../runtime/counted.ts'
import { noCounts, type Decision } from '../../reconcile/decide.ts'
import { learnTime } from '../../platform/client.ts'
import { exitCode, UsageError, type ExitCode } from '../../runtime/errors.ts'
import { redact, redactedJson } from '../../runtime/redact.ts'
import type { CommandFlags } from '../flags.ts'
import { print, cell, pairs, paragraph, paragraphs, recordColumns, table, type TableColumn } from '../format.ts'
import { asUsage, drained, type Io, type Output } from '../io.ts'
import { explainRecord, type ExplainedRecord } from '../../records/shown-record.ts'
import { inSession, type Session } from '../session.ts'
import { openPayloads } from '../payload.ts'
import { hourMs } from '../../reconcile/books/hours.ts'
import { LedgerFailure, ledgerKeys } from '../../reconcile/books/ledger-client.ts'
import { readLedger, type Ledger } from '../../reconcile/books/ledger.ts'
import { keyOf, readKeys, type KeyKind } from '../../reconcile/books/read-keys.ts'
import { compareRecords, type ComparedRecord, type SpanSelection } from '../../reconcile/books/compare-records.ts'
import { instantsBetween } from '../../reconcile/window.ts'
import { spanOf } from '../selection.ts'

type CompareFlags = CommandFlags & { key?: KeyKind; payloads?: string }

const maxListed = 1000

/** A record on which the two sides differ. */
interface DifferingRecord extends ExplainedRecord {
  group: 'not-processed' | 'failed' | 'processing'
  key: string
  /** True when the file has it. */
  processed: boolean
}

/** One line with --records. */
type Difference = DifferingRecord | { group: 'unknown'; key: string }

interface Comparison {
  io: Io
  session: Session
  kind: KeyKind
  span: SpanSelection
  ledger: Ledger
  /** `file` or `ledger`. */
  source: string
  /** When the file was written, epoch ms of this host's clock: later deliveries may be missing in it. */
  writtenAt: number
  /** Receives each difference, with its row if requested. */
  take: (difference: Difference, row?: unknown) => Promise<void>
  withRows: boolean
}

/** The keys of the file, or of the ledger hour by hour. @throws UsageError */
async function* allKeys(
  file: string | undefined,
  kind: KeyKind,
  span: SpanSelection,
  session: Session,
  io: Io,
): AsyncGenerator<string> {
  if (file !== undefined) {
    for await (const parts of readKeys(io.openInput(file), kind)) yield keyOf(parts)
    return
  }
  const { config, connection, transport } = session
  const { url = '' } = config.ledger
  const { from: begin } = instantsBetween(span, connection.zone)
  for (let from = begin; from < span.until; from += hourMs) {
    const until = Math.min(from + hourMs, span.until)
    yield* ledgerKeys({ from, until }, { url, kind, transport }, io.signal)
  }
}

/** With --type, skips lines of other types. */
async function* keysOf(keys: AsyncIterable<string>, kind: KeyKind, { only }: SpanSelection): AsyncGenerator<string> {
  for await (const key of keys) {
    if (kind !== 'entity' || (only?.type?.includes(key.slice(0, key.indexOf(','))) ?? true)) yield key
  }
}

/** Counts the platform's records of the span by their presence in the file. */
async function compareSpan({ io, kind, ledger, session, source, span, take, withRows, writtenAt }: Comparison) {
  const { client, config, connection, policy, target } = session
  const { clock, signal } = io
  const started = clock.monotonic()
  const now = await learnTime(client, signal)
  let [compared, delivered, processing] = [0, 0, 0]
  const notProcessed = { total: 0, list: [] as DifferingRecord[] }
  const failed = { total: 0, processed: 0, byDecision: noCounts() }

  function add(difference: DifferingRecord): void {
    if (difference.group === 'processing') processing += 1
    else if (difference.group === 'failed') {
      failed.total += 1
      // A failed record has one of decide's decisions, whatever its age.
      failed.byDecision[difference.decision as Decision] += 1
      if (difference.processed) failed.processed += 1
    } else {
      notProcessed.total += 1
      if (notProcessed.list.length < maxListed) notProcessed.list.push(difference)
    }
  }

  async function takeRecord({ entry, group, key, processed, record: { status }, row }: ComparedRecord): Promise<void> {
    compared += 1
    io.progress(() => `Listing the records of ${target}: ${compared} so far ...`)
    if (group === 'delivered') {
      delivered += 1
      return
    }
    const explained = explainRecord(entry, { policy, situation: { now }, status, isSelected: true })
    const difference = { group, key, ...explained, processed } as const
    add(difference)
    await take(difference, row)
  }

  const { complete, match, sample, withoutKey } = await compareRecords(
    span,
    {
      ...{ client, kind, ledger, now, withRows, compared: takeRecord },
      settledBefore: writtenAt + connection.serverClocks.api.aheadOfHostMs(),
      ...{ ...policy.sweep, monotonic: clock.monotonic, zone: connection.zone },
    },
    signal,
  )
  if (complete && match === undefined && ledger.lines > 0 && sample !== undefined) {
    throw new UsageError(
      `no key of the ${source} matches the platform's in this span: the ${source} has "${shownText(ledger.sample)}", the platform "${shownText(sample)}"`,
    )
  }
  if (complete && span.only?.type && (kind === 'entity' ? ledger.lines : 0) + compared + withoutKey === 0) {
    throw new UsageError(
      `neither the ${source} nor the platform has an event of --type ${shownText(span.only.type.join(' '))} in this span`,
    )
  }
  const [unknown, severalEvents] = [ledger.unknown(), ledger.severalEvents()]
  const differences = notProcessed.total + failed.total + processing + unknown + severalEvents + withoutKey
  const equal = complete && differences === 0
  return {
    // Follows SemVer's major: fields are added, not changed. Times are ISO 8601 in UTC.
    schemaVersion: 1,
    instance: config.instance.name,
    platform: new URL(config.platform.baseUrl).host,
    since: new Date(span.from),
    until: new Date(span.until),
    key: kind,
    seconds: Math.round(clock.monotonic() - started) / 1000,
    /** False when a part of the span could not be listed, or not reliably: more may differ. */
    complete,
    /** True when it is complete, and every count below except `delivered` is 0. */
    equal,
    /** Delivered and processed. */
    delivered,
    /** Delivered but not processed, so no retry brings them back. The first 1,000 are listed. */
    notProcessed,
    /** Failed records by decision; the receiver has `processed` some of them without responding 2xx. */
    failed,
    /** In delivery, or delivered after the file was written: compare again later. */
    processing,
    /** Keys of the file that the platform lacks in this span; an upper bound if incomplete. */
    unknown,
    /** Keys shared by several events: compare by eventId or webhookId to separate them. */
    severalEvents,
    withoutKey,
    exitCode: equal ? exitCode.done : exitCode.incomplete,
  }
}

export type CompareReport = Awaited<ReturnType<typeof compareSpan>>

const maxShown = 20

interface CompareShown extends Pick<Session, 'config' | 'moments' | 'target' | 'width'>, Pick<CommandFlags, 'type'> {
  /** Ids, because a name may have spaces. */
  subscription: readonly string[] | undefined
  file: string
  /** False for a pipe, which can be read only once. */
  isRereadable: boolean
}

/** Records that no retry brings back. */
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
    { name: 'response', of: ({ responseStatusCode }) => response(responseStatusCode) },
  ]
  return `\nDelivered and not processed:\n${table(columns, list, { width, max: maxShown, total, rest: '--records' })}`
}

function notes(report: CompareReport, shown: CompareShown): string {
  const { config, file, isRereadable, moments, width } = shown
  const { complete, failed, key, notProcessed, severalEvents, since, unknown, until, withoutKey } = report
  const span = `--since ${moments.show(since)} --until ${moments.show(until)}`
  const filters = (['type', 'subscription'] as const).map(
    (name) => shown[name] && ` --${name} ${shown[name].join(',')}`,
  )
  const exhausted = failed.byDecision.exhausted > 0 ? ' --exhausted' : ''
  const all = [
    !complete && 'A part of the span could not be listed with certainty: run it again.',
    notProcessed.total > 0 &&
      'Unprocessed deliveries cannot be retried: the platform shows them as successful. --payloads FILE writes their payloads, for an import into the receiver.',
    failed.total > 0 &&
      config.retry.enabled &&
      `To retry the failed ones: webhook-reconciler retry ${span}${filters.join('')}${exhausted}`,
    complete &&
      unknown > 0 &&
      `${counted(unknown, 'key')} of ${cell(file)} ${unknown === 1 ? 'is' : 'are'} unknown to the platform: of another subscription, or outside of the span.${isRereadable ? ' --records lists them.' : ''}`,
    severalEvents > 0 &&
      `${counted(severalEvents, 'key stands', 'keys stand')} for more than one event: compare by --key ${key === 'entity' ? 'eventId' : 'webhookId'} to separate them.`,
    withoutKey > 0 &&
      `${counted(withoutKey, 'record has', 'records have')} no ${key} on the platform, and could not be compared.`,
  ]
  return paragraphs(all, { commandPrefix: config.server.commandPrefix ?? '', width })
}

function compareText(report: CompareReport, shown: CompareShown): string {
  const { complete, delivered, equal, failed, notProcessed, processing, seconds, since, unknown, until } = report
  const { file, moments, target, width } = shown
  const decided = [
    ...(failed.total > 0 ? [decisionLines(failed.byDecision).join(', ')] : []),
    ...(failed.processed > 0 ? [`${count(failed.processed)} processed anyway`] : []),
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

export async function compareCommand(io: Io, options: CompareFlags, [file]: string[]): Promise<ExitCode> {
  try {
    return await compareBooks(file, io, options)
  } catch (error) {
    throw asUsage(error, file ?? '', [options.output, options.payloads])
  }
}

async function compareBooks(file: string | undefined, io: Io, options: CompareFlags): Promise<ExitCode> {
  const now = io.clock.now()
  return inSession(io, options, async (session) => {
    const { ledger: asked, subscriptions: names } = session.config
    const span = spanOf(options, { moments: session.moments, names, now })
    const kind = options.key ?? (file === undefined ? asked.key : 'entity')
    if (file === undefined && asked.url === undefined) throw new UsageError('name a file, or set ledger.url')
    for (const name of ['output', 'payloads'] as const) {
      const path = options[name]
      if (path !== undefined && file !== undefined && file !== '-' && io.isSameFile(path, file))
        throw new UsageError(`--${name} ${cell(path)} is the file with the keys: name another one`)
    }
    const output: Output & { close?(isWhole: boolean): void } =
      options.output === undefined ? io.stdout : io.openOutput(options.output)
    const payloads = options.payloads === undefined ? undefined : openPayloads(options.payloads, session, io)
    let isWhole = false
    const take = async (difference: Difference, row?: unknown): Promise<void> => {
      if (difference.group === 'not-processed') payloads?.write(row)
      if (options.records !== true) return
      output.write(`${redactedJson(difference)}\n`)
      await drained(output, io)
    }
    try {
      const source = file === undefined ? 'ledger' : 'file'
      const givenAt = file === undefined ? now - asked.settle : io.writtenAt(file)
      const isRereadable = givenAt !== undefined
      const writtenAt = givenAt ?? now
      const keys = (): AsyncIterable<string> => keysOf(allKeys(file, kind, span, session, io), kind, span)
      const ledger = await readLedger(keys())
      const withRows = payloads !== undefined
      const report = await compareSpan({ io, session, kind, span, ledger, source, writtenAt, take, withRows })
      if (options.records === true && report.complete && isRereadable && report.unknown > 0) {
        for await (const key of keys()) {
          if (!ledger.isNoted(key)) await take({ group: 'unknown', key })
        }
      }
      const text = (): string =>
        compareText(report, {
          ...{ ...options, ...session, file: file ?? `the ledger`, isRereadable },
          subscription: span.only?.subscription,
        })
      if (options.records === true) io.stderr.write(redact(text()))
      else print(output, options, report, text)
      isWhole = true
      return report.exitCode
    } catch (error) {
      if (!(error instanceof LedgerFailure)) throw error
      io.stderr.write(redact(`Nothing is compared: the ledger (ledger.url) ${error.message}\n`))
      return exitCode.incomplete
    } finally {
      output.close?.(isWhole)
      payloads?.close(isWhole)
    }
  })
}
