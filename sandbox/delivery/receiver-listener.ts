// The receiver's HTTP listener: its health, its ledger, and the import of lost events.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { readBody } from '../api/http.ts'
import type { ReceiverLedger } from './ledger.ts'
import type { Receiver } from './receiver.ts'

/** `GET /health`, `GET /ledger?from&until`, `POST /ledger` with the lines of `webhook-reconciler payload`. */
export function createReceiverListener(receiver: Receiver, ledger: ReceiverLedger): RequestListener {
  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://receiver.invalid')
    if (!receiver.isUp) request.socket.resetAndDestroy()
    else if (pathname !== '/ledger') response.end('ok')
    else if (request.method === 'POST') response.end(`${ledger.take(await readBody(request))} taken\n`)
    else {
      const books = ledger.answer(searchParams)
      if (books === undefined) {
        request.socket.resetAndDestroy()
        return
      }
      const { body, contentType, isCut, status } = books
      response.writeHead(status, { 'content-type': contentType })
      if (isCut) response.write(body, () => request.socket.destroy())
      else response.end(body)
    }
  }

  return (request, response) => {
    // An invalid span or line must not end the sandbox.
    respond(request, response).catch(() => response.writeHead(400).end())
  }
}
