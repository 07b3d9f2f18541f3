// Asks the receiver's ledger which events of a span it has processed: a URL that returns keys, one per line. @see docs/compare.md "The ledger"
import { Readable } from 'node:stream'
import { isSuccess, TransportError, type Transport } from '../../platform/http/http.ts'
import { UsageError } from '../../runtime/errors.ts'
import { keyOf, readKeys, type KeyKind } from './read-keys.ts'

/** Results of a request. `mismatch`: understood, but of another platform, time or key. */
export const ledgerResults = ['ok', 'no-answer', 'refused', 'unusable', 'mismatch'] as const
export type LedgerResult = (typeof ledgerResults)[number]

/** The ledger was unusable: nothing is known about the span, and nothing counts as lost. */
export class LedgerFailure extends Error {
  readonly result: Exclude<LedgerResult, 'ok'>

  constructor(result: LedgerFailure['result'], message: string) {
    super(message)
    this.result = result
  }
}

export interface LedgerClientOptions {
  url: string
  kind: KeyKind
  transport: Transport
  /** A span with more lines is rejected: its keys must fit into memory beside the backlog. Default 1,000,000. */
  maxLines?: number
}

const timeoutMs = 60_000
const maxBytes = 512 * 1024 * 1024
const lineFeed = 10

const utcSecond = (at: number): string => `${new Date(at).toISOString().slice(0, 19)}Z`

function failureOf(error: unknown): unknown {
  if (!(error instanceof TransportError)) return error
  return new LedgerFailure('no-answer', `sent no full response: ${error.reason} (${error.code})`)
}

/** The body as a stream: a large one is parsed in pieces. */
async function* bodyOf(url: URL, transport: Transport, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const over = new AbortController()
  const body = new Readable({
    objectMode: true,
    read: () => undefined,
    destroy(error, done) {
      over.abort()
      done(error)
    },
  })
  const end = (error: unknown): void => void body.destroy(error as Error)
  transport({
    method: 'GET',
    url,
    headers: { accept: 'application/x-ndjson, text/csv', 'accept-encoding': 'identity', connection: 'close' },
    ...{ timeoutMs, maxBytes, direct: true, signal: AbortSignal.any([signal, over.signal]) },
    onChunk: (chunk) => body.push(chunk),
  }).then(
    ({ status }) => {
      if (isSuccess(status)) body.push(null)
      else end(new LedgerFailure('refused', `returns HTTP ${status}`))
    },
    (error: unknown) => {
      end(failureOf(error))
    },
  )
  let last: number | undefined
  for await (const piece of body as AsyncIterable<Uint8Array>) {
    last = piece.at(-1) ?? last
    yield piece
  }
  if (last !== undefined && last !== lineFeed) {
    throw new LedgerFailure('unusable', 'ends mid-line, like a truncated response: end each line with a line break')
  }
}

/**
 * The keys of the processed events from `from` until before `until`, in epoch ms.
 * Rejects with LedgerFailure, or with the signal's reason.
 */
export async function* ledgerKeys(
  { from, until }: Record<'from' | 'until', number>,
  { kind, maxLines = 1_000_000, transport, url: address }: LedgerClientOptions,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const url = new URL(address)
  url.searchParams.set('from', utcSecond(from))
  url.searchParams.set('until', utcSecond(Math.ceil(until / 1000) * 1000))
  let lines = 0
  try {
    for await (const parts of readKeys(bodyOf(url, transport, signal), kind, { mayBeEmpty: true })) {
      lines += 1
      if (lines > maxLines) throw new LedgerFailure('unusable', `has more than ${maxLines.toLocaleString('en')} lines`)
      yield keyOf(parts)
    }
  } catch (error) {
    if (error instanceof UsageError) throw new LedgerFailure('unusable', `cannot be parsed: ${error.message}`)
    throw error
  }
}
