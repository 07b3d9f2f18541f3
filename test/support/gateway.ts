// A gateway between daemon and platform that changes answers: for what a platform never says, but something in between may.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { request as send } from 'undici'
import { closeServer, listen, readBody } from '../../src/sandbox/listen.ts'

export interface Exchange {
  method: string
  path: string
  query: URLSearchParams
  status: number
  body: string
}

/** What goes out instead; left out means as it came. A function writes the answer itself. */
export type Change =
  { status?: number; headers?: Record<string, string>; body?: string | Buffer } | ((response: ServerResponse) => void)

export interface Gateway extends AsyncDisposable {
  /** Stands in the place of the origin behind it. */
  origin: string
  /** Changes answers from now on; undefined: no more. */
  change(answer: ((exchange: Exchange) => Change | undefined) | undefined): void
}

/** Starts a gateway before an origin such as `http://127.0.0.1:41234`. */
export async function startGateway(behind: string): Promise<Gateway> {
  let changeOf: (exchange: Exchange) => Change | undefined = () => undefined

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request)
    const { authorization = '', 'content-type': contentType = '' } = request.headers
    const method = request.method === 'PATCH' ? 'PATCH' : 'GET'
    const answer = await send(`${behind}${request.url ?? ''}`, {
      method,
      headers: { authorization, ...(contentType === '' ? {} : { 'content-type': contentType }) },
      body: method === 'PATCH' ? body : null,
    })
    const { pathname, searchParams } = new URL(request.url ?? '', behind)
    const came = {
      method,
      path: pathname,
      query: searchParams,
      status: answer.statusCode,
      body: await answer.body.text(),
    }
    const change = changeOf(came) ?? {}
    if (typeof change === 'function') {
      change(response)
      return
    }
    response.sendDate = false
    const date = [answer.headers['date'] ?? []].flat()[0]
    response.writeHead(change.status ?? came.status, {
      'content-type': 'application/json',
      ...(date === undefined ? {} : { date }),
      ...change.headers,
    })
    response.end(change.body ?? came.body)
  }

  const server = createServer((request, response) => {
    pass(request, response).catch(() => {
      response.destroy()
    })
  })
  const origin = await listen(server, '127.0.0.1', 0)
  return {
    origin,
    change(answer) {
      changeOf = answer ?? (() => undefined)
    },
    [Symbol.asyncDispose]: () => closeServer(server),
  }
}
