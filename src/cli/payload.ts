// `webhook-reconciler payload`: writes the payloads that the platform sent, for an import into the receiver. They hold names and accounts: never logged, and on a terminal only with --show. @see SECURITY.md
import { learnTime } from '../platform/client.ts'
import { property } from '../platform/http/response.ts'
import { createLister, EventUnlistable } from '../records/listing.ts'
import { exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import { escapeInvisible, visibleText } from '../runtime/redact.ts'
import type { CommandFlags } from './flags.ts'
import { cell } from './format.ts'
import { asUsage, drained, type Io, type Output } from './io.ts'
import { uuidOf } from './selection.ts'
import { inSession, type Session } from './session.ts'

export interface Payloads {
  /** Writes the payload of a row as the platform sent it. */
  write(row: unknown): void
  /** An incomplete file leaves the old one in place. */
  close(isWhole: boolean): void
}

const idOf = (row: unknown, name = 'id'): string => String(property(row, name)).toLowerCase()

/** Opens a file that only its owner may read, or stdout. */
export function openPayloads(path: string | undefined, { log }: Session, io: Io): Payloads {
  const file = path === undefined ? undefined : io.openOutput(path, { isPrivate: true })
  const output: Output = file ?? io.stdout
  return {
    write(row) {
      const [eventId, subscriptionId, eventDateTime, requestPayload] = [
        ...['eventId', 'subscriptionId', 'eventDateTime', 'requestPayload'].map((name) => property(row, name)),
      ]
      const eventType = property(property(requestPayload, 'webhook'), 'type')
      const line = { webhookId: property(row, 'id'), eventId, subscriptionId, eventType, eventDateTime, requestPayload }
      output.write(`${escapeInvisible(JSON.stringify(line))}\n`)
      const ids = { eventId: idOf(row, 'eventId'), subscriptionId: idOf(row, 'subscriptionId') }
      log.event('payload_written', { webhookId: idOf(row), ...ids, to: path ?? 'stdout' })
    },
    close(isWhole) {
      file?.close(isWhole)
    },
  }
}

/** Writes the payloads of these events and webhooks. */
async function writeAll(ids: readonly string[], payloads: Payloads, session: Session, io: Io) {
  const { client, connection, policy, target } = session
  const { clock, signal } = io
  const left = new Set(ids)
  const written = new Set<string>()
  /** A row may appear twice: with its event, and on another page. */
  function take(row: unknown): void {
    const meant = [idOf(row), idOf(row, 'eventId')].filter((id) => ids.includes(id))
    if (meant.length === 0) return
    for (const id of meant) left.delete(id)
    if (written.has(idOf(row))) return
    written.add(idOf(row))
    payloads.write(row)
  }
  const rows = { onExactRow: take }
  const noting = {
    ...client,
    list: (...[query, ...more]: Parameters<typeof client.list>) => client.list({ ...query, ...rows }, ...more),
  }
  const lister = createLister({ policy, clock, zone: connection.zone, status: 'any', client: () => noting })
  /** Why an event may have further records. */
  const ofEvents: string[] = []
  for (const id of ids) {
    const found = await lister.ofEvent(id, signal).catch((error: unknown) => {
      // The search by time finds its records too.
      if (!(error instanceof EventUnlistable)) throw error
      return undefined
    })
    if (found?.problem !== undefined && found.records.length > 0) ofEvents.push(`Event ${id}: ${found.problem}`)
    await drained(io.stdout, io)
  }
  if (left.size === 0) return { notFound: [], ofEvents }
  await learnTime(client, signal)
  /** Why those not found may exist nevertheless. */
  let problem: string | undefined
  // The platform cannot list webhooks by id.
  for await (const found of lister.ofIds([...left], signal)) {
    io.progress(() => `Looking for ${left.size} webhooks in the records of ${target} ...`)
    await drained(io.stdout, io)
    problem = found.problem
  }
  return { notFound: [...left], ofEvents, problem: left.size > 0 ? problem : undefined }
}

async function writePayloads(io: Io, options: CommandFlags, given: string[]): Promise<ExitCode> {
  const ids = [...new Set(given.map((id) => uuidOf(id, 'id')))]
  const { output, show } = options
  if (output === undefined && io.stdout.isTTY === true && show !== true)
    throw new UsageError('payloads contain names and accounts: use --output FILE, a pipe, or --show')
  return inSession(io, options, async (session) => {
    const payloads = openPayloads(output, session, io)
    let isWhole = false
    try {
      const { notFound, ofEvents, problem } = await writeAll(ids, payloads, session, io)
      isWhole = problem === undefined
      if (problem !== undefined) io.stderr.write(`${visibleText(problem)}\n`)
      if (output !== undefined && !isWhole) io.stderr.write(`${cell(output)} was not written.\n`)
      for (const text of ofEvents) io.stderr.write(`${visibleText(text)}\n`)
      const what = isWhole ? 'no event and no recent webhook has this id' : 'was not found'
      for (const id of notFound) io.stderr.write(`${cell(id)}: ${what}\n`)
      return notFound.length + ofEvents.length === 0 ? exitCode.done : exitCode.incomplete
    } finally {
      payloads.close(isWhole)
    }
  })
}

export async function payloadCommand(io: Io, options: CommandFlags, ids: string[]): Promise<ExitCode> {
  try {
    return await writePayloads(io, options, ids)
  } catch (error) {
    throw asUsage(error, '', [options.output])
  }
}
