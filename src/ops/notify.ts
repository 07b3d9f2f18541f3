// Notifies an address when a person is needed, and when all is well again: one POST for each change. @see docs/status.md "Notifications"
import type { NotificationEvent } from '../observe/events.ts'
import { TransportError, type Transport } from '../platform/http/http.ts'
import { every, type Clock } from '../runtime/clock.ts'
import type { Level, StatusDocument } from './status-document.ts'
import { prefixed } from './words.ts'

export interface NotifyOptions {
  /** `notify.url`. */
  url: string
  /** `server.pageUrl`. */
  pageUrl: string | undefined
  /** `server.commandPrefix`. */
  commandPrefix: string
  status: () => StatusDocument
  /** True on standby: the leader notifies. */
  isMuted: () => boolean
  transport: Transport
  clock: Clock
  emit: (event: NotificationEvent) => void
}

const lookMs = 10_000
/** A level counts when it has lasted for this long, and a notification that failed is repeated after it. */
const settledMs = 60_000
const timeoutMs = 10_000
/** The answer is not read. */
const maxBytes = 65_536

/** Retries that are under way need nobody: they count as well. */
const toldAs = (level: Level): Level => (level === 'working' ? 'well' : level)

/** `text` is what chat services show; the other fields are for programs. Nothing of a webhook's content. */
function bodyOf(
  { instance, missing, now, recovered, summary }: StatusDocument,
  { commandPrefix, pageUrl }: NotifyOptions,
): object {
  const { headline, level, runbook } = summary
  const advice = prefixed(summary.advice, commandPrefix)
  const link = pageUrl ?? (runbook?.startsWith('http') === true ? runbook : null)
  const text = [`${instance}: ${headline}`, ...(advice === '' ? [] : [advice]), ...(link === null ? [] : [link])]
  return {
    text: text.join('\n'),
    instance,
    level: toldAs(level),
    headline,
    advice,
    missing,
    recoveredLastDay: recovered.lastDay,
    at: now,
    link,
  }
}

/** Looks every ten seconds, and posts until `signal`. A process that starts well says nothing. Rejects with the signal's reason. */
export async function notifyChanges(options: NotifyOptions, signal: AbortSignal): Promise<void> {
  const { clock, emit, isMuted, status, transport } = options
  const url = new URL(options.url)
  let told: Level = 'well'
  let seen: Level = told
  let since = clock.monotonic()

  async function post(document: StatusDocument): Promise<{ isSent: boolean; detail: string }> {
    try {
      const { status: code } = await transport({
        method: 'POST',
        url,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(bodyOf(document, options)),
        timeoutMs,
        maxBytes,
        signal,
      })
      return { isSent: code >= 200 && code <= 299, detail: `HTTP ${code}` }
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof TransportError)) throw error
      return { isSent: false, detail: error.reason }
    }
  }

  await every(lookMs, clock, signal, async () => {
    if (isMuted()) return
    const document = status()
    const level = toldAs(document.summary.level)
    if (level !== seen) since = clock.monotonic()
    seen = level
    if (level === told || clock.monotonic() - since < settledMs) return
    const { detail, isSent } = await post(document)
    emit({ type: 'notification', level, result: isSent ? 'sent' : 'failed', detail })
    if (isSent) told = level
    else since = clock.monotonic()
  })
}
