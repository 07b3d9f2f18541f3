// The sandbox on the wire: node:http in, an answer out, whole or broken as told. Not on a framework, because it must reach the
// socket: to reset it, to cut a body or to let it drip.
import type { ServerResponse } from 'node:http'
import type { Clock } from '../src/runtime/clock.ts'
import type { Answer } from './exchange.ts'

export interface Sending {
  clock: Clock
  signal: AbortSignal
  /** Value of the `Date` header, epoch milliseconds; undefined: no such header. */
  date: number | undefined
}

/** Sends the answer as its `wire` says. Resolves when it has been handed over, or never will be. */
export async function send(response: ServerResponse, answer: Answer, sending: Sending): Promise<void> {
  const { wire } = answer
  if (response.destroyed || wire.kind === 'hang') return
  if (wire.kind === 'reset') {
    response.socket?.resetAndDestroy()
    return
  }
  const body = Buffer.from(answer.body)
  response.sendDate = false
  response.writeHead(answer.status, headersOf(answer, body.length, sending.date))
  switch (wire.kind) {
    case 'whole':
      response.end(body)
      return
    case 'cut':
      response.write(body.subarray(0, Math.floor(body.length * wire.share)), () => response.socket?.destroy())
      return
    case 'drip':
      await drip(response, body, wire, sending)
      return
  }
}

/** Headers of an answer as they go out. */
export function headersOf(
  { headers }: Answer,
  length: number,
  date: number | undefined,
): Record<string, string | number> {
  const { date: own, ...others } = headers
  const dateHeader = own ?? (date === undefined ? '' : new Date(date).toUTCString())
  return { ...others, ...(dateHeader === '' ? {} : { date: dateHeader }), 'content-length': length }
}

async function drip(
  response: ServerResponse,
  body: Buffer,
  { bytes, everyMs }: { bytes: number; everyMs: number },
  { clock, signal }: Sending,
): Promise<void> {
  for (let at = 0; at < body.length; at += bytes) {
    if (response.destroyed) return
    response.write(body.subarray(at, at + bytes))
    await clock.sleep(everyMs, signal)
  }
  response.end()
}

/** Path and query of a request target. */
export function splitTarget(target: string): { path: string; query: URLSearchParams } {
  const [path = '', ...query] = target.split('?')
  return { path, query: new URLSearchParams(query.join('?')) }
}
