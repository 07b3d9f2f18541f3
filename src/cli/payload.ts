// `webhook-reconciler payload`: writes what the platform sent, for the receiver's own import. It holds names and accounts: never to a log, and to a terminal only when asked. @see SECURITY.md
import { property } from '../platform/http/response.ts'
import { maxPageSize } from '../platform/wire.ts'
import { exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import { escapeInvisible } from '../runtime/redact.ts'
import type { CommandFlags } from './flags.ts'
import { cell } from './format.ts'
import { asUsage, type Io, type Output } from './io.ts'
import { learnTime, listSpan, uuidOf } from './compare/span.ts'
import { inSession, type Session } from './session.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** Bytes that may wait for a slow reader of stdout. */
const maxWaiting = 1024 * 1024
const drainMs = 20

export interface Payloads {
  /** Writes those of an event; of these webhooks alone where they are given. Returns how many, and rejects as list calls do. */
  write(eventId: string, webhookIds?: readonly string[]): Promise<number>
  /** Without a whole end the file is as it was. */
  close(isWhole: boolean): void
}

const textAt = (row: unknown, name: string): string => {
  const value = property(row, name)
  return typeof value === 'string' ? value.toLowerCase() : ''
}

/** To a file that its owner alone may read, or to stdout. */
export function openPayloads(path: string | undefined, session: Session, io: Io): Payloads {
  const { client, log, progress } = session
  const file = path === undefined ? undefined : io.openOutput(path, { isPrivate: true })
  const output: Output = file ?? io.stdout

  function writeRow(row: unknown): void {
    const payload = property(row, 'requestPayload')
    const [webhookId, eventId, subscriptionId] = ['id', 'eventId', 'subscriptionId'].map((name) => property(row, name))
    const eventType = property(property(payload, 'webhook'), 'type')
    const line = {
      webhookId,
      eventId,
      subscriptionId,
      eventType,
      eventDateTime: property(row, 'eventDateTime'),
      requestPayload: payload,
    }
    progress.clear()
    output.write(`${escapeInvisible(JSON.stringify(line))}\n`)
    const ids = {
      webhookId: textAt(row, 'id'),
      eventId: textAt(row, 'eventId'),
      subscriptionId: textAt(row, 'subscriptionId'),
    }
    log.event('payload_written', { ...ids, to: path ?? 'stdout' })
  }

  return {
    async write(eventId, webhookIds) {
      const seen = new Set<string>()
      const onExactRow = (row: unknown): void => {
        const id = textAt(row, 'id')
        const isMeant = textAt(row, 'eventId') === eventId.toLowerCase() && (webhookIds?.includes(id) ?? true)
        if (!isMeant || seen.has(id)) return
        seen.add(id)
        writeRow(row)
      }
      await client.list({ eventId, page: 0, size: maxPageSize, onExactRow }, io.signal)
      while ((output.writableLength ?? 0) > maxWaiting) await io.clock.sleep(drainMs, io.signal)
      return seen.size
    },
    close(isWhole) {
      file?.close(isWhole)
    },
  }
}

/** Events of webhooks, of any status, the newest first: the platform lists no webhook by its id. */
async function eventsOf(webhookIds: readonly string[], session: Session, io: Io): Promise<Map<string, string>> {
  const { client, config, connection, policy, progress, target } = session
  const { clock, signal: stop } = io
  const missing = new Set(webhookIds)
  const events = new Map<string, string>()
  const now = await learnTime(client, stop)
  const edges = [now + dayMs, now - hourMs, now - dayMs, now - Math.max(dayMs, config.window.lookback)]
  const second = (at: number): number => Math.floor(connection.zone.toLocal(at) / 1000)
  const spans = edges.slice(1).map((from, index) => ({ from: second(from), to: second(edges[index] ?? now) }))
  if (missing.size === 0) return events
  for (const span of spans) {
    for await (const { listed } of listSpan(span, { client, monotonic: clock.monotonic, ...policy.sweep, stop })) {
      for (const { eventId, id } of listed?.records ?? [])
        if (missing.delete(id.toLowerCase())) events.set(id.toLowerCase(), eventId)
      progress.show(() => `Looking for ${missing.size} webhooks in the records of ${target} ...`)
      if (missing.size === 0) return events
    }
  }
  return events
}

async function writePayloads(io: Io, options: CommandFlags, given: string[]): Promise<ExitCode> {
  const ids = [...new Set(given.map((id) => uuidOf(id, 'id')))]
  const { output, show } = options
  if (output === undefined && io.stdout.isTTY === true && show !== true)
    throw new UsageError('payloads hold names and accounts: give --output FILE, pipe them on, or add --show')
  return inSession(io, options, async (session) => {
    const payloads = openPayloads(output, session, io)
    let isWhole = false
    try {
      const others: string[] = []
      for (const id of ids) if ((await payloads.write(id)) === 0) others.push(id)
      const events = await eventsOf(others, session, io)
      const notFound: string[] = []
      for (const id of others) {
        const eventId = events.get(id)
        if (eventId === undefined || (await payloads.write(eventId, [id])) === 0) notFound.push(id)
      }
      isWhole = true
      session.progress.clear()
      for (const id of notFound) io.stderr.write(`${cell(id)}: neither an event nor a webhook of window.lookback\n`)
      return notFound.length === 0 ? exitCode.done : exitCode.incomplete
    } finally {
      payloads.close(isWhole)
    }
  })
}

/** Runs `payload`. */
export async function payloadCommand(io: Io, options: CommandFlags, ids: string[]): Promise<ExitCode> {
  try {
    return await writePayloads(io, options, ids)
  } catch (error) {
    throw asUsage(error, '', [options.output])
  }
}
