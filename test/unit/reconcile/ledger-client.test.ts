// The ledger's response as it comes in pieces: what is a key, what is no books at all, and how much is read of it.
import { expect, test } from 'vitest'
import { LedgerFailure, ledgerKeys } from '../../../src/reconcile/books/ledger-client.ts'
import { TransportError, type HttpRequest, type Transport } from '../../../src/platform/http/http.ts'

const span = { from: Date.UTC(2026, 0, 15, 10), until: Date.UTC(2026, 0, 15, 11) }
const uuid = (n: number): string => `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`

interface Given {
  status?: number
  /** The connection ends so after the pieces. */
  fails?: Error
  pieces?: Iterable<string>
}

/** Gives a piece a turn, as a socket does. */
function answering({ fails, pieces = [], status = 200 }: Given, asked: HttpRequest[] = []): Transport {
  return async (request) => {
    asked.push(request)
    for (const piece of pieces) {
      request.signal?.throwIfAborted()
      if (status < 300) request.onChunk?.(Buffer.from(piece))
      await Promise.resolve()
    }
    if (fails !== undefined) throw fails
    return { status, headers: {}, body: '', sentAt: 0, receivedAt: 0 }
  }
}

const never = new AbortController().signal

async function keysFrom(given: Given, { asked, signal = never }: { asked?: HttpRequest[]; signal?: AbortSignal } = {}) {
  const keys: string[] = []
  const options = { url: 'http://receiver.invalid/ledger?team=a', kind: 'eventId' as const }
  for await (const key of ledgerKeys(span, { ...options, transport: answering(given, asked) }, signal)) keys.push(key)
  return keys
}

test('keys come whole, wherever a piece ends; the question names the span in UTC', async () => {
  const asked: HttpRequest[] = []
  const text = `{"eventId":"${uuid(1).toUpperCase()}"}\n{"eventId":"${uuid(2)}"}\r\n`
  const pieces = [text.slice(0, 3), text.slice(3, 50), text.slice(50)]
  expect(await keysFrom({ pieces }, { asked })).toEqual([uuid(1), uuid(2)])
  expect(asked[0]?.url.href).toBe(
    'http://receiver.invalid/ledger?team=a&from=2026-01-15T10%3A00%3A00Z&until=2026-01-15T11%3A00%3A00Z',
  )
  expect(asked[0]).toMatchObject({ direct: true, headers: { 'accept-encoding': 'identity' } })
})

test('an answer without a line holds no key, and is no failure', async () => {
  expect(await keysFrom({})).toEqual([])
  expect(await keysFrom({ pieces: ['eventId\n'] })).toEqual([])
})

const refusals: Record<string, [Given, LedgerFailure['result'], RegExp]> = {
  'an error': [{ status: 503 }, 'refused', /^returns HTTP 503$/],
  'a redirect': [{ status: 302, pieces: [`${uuid(1)}\n`] }, 'refused', /^returns HTTP 302$/],
  'a page': [
    { pieces: ['<!doctype html>\n<h1>Sign in</h1>\n'] },
    'unusable',
    /^cannot be parsed: it is a page of HTML/,
  ],
  'JSON of another form': [{ pieces: ['[]\n'] }, 'unusable', /^cannot be parsed: it is one JSON array/],
  'none in time': [
    { fails: new TransportError('timeout', 'DEADLINE') },
    'no-answer',
    /^sent no full response: timeout \(DEADLINE\)$/,
  ],
}

test.each(Object.entries(refusals))('%s is no books', async (_, [given, result, message]) => {
  const failure = await keysFrom(given).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(LedgerFailure)
  expect(failure).toMatchObject({ result, message: expect.stringMatching(message) as unknown })
})

test('more lines than fit into the memory are refused before the rest is there', async () => {
  const piece = `${uuid(7)}\n`.repeat(1000)
  const asked: HttpRequest[] = []
  let lines = 0
  const transport = answering({ pieces: [piece, piece, piece] }, asked)
  const options = { url: 'http://receiver.invalid/', kind: 'eventId', transport, maxLines: 1500 } as const
  const read = async (): Promise<void> => {
    for await (const key of ledgerKeys(span, options, never)) lines += key.length > 0 ? 1 : 0
  }
  await expect(read()).rejects.toThrow('has more than 1,500 lines')
  expect(lines).toBe(1500)
  expect(asked[0]?.signal?.aborted).toBe(true)
})

test('a bug, and the end of the daemon, are thrown as they are', async () => {
  const bug = new TypeError('a bug')
  await expect(keysFrom({ pieces: [`${uuid(1)}\n`], fails: bug })).rejects.toBe(bug)
  const stop = new AbortController()
  stop.abort(new Error('SIGTERM'))
  await expect(keysFrom({ pieces: [`${uuid(1)}\n`] }, { signal: stop.signal })).rejects.toThrow('SIGTERM')
})
